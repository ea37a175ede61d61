"""Checks a bundle that `holdpoint export FILE --run RUN` wrote, with nothing of Holdpoint but its public key.

    python verify.py run.json audit.pub

Written from docs/evidence.md alone. It needs the `cryptography` package for Ed25519.
"""

import base64, hashlib, json, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
bundle, (name, _, key) = json.load(open(sys.argv[1])), open(sys.argv[2]).read().strip().split("+", 2)
key = base64.b64decode(key)[1:]
run, link, links, ends, wanted, version = bundle["run"], bytes(32), {}, {}, {}, 1

# What weighs enough for a leaf, by the event that says it.
KINDS = {"answered": "decision", "voted": "vote", "completed": "end", "failed": "end", "cancelled": "end"}
KINDS |= {name: name for name in ("closed", "revoked", "renewed", "ruled")}


def kinds(events):
    for event in events:
        name, body = (event, {}) if isinstance(event, str) else next(iter(event.items()))
        if name == "started" and body.get("forked_from"):
            yield "fork"
        elif name in KINDS:
            yield KINDS[name]


# The chain: each append holds on to the one before it.
for entry in bundle["entries"]:
    payload = entry["payload"].encode()
    assert entry["version"] == version, f"{run}: version {version} is missing"
    assert entry["prev"] in (None, link.hex()), f"{run} at version {version}: the chain is broken"
    link = sha(b"holdpoint entry 1\n", link, version.to_bytes(8, "big"), sha(payload), run.encode())
    told = json.loads(payload)
    apart = [sha(b"holdpoint secret 1\n", one["salt"].encode(), b"\n", one["json"].encode()).hex() for one in entry.get("secrets", [])]
    assert not apart or apart == told.get("secrets"), f"{run} at version {version}: a secret is not what its hash says"
    links[version], events = link.hex(), told["events"]
    wanted[version] = set(kinds(events))
    version += len(events)
    ends[version - 1] = link.hex()

# The definition: what the first event names, whole or, by an earlier build, its first half.
begun = json.loads(bundle["entries"][0]["payload"])["events"][0]["started"]
canonical = json.dumps(json.loads(bundle["definition"]["json"]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
whole = sha(canonical.encode()).hex()
assert begun["definition"] in (whole, whole[:32]), f"{run}: another definition than the run began with"

# The signed head: origin, size and root, then an empty line and the signatures.
text, signatures = bundle["head"].split("\n\n")
_, size, root = text.split("\n")
for line in signatures.splitlines():
    dash, signer, signature = line.split(" ")
    if signer == name:
        Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature)[4:], text.encode() + b"\n")
        break
else:
    sys.exit(f"{name} did not sign the head")

# The leaves: each says what the chain says, and is in the tree that was signed.
for leaf in bundle["leaves"]:
    said, index, last = json.loads(leaf["text"]), leaf["index"], int(size) - 1
    at = said["version"]
    assert said["link"] == (links if said["leaf"] == "entry" else ends)[at], f"{run} at version {at}: another link"
    if said["leaf"] == "entry":
        assert set(said["kinds"]) == wanted.pop(at), f"{run} at version {at}: the leaf says something else"
    else:  # all of it up to there was taken over from an earlier build
        wanted = {version: kinds for version, kinds in wanted.items() if version > at}
    assert index is not None and index <= last, "this leaf came after the head: export again"
    node = sha(b"\0", leaf["text"].encode())
    for beside in map(bytes.fromhex, leaf["proof"]):
        if index % 2 or index == last:
            node = sha(b"\1", beside, node)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            node = sha(b"\1", node, beside)
        index, last = index // 2, last // 2
    assert last == 0 and node == base64.b64decode(root), f"{run} at version {said['version']}: not in the log"

assert not any(wanted.values()), f"{run}: no leaf says what was decided at version {[v for v in wanted if wanted[v]][0]}"
print(f"ok: {run}, {version - 1} events, {len(bundle['leaves'])} leaves in the log that {name} signed")
