"""Bed: the programs that a round is played on, in a folder that goes with it: a PostgreSQL of its own, or three that
Patroni keeps, and three servers over them. It starts, stops, freezes and kills; what is said to them is another's.
"""

import asyncio
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import psutil
import psycopg

# A bound on whatever is waited for.
PATIENCE = 120


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def postgres_bin():
    """Where PostgreSQL's programs are."""
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not places:
        sys.exit("no PostgreSQL is there")
    return places[-1].parent


def as_other():
    """How PostgreSQL's programs are run: they refuse to be root's."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]


def python_for_others():
    """A Python that another user may run, of the version that packages were fetched for."""
    usual = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return usual if os.path.exists(usual) else sys.executable


class Root:
    """The folder of a round."""

    def __init__(self, tools):
        self.tools = pathlib.Path(tools)
        memory = pathlib.Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="holdpoint-chaos", dir=memory if roomy else None))
        self.path.chmod(0o755)
        self.processes = []

    def folder(self, name, private=False):
        """A folder in it, PostgreSQL's user's where that is wanted."""
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        if private and os.geteuid() == 0:
            who = pwd.getpwnam("postgres")
            os.chown(path, who.pw_uid, who.pw_gid)
            path.chmod(0o700)
        return path

    def spawn(self, words, log, env=None):
        """Starts a program; its words go to a file."""
        file = open(self.path / log, "ab")
        process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            env={**os.environ, **(env or {})}, start_new_session=True, cwd="/")
        self.processes.append(process)
        return process

    def clear(self, keep):
        """Ends everything that was started here, and nothing else."""
        for process in reversed(self.processes):
            for one in family(process.pid):
                quietly(one.resume)
                quietly(one.kill)
            process.poll()
        for postmaster in self.path.glob("**/postmaster.pid"):
            for one in family(pid_in(postmaster)):
                quietly(one.resume)
                quietly(one.kill)
        small = self.path / "small"
        if small.is_mount():
            time.sleep(0.5)
            subprocess.run(["umount", "-l", str(small)], check=False)
        if keep:
            print(f"kept: {self.path}")
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def quietly(deed):
    """Does something to a process that may be gone."""
    try:
        deed()
    except psutil.Error:
        pass


def pid_in(file):
    """The process that a postmaster's file names; none where there is no such file."""
    try:
        return int(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def family(pid):
    """A process and all that come of it, the first first."""
    try:
        first = psutil.Process(pid) if pid else None
        return [first, *first.children(recursive=True)] if first else []
    except psutil.Error:
        return []


SETTINGS = {
    "max_connections": 200, "shared_buffers": "64MB", "wal_level": "replica", "max_wal_senders": 8,
    "synchronous_commit": "on", "fsync": "on", "full_page_writes": "on", "wal_keep_size": "256MB",
}


class Single:
    """One PostgreSQL. Where its disk is to be small, what is stored is on one and its log is not."""

    def __init__(self, root, megabytes=None):
        self.root, self.port = root, free_port()
        base = root.folder("small") if megabytes else root.folder("database", private=True)
        if megabytes:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(base)], check=True)
        self.base, self.data = base, root.folder(f"{base.name}/data", private=True)
        wal = root.folder("wal", private=True)
        run = subprocess.run(
            [*as_other(), str(postgres_bin() / "initdb"), "-D", str(self.data), "-A", "trust", "-U", "holdpoint",
             "-E", "UTF8", "--no-locale", "--no-sync", "--waldir", str(wal / "wal")],
            capture_output=True, text=True, cwd="/", check=False)
        if run.returncode:
            sys.exit(run.stderr)
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        root.spawn([*as_other(), postgres_bin() / "postgres", "-D", self.data, "-p", self.port, "-k", wal,
                    "-c", "listen_addresses=127.0.0.1", *settings], "postgres.log")
        self.hosts = [("127.0.0.1", self.port)]

    def address(self, more=""):
        return f"postgres://holdpoint@127.0.0.1:{self.port}/postgres{more}"

    def admin(self):
        """A connection of whoever looks on."""
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=holdpoint dbname=postgres connect_timeout=3",
                               autocommit=True)

    async def ready(self):
        await until(lambda: quiet(self.admin).close() is None, "PostgreSQL")


class Node:
    """One of three that Patroni keeps."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.port, self.rest = free_port(), free_port()
        root = cluster.root
        self.home = root.folder(name, private=True)
        self.data = self.home / "data"
        auth = {"username": "postgres", "password": "postgres"}
        told = {
            "scope": "holdpoint", "name": name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"},
            "etcd3": {"host": f"127.0.0.1:{cluster.etcd}"},
            "bootstrap": {
                "dcs": {
                    # The shortest that Patroni allows.
                    "ttl": 20, "loop_wait": 2, "retry_timeout": 3, "maximum_lag_on_failover": 1 << 30,
                    "synchronous_mode": cluster.is_sync,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": SETTINGS},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.data), "bin_dir": str(postgres_bin()), "pgpass": str(self.home / "pgpass"),
                "authentication": {"superuser": auth, "replication": auth, "rewind": auth},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
                "parameters": {"unix_socket_directories": str(self.home)},
            },
        }
        self.told = root.path / f"{name}.json"
        self.told.write_text(json.dumps(told))
        self.told.chmod(0o644)
        self.process = None

    def start(self):
        root = self.cluster.root
        self.process = root.spawn([*as_other(), python_for_others(), "-m", "patroni", self.told],
                                  f"{self.name}.log", {"PYTHONPATH": str(root.tools / "site"), "HOME": str(self.home)})

    def postgres(self):
        return family(pid_in(self.data / "postmaster.pid"))

    def keeper(self):
        return family(self.process.pid)

    def kill(self):
        """As when its machine goes."""
        for one in [*self.keeper(), *self.postgres()]:
            quietly(one.kill)
        self.process.wait()

    def freeze(self):
        for one in [*self.keeper(), *self.postgres()]:
            quietly(one.suspend)

    def wake_postgres(self):
        """The database goes on while its keeper does not know yet."""
        for one in self.postgres():
            quietly(one.resume)

    def wake(self):
        self.wake_postgres()
        for one in self.keeper():
            quietly(one.resume)

    def ask(self, path, body=None):
        """What its keeper says; none where it says nothing."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode() or None
        except OSError:
            return None


class Cluster:
    """Three PostgreSQL that Patroni keeps, and an etcd."""

    def __init__(self, root, is_sync):
        self.root, self.is_sync = root, is_sync
        self.etcd, peers = free_port(), free_port()
        client, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{peers}"
        root.spawn([root.tools / "root/usr/bin/etcd", "--data-dir", root.folder("etcd"), "--listen-client-urls", client,
                    "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                    "--initial-cluster", f"default={peer}", "--log-level", "error"], "etcd.log")
        self.nodes = [Node(self, f"node{number}") for number in range(3)]
        self.hosts = [("127.0.0.1", node.port) for node in self.nodes]
        for node in self.nodes:
            node.start()

    def members(self, asked=None):
        """Name, role and state of everybody, as one of them has it."""
        for node in [asked] if asked else self.nodes:
            if node.keeper() and not any(one.status() == psutil.STATUS_STOPPED for one in node.keeper()[:1]):
                told = node.ask("/cluster")
                if told:
                    return json.loads(told).get("members", [])
        return []

    def leader(self, but=None):
        """Who takes writes, if somebody does; another than that."""
        for member in self.members():
            if member["role"] == "leader" and member["state"] == "running" and member["name"] != but:
                return next(node for node in self.nodes if node.name == member["name"])
        return None

    def is_whole(self):
        """Whether all three are there, and a synchronous standby where one is meant."""
        members = self.members()
        roles = [member["role"] for member in members if member["state"] in ("running", "streaming")]
        standby = "sync_standby" if self.is_sync else "replica"
        return len(roles) == 3 and "leader" in roles and standby in roles

    async def ready(self):
        await until(self.is_whole, "a leader with its standbys")
        with self.admin("postgres") as admin:
            admin.execute("create role holdpoint login")
            admin.execute("create database holdpoint owner holdpoint")

    def address(self, more=""):
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"postgres://holdpoint@{hosts}/holdpoint{more}"

    def admin(self, database="holdpoint"):
        hosts, ports = zip(*self.hosts)
        return psycopg.connect(
            f"host={','.join(hosts)} port={','.join(map(str, ports))} user=postgres dbname={database} "
            "target_session_attrs=read-write connect_timeout=3", autocommit=True)


def quiet(deed):
    """What comes of something, or nothing where it fails."""
    try:
        return deed()
    except (psycopg.Error, OSError):
        return None


async def until(holds, what, seconds=PATIENCE):
    """Waits until something holds; how long that took."""
    since = time.monotonic()
    while True:
        try:
            if await asyncio.to_thread(holds):
                return time.monotonic() - since
        except (psycopg.Error, OSError, AttributeError, psutil.Error):
            pass
        if time.monotonic() - since > seconds:
            raise TimeoutError(f"waited {seconds} s for {what}")
        await asyncio.sleep(0.2)


class Server:
    """One server of three."""

    def __init__(self, root, binary, number, flows, env):
        self.root, self.binary, self.number = root, binary, number
        self.flows, self.env = flows, env
        self.home = root.folder(f"server{number}")
        self.listen = f"127.0.0.1:{free_port()}"
        self.process = None

    def start(self, more=None):
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDPOINT_")}
        env = {**env, "HOLDPOINT_LOG": "info", **self.env, **(more or {})}
        file = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--json", "--listen", self.listen, "--data", str(self.home / "data"), "--workflows",
             str(self.flows), "--drain-seconds", "1"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, cwd=self.home, start_new_session=True)
        self.root.processes.append(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def page(self, path):
        """Status and text of a page; 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.listen}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def figure(self, name):
        """A figure of its own; 0 where it has none."""
        for line in self.page("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return 0.0

    def log(self):
        return (self.home / "log").read_text(errors="replace") if (self.home / "log").exists() else ""

    async def ready(self):
        await until(lambda: self.page("/readyz")[0] == 200, f"server {self.number}")
