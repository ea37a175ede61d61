"""Takeover: a server that drives runs is killed, frozen or sent away, again and again. How long it takes until another goes on
with each of them is measured where it counts, at the tool that is asked again; and, meanwhile, how long answers take to
questions that the lost one had asked.
"""

import asyncio
import time

import bed

# Of each kind, each time.
RUNS = 5


async def takeover(round, database, servers):
    """The three ways in turn, each time of another server."""
    turn = 0
    while not round.is_over():
        for way in (killed, frozen, sent_away):
            await once(round, servers, turn % len(servers), way)
            turn += 1


async def once(round, servers, lost, way):
    load = round.load
    stub = load.stubs[lost]
    stuck, waiting = [[load.bill(kind) for _ in range(RUNS)] for kind in ("stuck", "bill")]
    for bill in [*stuck, *waiting]:
        await load.begin(bill, stub)
    for bill in stuck:
        await load.answer(bill, stub)
    await bed.until(lambda: all(load.tool.asked[bill.amount] for bill in stuck), "every run to be at its tool")
    since = await way(round, servers[lost])
    others = [other for other in load.stubs if other is not stub]
    for number, bill in enumerate(waiting):
        began = time.monotonic()
        await load.answer(bill, others[number % len(others)])
        round.measure(f"an answer while its server is {way.__name__.replace('_', ' ')}", time.monotonic() - began)
    await bed.until(lambda: all(len(load.tool.asked[bill.amount]) > 1 for bill in stuck), "another to go on")
    for bill in stuck:
        again = load.tool.asked[bill.amount][1][0]
        round.measure(f"another goes on after one was {way.__name__.replace('_', ' ')}", max(0.0, again - since))
    if way is frozen:
        servers[lost].thaw()
    else:
        servers[lost].start()
    await servers[lost].ready()
    for bill in [*stuck, *waiting]:
        await load.follow(bill)
    round.count(f"servers {way.__name__.replace('_', ' ')}")


async def killed(round, server):
    since = time.time()
    server.kill()
    return since


async def frozen(round, server):
    since = time.time()
    server.freeze()
    return since


async def sent_away(round, server):
    """It has a second for what it does (`--drain-seconds`); what counts is how long after its end nobody goes on."""
    server.process.terminate()
    await asyncio.to_thread(server.process.wait)
    return time.time()
