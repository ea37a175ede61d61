"""One act of a client, in a process of its own that need not import everything first.

python -I -S act.py SCRIPT ARGUMENT...

What a client imports takes seconds, and its act takes a tenth of one. So a process that has imported what SCRIPT
imports stands by, one for each script (and for the functions of it that an ARGUMENT names, where those import more);
it forks itself for an act, which gets the environment, the folder and the streams of who called, and nothing that an
act before it left behind. Whoever calls first starts it, and it ends when nobody has called for a while. It does
nothing but import: no client, no connection and no thread is there before the fork.
"""

import ast
import fcntl
import json
import os
import socket
import sys
import zlib

# How long it stands by when nobody calls.
IDLE_SECONDS = 30
# How much of what is sent at once is read.
LETTER_BYTES = 1 << 20


def imports(script, arguments):
    """The functions that are named, and what is imported in them and at the top."""
    with open(script, "rb") as file:
        tree = ast.parse(file.read())
    named = [node for node in tree.body if getattr(node, "name", None) in arguments]
    inner = [node for function in named for node in ast.walk(function)]
    nodes = [node for node in [*tree.body, *inner] if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [node.name for node in named], nodes


def stand_by(listener, path, script, names):
    """Imports, then forks for whoever calls."""
    import signal
    import threading

    _, nodes = imports(script, names)
    exec(compile(ast.Module(nodes, []), script, "exec"), {"__name__": "imported"})
    if threading.active_count() != 1:
        raise SystemExit(f"{script}: what it imports begins threads, which no fork has: {threading.enumerate()}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener.settimeout(IDLE_SECONDS)
    while True:
        try:
            caller, _ = listener.accept()
        except TimeoutError:
            # Nobody finds it any more; who had found it is served yet.
            os.unlink(path)
            listener.settimeout(0)
            continue
        except BlockingIOError:
            return
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            act(caller, script)
        caller.close()


def act(caller, script):
    """Becomes the process that was called for."""
    import runpy
    import threading

    letter, streams, _, _ = socket.recv_fds(caller, LETTER_BYTES, 3)
    while not letter.endswith(b"\n"):
        letter += caller.recv(LETTER_BYTES)
    letter = json.loads(letter)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(letter["environment"])
    os.chdir(letter["folder"])

    def end_with_caller():
        # It sends nothing more: when this ends, whoever called is gone, killed perhaps.
        caller.recv(1)
        os._exit(1)

    threading.Thread(target=end_with_caller, daemon=True).start()
    sys.argv = [script, *letter["arguments"]]
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    caller.send(bytes([code]))
    os._exit(code)


def reached(path):
    """A connection to the process that stands by, if there is one."""
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.connect(path)
    except OSError:
        caller.close()
        return None
    return caller


def started(path, script, names):
    """A connection to a process that stands by from now on."""
    import subprocess

    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    number = listener.fileno()
    with open(path + ".log", "w") as log:
        subprocess.Popen(
            [sys.executable, __file__, "--stand-by", str(number), path, script, *names],
            pass_fds=[number], start_new_session=True, cwd="/",
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
    listener.close()
    return reached(path)


def main():
    if sys.argv[1] == "--stand-by":
        _, _, number, path, script, *names = sys.argv
        return stand_by(socket.socket(fileno=int(number)), path, script, names)
    script, *arguments = sys.argv[1:]
    script = os.path.abspath(script)
    names, _ = imports(script, arguments)
    folder = f"/tmp/holdpoint-acts-{os.getuid()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    changed = [os.stat(file).st_mtime_ns for file in (script, __file__)]
    what = repr([sys.executable, script, changed, names]).encode()
    path = f"{folder}/{os.path.basename(script)}-{zlib.crc32(what):08x}"
    caller = reached(path)
    if caller is None:
        with open(path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            caller = reached(path) or started(path, script, names)
    letter = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(caller, [json.dumps(letter).encode() + b"\n"], [0, 1, 2])
    try:
        code = caller.recv(1)
    except ConnectionResetError:
        code = b""
    if code:
        return code[0]
    with open(path + ".log") as log:
        print(f"{script} ended without a word; {log.read()}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
