#!/usr/bin/env python3
"""Makes the stores that `tests/it/store/taken_over.rs` opens, with a binary of the build that wrote them.

    make.py BINARY [FOLDER]

It was run once with the first complete build (commit edcde10), once, into `../second`, with the last one before
records were packed (4a48fe7), and once, into `../third`, with the last one before values lay beside the tree (52e1212); `killed.tar.gz` and `stopped.tar.gz` are never made again, because what those builds have
written is what every later one must read. Kept so that one can see what is in them.
"""
import json, os, pathlib, shutil, signal, socket, subprocess, sys, tarfile, tempfile, threading

HERE = pathlib.Path(__file__).resolve().parent
binary = os.path.abspath(sys.argv[1])
TO = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else HERE
root = pathlib.Path(tempfile.mkdtemp())
shutil.copytree(HERE / "flows", root / "flows")

# Somebody who takes a call and never answers it.
silent = socket.create_server(("127.0.0.1", 0))
called = threading.Event()
threading.Thread(target=lambda: (silent.accept(), called.set(), threading.Event().wait()), daemon=True).start()
cut_off = root / "flows/cut_off.yaml"
cut_off.write_text(cut_off.read_text().replace("127.0.0.1:9/", f"127.0.0.1:{silent.getsockname()[1]}/"))

def call(*words, key=None, may_fail=False):
    words = [binary, *words] if key is None else [binary, "--server", url, "--api-key", key, *words]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 2, 3, 4) and not may_fail:
        sys.exit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout

people = {"clerk": "user", "cfo": "user", "deputy": "user", "eve": "user", "ops": "admin"}
keys = {who: json.loads(call("keys", "add", who, "--role", role, "--json", "--keys", "keys.toml"))["secret"]
        for who, role in people.items()}

def serve():
    words = [binary, "serve", "--json", "--listen", "127.0.0.1:0", "--data", "data", "--workflows", "flows"]
    server = subprocess.Popen([*words, "--keys", "keys.toml"], cwd=root, stdout=subprocess.PIPE, text=True)
    return server, "http://" + json.loads(server.stdout.readline())["listening"]

def pack(name):
    with tarfile.open(TO / f"{name}.tar.gz", "w:gz") as packed:
        for part in ["data", "keys.toml", "secrets.json"]:
            packed.add(root / part, part)
    print(f"{name}.tar.gz: {(TO / f'{name}.tar.gz').stat().st_size} bytes")

server, url = serve()

def start(workflow, *more, words="Bill 7."):
    return call("run", workflow, words, "--no-input", "--json", *more, key=keys["clerk"], may_fail=True)

def inbox(who):
    return json.loads(call("inbox", "--json", key=keys[who]) or "[]")

for workflow in ["tool_gate", "step_gate", "approval", "talk", "escalates", "staged"]:
    start(workflow, "--session", f"of-{workflow}")
for workflow, word in [("granted", "allow_for_run"), ("refused", "deny")]:
    told = start(workflow)
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    request = next(e["request_info"]["request_id"] for e in events if e["type"] == "request_info")
    call("respond", request, word, "--json", key=keys["clerk"], may_fail=True)
if TO != HERE:
    # More than one place holds, and said several times.
    start("talk", "--session", "of-many-words", words=" ".join(f"Bill {number}." for number in range(3000)))
threading.Thread(target=lambda: start("cut_off"), daemon=True).start()
called.wait(60)
server.send_signal(signal.SIGKILL)
server.wait()
(root / "secrets.json").write_text(json.dumps(keys, indent=1))
pack("killed")
# Once more, and stopped as one should: everything is in the tree then, and nothing in the log.
server, url = serve()
server.send_signal(signal.SIGTERM)
server.wait()
pack("stopped")
