"""Play: rounds of chaos over real databases, one command each (tests/chaos/run), by hand.

    failover   three PostgreSQL kept by Patroni, with a synchronous standby: the leader is sent away, killed, frozen and woken
    async      the same without one: a leader goes with what only it had, and every server notices
    skew       the clock of one server's machine is minutes off, and steps
    disk       the database's disk is full, and has room again
    versions   two builds side by side (--older PATH)
    takeover   a server is killed, frozen, sent away while it drives runs: how long until another does, and what answers take
"""

import argparse
import asyncio
import random
import subprocess
import sys
import time

import bed
import judge
import rounds
import takeover
from load import Load, flows
from tool import Tool

PLAYS = {"failover": rounds.failover, "async": rounds.lossy, "skew": rounds.skew, "disk": rounds.disk,
         "versions": rounds.versions, "takeover": takeover.takeover}


def database_for(root, name):
    """What a round is played on, and what its address says beside where."""
    if name == "failover":
        return bed.Cluster(root, is_sync=True), ""
    if name == "async":
        return bed.Cluster(root, is_sync=False), "?durability=single"
    if name == "disk":
        return bed.Single(root, megabytes=200), ""
    return bed.Single(root), ""


def env_for(root, name, number, home):
    """What a server finds around it: in a round of clocks, one that is wrong."""
    if name != "skew" or number != 1:
        return {}
    library = next((root.tools / "root/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    clock = home / "clock"
    clock.write_text("+0\n")
    # Time goes on as it does: only where it stands is another.
    return {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}


async def played(args, name, seed):
    """One round; whether everything was as it must be."""
    print(f"{name}, seed {seed}", flush=True)
    root = bed.Root(args.tools)
    is_well = False
    try:
        is_well = await on_bed(args, name, seed, root)
    finally:
        root.clear(args.keep or not is_well)
    return is_well


async def on_bed(args, name, seed, root):
    database, more = database_for(root, name)
    await database.ready()
    env = {"HOLDPOINT_STORE": database.address(more)}
    oldest = args.older if name == "versions" else args.binary
    made = subprocess.run([oldest, "store", "migrate"], env={**env, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"the store was not made: {made.stderr}")
    tool = Tool(seed)
    listening = await tool.start()
    folder = root.folder("flows")
    for flow, text in flows(tool).items():
        (folder / f"{flow}.yaml").write_text(text)
    servers = []
    for number in range(3):
        server = bed.Server(root, oldest, number, folder, env)
        server.newer = args.binary
        server.env = {**env, **env_for(root, name, number, server.home)}
        server.start()
        servers.append(server)
    for server in servers:
        await server.ready()
    # Where something is lost, that is what is told.
    passing = ("gone back", "asked anew", "another id", "put back") if name == "async" else ()
    load = Load(servers, tool, seed, args.people, passing)
    round = rounds.Round(random.Random(seed), args.seconds, load)
    undone = await load.run(PLAYS[name](round, database, servers), 5 if name == "async" else args.grace)
    is_well = await told(name, round, load, database, undone)
    listening.close()
    return is_well


async def told(name, round, load, database, undone):
    """Says what came of a round."""
    figures = judge.counted(load, database)
    print(f"  did: {round.did}")
    print(f"  came of it: {figures}")
    for line in round.figures():
        print(f"  {line}")
    if name == "async":
        # What was lost was lost: it is to be noticed, and the log to say what.
        is_well = figures["rewound"] > 0
        with database.admin() as admin:
            held = admin.execute("select count(*) from holdpoint.log").fetchone()[0]
        print(f"  {held} entries in the store's own log")
        if not is_well:
            print("  WRONG: nobody noticed")
        return is_well
    for bill in undone[:5]:
        print("\n".join(f"  {line}" for line in await judge.diagnosed(load, database, bill)))
    wrong = await judge.judged(load) + ([f"{len(undone)} bills are undone"] if undone else [])
    if name != "async" and figures["rewound"]:
        wrong.append("a loss was told, and nothing was lost")
    if not all(round.did.values()) or not round.did:
        wrong.append("nothing happened")
    for one in wrong[:40]:
        print(f"  WRONG: {one}")
    print(f"  {'WRONG' if wrong else 'well'}: {len(wrong)} of {len(load.bills)} bills and what they were told", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["failover", "async", "skew", "disk"], metavar="ROUND")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is played")
    parser.add_argument("--seconds", type=float, default=60, help="how long at least something is done")
    parser.add_argument("--people", type=int, default=12, help="how many speak at once")
    parser.add_argument("--grace", type=float, default=90, help="seconds for everybody to come to an end")
    parser.add_argument("--seed", type=int, default=None, help="the first round's seed; by chance, if none is given")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--older", help="an older build, for `versions`")
    parser.add_argument("--tools", required=True)
    parser.add_argument("--keep", action="store_true", help="keep the folder, also where all is well")
    args = parser.parse_args()
    unknown = set(args.names) - set(PLAYS)
    if unknown:
        parser.error(f"no such round: {', '.join(sorted(unknown))}")
    if "versions" in args.names and not args.older:
        parser.error("versions: --older says where the older build is")
    first = args.seed if args.seed is not None else int(time.time()) % 1_000_000
    outcomes = []
    for number in range(args.rounds):
        for name in args.names:
            outcomes.append((name, first + number, asyncio.run(played(args, name, first + number))))
    for name, seed, is_well in outcomes:
        print(f"{name} {seed}: {'well' if is_well else 'WRONG'}")
    sys.exit(0 if all(is_well for _, _, is_well in outcomes) else 1)


if __name__ == "__main__":
    main()
