"""Load: people who begin bills, answer them and follow them to their end, each at whichever server comes up. What they were
told is kept for the judge. Whatever may pass is tried again with the same key; whatever else a server says is strange.
"""

import asyncio
import collections
import itertools
import json
import random
import time

import grpc
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value
from holdpoint.v1 import orchestrator_pb2 as wire
from holdpoint.v1 import orchestrator_pb2_grpc

# After so long another server is asked: the first may be frozen.
LOOK = 8
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL,
           grpc.StatusCode.DEADLINE_EXCEEDED}
# Of three bills one is refused; one is of a tool that may be asked again, one of a slow one.
KINDS = ["bill", "slow", "again"]
# Those whose tool may be asked more than once.
REPEATED = {"again", "stuck"}


def flows(tool):
    """The workflows, as JSON, which is YAML, too."""
    made = {}
    for name, path, safety in [("bill", "/pay", "unsafe"), ("slow", "/slow", "unsafe"), ("again", "/again", "idempotent"),
                               ("stuck", "/stuck", "idempotent")]:
        made[name] = json.dumps({
            "name": name,
            "models": {"default": {"provider": "scripted", "script": [{"say": "Done."}]}},
            "tools": {"pay": {"provider": "http", "safety": safety, "settings": {
                "method": "POST", "url": tool.url(path), "allow_private": True, "timeout": "1m"}}},
            "gates": [{"name": "money", "tools": ["pay"]}],
            "agents": {"send": {"human_input": False}},
            "pattern": "graph",
            "graph": {"steps": [{"id": "pay", "tool": "pay", "arguments": {"amount": "${input.amount}"}},
                                {"id": "send", "agent": "send"}]},
        })
    return made


class Bill:
    """A bill: what it asks, what was said to that, and what was told of it."""

    def __init__(self, amount, kind, is_yes):
        self.amount, self.kind, self.is_yes = amount, kind, is_yes
        self.run = self.request = self.acknowledged = None
        self.is_over = False
        self.checks = {}
        self.seen = []
        self.at = "begins"

    def __repr__(self):
        return f"{self.kind} {self.amount} ({'yes' if self.is_yes else 'no'}, {self.at}, {self.run})"


class Load:
    """Everybody who speaks."""

    def __init__(self, servers, tool, seed, people, passing=()):
        self.servers, self.tool, self.people = servers, tool, people
        self.dice = random.Random(seed)
        self.numbers = itertools.count(1)
        self.bills, self.strange, self.gaps = [], [], []
        self.refused = collections.Counter()
        self.acknowledged = []
        self.passing = passing
        self.is_over = False
        self.stubs = []
        for server in servers:
            options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.initial_reconnect_backoff_ms", 200)]
            channel = grpc.aio.insecure_channel(server.listen, options=options)
            self.stubs.append(orchestrator_pb2_grpc.OrchestratorStub(channel))

    def any(self):
        return self.dice.choice(self.stubs)

    async def passed(self, error):
        """Waits a moment after a no that passes; keeps any other."""
        code, words = error.code(), error.details() or ""
        self.refused[code.name] += 1
        if code not in PASSING and not any(word in words for word in self.passing):
            self.strange.append(f"{code.name}: {words}")
        await asyncio.sleep(self.dice.uniform(0.05, 0.4))

    async def person(self):
        while not self.is_over:
            bill = self.bill(self.dice.choice(KINDS), self.dice.random() > 0.25)
            await self.begin(bill)
            await self.answer(bill)
            await self.follow(bill)

    def bill(self, kind, is_yes=True):
        """One more, which is judged like all."""
        bill = Bill(next(self.numbers), kind, is_yes)
        self.bills.append(bill)
        return bill

    async def begin(self, bill, at=None):
        """Begins it, at whichever server comes up unless one is named."""
        request = wire.RunWorkflowRequest(workflow_id=bill.kind, idempotency_key=f"start {bill.amount}",
                                          input=json_format.ParseDict({"amount": bill.amount}, Value()))
        while True:
            try:
                told = [event async for event in (at or self.any()).RunWorkflow(request, timeout=LOOK)]
                if told and (asked := asks(told)):
                    bill.run, bill.request, bill.at = told[0].run_id, asked, "asks"
                    return
            except grpc.aio.AioRpcError as error:
                await self.passed(error)

    async def answer(self, bill, at=None):
        word = "approve" if bill.is_yes else "reject"
        await self.say(bill.request, word, f"answer {bill.amount}", at)
        bill.acknowledged, bill.at = time.time(), "answered"
        self.acknowledged.append(time.monotonic())

    async def say(self, request, value, key, at=None):
        said = wire.SendResponsesRequest(idempotency_key=key)
        said.responses[request].CopyFrom(json_format.ParseDict(value, Value()))
        while True:
            try:
                call = (at or self.any()).SendResponses(said, timeout=LOOK)
                # The first event is durable before it is told.
                if await call.read() is not grpc.aio.EOF:
                    call.cancel()
                    return
            except grpc.aio.AioRpcError as error:
                await self.passed(error)

    async def follow(self, bill):
        """Follows a bill from one server to another; where nobody knows whether it was paid, says what the tool knows."""
        while not bill.is_over:
            after = bill.seen[-1].sequence if bill.seen else 0
            request = wire.WatchRunRequest(run_id=bill.run, after_sequence=after)
            told = []
            try:
                async for event in self.any().WatchRun(request, timeout=LOOK):
                    told.append(event)
            except grpc.aio.AioRpcError as error:
                await self.passed(error)
            for event in told:
                after += 1
                if event.sequence != after:
                    self.gaps.append(f"{bill}: {event.sequence} where {after} comes")
                bill.seen.append(event)
            last = bill.seen[-1].WhichOneof("event") if bill.seen else None
            if last in ("completed", "failed", "cancelled"):
                bill.is_over, bill.at = True, last
                return
            asked = asks(bill.seen)
            if asked and asked != bill.request and asked not in bill.checks:
                bill.at = "is asked about"
                happened = bool(self.tool.asked[bill.amount])
                bill.checks[asked] = happened
                value = {"verb": "happened", "result": "paid"} if happened else {"verb": "redo"}
                await self.say(asked, value, f"check {asked}")
            elif not told:
                await asyncio.sleep(0.1)

    async def run(self, playing, grace):
        """Has everybody speak while something is played, and then come to an end; who did not."""
        people = [asyncio.create_task(self.person()) for _ in range(self.people)]
        try:
            await playing
        finally:
            self.is_over = True
        _, left = await asyncio.wait(people, timeout=grace)
        for task in left:
            task.cancel()
        for task in people:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()
        return [bill for bill in self.bills if not bill.is_over]

    def longest_gap(self, since=0.0):
        """The longest time in which nobody's answer was acknowledged, of those that ended since then."""
        pairs = ((earlier, later) for earlier, later in zip(self.acknowledged, self.acknowledged[1:]) if later > since)
        return max((later - earlier for earlier, later in pairs), default=0.0)


def asks(told):
    """The request that a stream ends with, if it waits."""
    last = told[-1] if told else None
    if last is None or last.WhichOneof("event") != "status" or not last.status.HasField("workflow_waiting"):
        return None
    requests = last.status.workflow_waiting.requests
    return requests[0].request_id if requests else None
