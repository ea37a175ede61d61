"""Judge: looks at everything when a round is over: what each server tells of each run, and what the tool was really asked.
It lists what is wrong, and for a bill that did not come to its end everything that may say why.
"""

import asyncio
import collections

import grpc
from holdpoint.v1 import orchestrator_pb2 as wire

import bed
from load import REPEATED


async def told(stub, run):
    """A run from its beginning, as one server tells it."""
    request = wire.WatchRunRequest(run_id=run)
    for _ in range(10):
        try:
            return [event async for event in stub.WatchRun(request, timeout=30)]
        except grpc.aio.AioRpcError as error:
            last = error
            await asyncio.sleep(0.5)
    raise last


async def judged(load):
    """What is wrong."""
    wrong = [f"strange: {one}" for one in sorted(set(load.strange))] + [f"watched: {one}" for one in load.gaps]
    gate = asyncio.Semaphore(8)

    async def of(bill):
        async with gate:
            return await one_bill(load, bill)

    for more in await asyncio.gather(*(of(bill) for bill in load.bills if bill.run)):
        wrong += more
    for number, stub in enumerate(load.stubs):
        left = await stub.ListRequests(wire.ListRequestsRequest(page_size=100), timeout=30)
        known = {bill.run for bill in load.bills if not bill.is_over}
        wrong += [f"server {number}: the inbox still has {request.request_id}"
                  for request in left.requests if request.run_id not in known]
    amounts = {bill.amount for bill in load.bills}
    wrong += [f"somebody paid {amount}, which nobody asked for" for amount in load.tool.asked
              if load.tool.asked[amount] and amount not in amounts]
    return wrong


async def one_bill(load, bill):
    """What is wrong with a bill."""
    wrong, stories = [], []
    for number, stub in enumerate(load.stubs):
        events = await told(stub, bill.run)
        stories.append([event.SerializeToString(deterministic=True) for event in events if event.WhichOneof("event") != "status"])
        if [event.sequence for event in events] != list(range(1, len(events) + 1)):
            wrong.append(f"{bill}: server {number} tells it with a gap")
        answers = collections.Counter(
            event.response_received.request_id for event in events if event.WhichOneof("event") == "response_received")
        if bill.acknowledged and answers[bill.request] != 1:
            wrong.append(f"{bill}: server {number} has its answer {answers[bill.request]} times")
        wrong += [f"{bill}: server {number} has the answer to {request} {answers[request]} times"
                  for request in bill.checks if bill.is_over and answers[request] != 1]
    if bill.is_over and len({len(story) for story in stories}) != 1:
        wrong.append(f"{bill}: servers tell it differently")
    asked = load.tool.asked[bill.amount]
    keys = {key for _, _, key in asked}
    if not bill.is_yes and asked:
        wrong.append(f"{bill}: was refused, and paid {len(asked)} times")
    if bill.is_yes and bill.is_over and not asked:
        wrong.append(f"{bill}: was allowed, and never paid")
    if len(asked) > 1 and bill.kind not in REPEATED:
        wrong.append(f"{bill}: was paid {len(asked)} times: {asked}")
    if len(keys) > 1:
        wrong.append(f"{bill}: was paid by several keys: {asked}")
    return wrong


async def diagnosed(load, database, bill):
    """Everything that may say why a bill did not come to its end."""
    lines = [f"undone: {bill}", f"  the tool was asked: {load.tool.asked[bill.amount]}", f"  checks: {bill.checks}"]
    if not bill.run:
        return lines
    try:
        events = await told(load.stubs[0], bill.run)
        lines += [f"  {event.sequence} {event.WhichOneof('event')}" for event in events[-8:]]
    except grpc.aio.AioRpcError as error:
        lines.append(f"  cannot be watched: {error.code().name} {error.details()}")
    # The id of a run is 26 characters of which the database has the bits.
    sql = """select encode(run, 'hex'), version, status, holder, fence, wake, to_timestamp(updated / 1000.0)
             from holdpoint.runs where status = 'RUNNING' or holder is not null order by updated desc limit 40"""
    with database.admin() as admin:
        lines += [f"  running or held: {row}" for row in admin.execute(sql).fetchall()]
        lines += [f"  replica: {row}" for row in admin.execute(
            "select incarnation, name, address, until, since, clock_timestamp() from holdpoint.replicas").fetchall()]
    for server in load.servers:
        own = [line for line in server.log().splitlines() if bill.run in line]
        lines += [f"  server {server.number}: {line}" for line in own[-12:]]
    return lines


def counted(load, database):
    """The figures that show what really happened."""
    def sum_of(name):
        return sum(int(server.figure(name)) for server in load.servers)
    deeds = sum(len(asked) for asked in load.tool.asked.values())
    checks = sum(len(bill.checks) for bill in load.bills)
    figures = {
        "bills": len(load.bills),
        "acknowledged": len(load.acknowledged),
        "deeds": deeds,
        "asked whether it happened": checks,
        "longest gap (s)": round(load.longest_gap(), 1),
        "refused and tried again": dict(load.refused),
        "reborn": sum_of("holdpoint_replica_reborn_total"),
        "outcomes superseded": sum_of("holdpoint_outcomes_superseded_total"),
        "rewound": sum_of("holdpoint_store_rewound_total"),
        "outcomes kept": sum(server.log().count("it is kept and tried again") for server in load.servers),
        "recovered of itself": sum(server.log().count("did not come home: it is recovered") for server in load.servers),
    }
    if isinstance(database, bed.Cluster):
        with database.admin() as admin:
            row = admin.execute("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)").fetchone()
            figures["timeline"] = int(row[0], 16)
    return figures
