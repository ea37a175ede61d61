"""Rounds: what is done to a bed while people speak, one after another, by chance from a seed that is printed. Each says what
it really did; a round in which nothing happened is no round.
"""

import asyncio
import time

import bed


class Round:
    """A round, and what it did."""

    def __init__(self, dice, seconds, load):
        self.dice, self.seconds, self.load = dice, seconds, load
        self.since = time.monotonic()
        self.did, self.took = {}, {}

    def tell(self, what):
        print(f"  {time.monotonic() - self.since:6.1f} s  {what}", flush=True)

    def count(self, what, by=1):
        self.did[what] = self.did.get(what, 0) + by

    def measure(self, what, seconds):
        """One more figure of a kind: how long something took."""
        self.took.setdefault(what, []).append(seconds)

    def figures(self):
        """What was measured, of each kind: how often, the median, the 99th percentile and the most."""
        for what, took in self.took.items():
            took = sorted(took)
            half, most = took[(len(took) - 1) // 2], took[max(0, -(-len(took) * 99 // 100) - 1)]
            yield f"{what}: {len(took)} times, median {half:.3f} s, 99th percentile {most:.3f} s, most {took[-1]:.3f} s"

    async def rest(self, least, most):
        await asyncio.sleep(self.dice.uniform(least, most))

    def is_over(self):
        return time.monotonic() - self.since > self.seconds


async def failover(round, cluster, servers):
    """The leader is sent away, killed, and frozen until another has its place; then it wakes."""
    deeds = [switch_over, kill_leader, freeze_leader]
    round.dice.shuffle(deeds)
    await round.rest(4, 8)
    while True:
        for deed in deeds:
            began = time.monotonic()
            own = await deed(round, cluster)
            try:
                await bed.until(cluster.is_whole, "all three nodes")
            except TimeoutError as error:
                # A standby of PostgreSQL 15 may stay behind where timelines came quickly one after the other.
                round.tell(f"{error}; what was played until now counts")
                return
            round.tell("all three nodes are there")
            await round.rest(4, 8)
            gap = round.load.longest_gap(began)
            round.measure(f"nobody answered ({deed.__name__})", gap)
            round.measure("of that beyond the database's own", max(0.0, gap - own))
        if round.is_over():
            return


async def switch_over(round, cluster):
    leader = await asyncio.to_thread(cluster.leader)
    told = await asyncio.to_thread(leader.ask, "/switchover", {"leader": leader.name})
    took = await bed.until(lambda: cluster.leader(but=leader.name), "another leader")
    round.tell(f"{leader.name} was sent away ({told.strip()}); another after {took:.1f} s")
    round.count("switchovers")
    return took


async def kill_leader(round, cluster):
    leader = await asyncio.to_thread(cluster.leader)
    leader.kill()
    round.tell(f"{leader.name} was killed")
    took = await bed.until(lambda: cluster.leader(but=leader.name), "another leader")
    round.tell(f"another leads after {took:.1f} s")
    round.count("leaders killed")
    await round.rest(1, 3)
    leader.start()
    return took


async def freeze_leader(round, cluster):
    leader = await asyncio.to_thread(cluster.leader)
    leader.freeze()
    round.tell(f"{leader.name} was frozen")
    took = await bed.until(lambda: cluster.leader(but=leader.name), "another leader")
    round.tell(f"another leads after {took:.1f} s")
    await round.rest(0.5, 4)
    # The database wakes first: for a while it believes that it leads.
    leader.wake_postgres()
    round.tell(f"{leader.name}'s database woke")
    await round.rest(1, 4)
    leader.wake()
    round.tell(f"{leader.name} woke")
    round.count("leaders frozen and woken")
    return took


async def lossy(round, cluster, servers):
    """The leader of a database that acknowledges before others have it goes with what they have not: that is noticed."""
    await round.rest(4, 8)
    leader = await asyncio.to_thread(cluster.leader)
    others = [node for node in cluster.nodes if node is not leader]
    # They hear nothing more, and live: as where the network between them is cut.
    receivers = [one for node in others for one in node.postgres() if "walreceiver" in " ".join(one.cmdline())]
    for one in receivers:
        one.suspend()
    round.tell(f"{len(receivers)} standbys hear nothing more")
    await round.rest(2, 4)
    leader.kill()
    round.tell(f"{leader.name} was killed")
    for one in receivers:
        # As they are: awake, they would read what has come to them.
        bed.quietly(one.kill)
    took = await bed.until(lambda: cluster.leader(but=leader.name), "another leader")
    round.tell(f"another leads after {took:.1f} s")
    round.count("leaders killed with what only they had")

    def noticed():
        return all(server.page("/readyz")[0] == 503 and "gone back" in server.page("/readyz")[1] for server in servers)

    took = await bed.until(noticed, "every server to notice", 60)
    round.tell(f"every server says 503 and why after {took:.1f} s")
    round.count("servers that noticed", len(servers))
    leader.start()


async def skew(round, database, servers):
    """One machine's clock is ten minutes off, then behind, and steps; and what is seen of that is counted."""
    file = servers[1].home / "clock"
    most = 0
    for off in ["+600", "-600", "+3600", "+0"]:
        file.write_text(off + "\n")
        round.tell(f"the clock of server 1 is off by {off} s")
        await round.rest(6, 9)
        seen = await asyncio.to_thread(servers[1].figure, "holdpoint_clock_ahead_ms")
        round.tell(f"server 1 sees {seen / 1000:.1f} s; {(await asyncio.to_thread(servers[1].page, '/readyz'))[1].strip().splitlines()}")
        most = max(most, abs(int(seen)))
        if off != "+0" and abs(seen / 1000 - float(off)) > 2:
            raise AssertionError(f"the clock is off by {off} s, and {seen} ms are seen")
    round.count("most that was seen (s)", most // 1000)
    while not round.is_over():
        await round.rest(1, 2)


async def disk(round, database, servers):
    """The database's disk is filled, and freed."""
    for _ in range(2):
        await round.rest(5, 8)
        filler = database.base / "filler"
        with open(filler, "wb") as file:
            try:
                while True:
                    file.write(b"x" * (64 << 10))
            except OSError:
                pass
        round.tell("the disk is full")

        def says_so():
            pages = [server.page("/readyz") for server in servers]
            return any(status == 503 for status, _ in pages)

        took = await bed.until(says_so, "a server to say that it is full", 60)
        for server in servers:
            status, text = await asyncio.to_thread(server.page, "/readyz")
            round.tell(f"after {took:.1f} s server {server.number} says {status} {text.strip().splitlines()[:1]}")
        with database.admin() as admin:
            count = admin.execute("select count(*) from holdpoint.runs").fetchone()[0]
        round.tell(f"{count} runs are still read")
        await round.rest(3, 5)
        filler.unlink()
        round.tell("there is room again")
        took = await bed.until(lambda: all(server.page("/readyz")[0] == 200 for server in servers), "all to be ready")
        round.tell(f"all are ready after {took:.1f} s")
        round.count("times the disk was full")
    while not round.is_over():
        await round.rest(1, 2)


async def versions(round, database, servers):
    """An older build beside newer ones, of which one after another takes its place."""
    for server in servers:
        await round.rest(4, 6)
        server.kill()
        server.binary = server.newer
        server.start()
        await server.ready()
        round.tell(f"server {server.number} is of the newer build")
        round.count("servers replaced by a newer build")
    await round.rest(3, 5)
