"""Checks a bundle that `holdpoint export FILE --run RUN` wrote, or a receipt, with nothing of Holdpoint but its public key.

    python verify.py run.json audit.pub
    python verify.py receipt.json audit.pub

Written from docs/evidence.md alone. It needs the `cryptography` package for Ed25519.
"""

import base64, hashlib, json, sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit("this needs the `cryptography` package: pip install cryptography")

sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()


def hold(is_so, what):
    """Says what does not hold, and ends."""
    if not is_so:
        sys.exit(f"wrong: {what}")


def still_open(what):
    """Nothing is wrong, and nothing is proven yet."""
    print(f"open: {what}", file=sys.stderr)
    sys.exit(4)


def read(path):
    try:
        return open(path, encoding="utf-8").read()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"cannot read {path}: {error}")


def public(key):
    """A key, as `name+id+base64`."""
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(key.split("+", 2)[2])[1:])


def check(key, signature, text):
    """Ends where a key did not make a signature."""
    try:
        public(key).verify(signature, text.encode())
    except InvalidSignature:
        sys.exit(f"wrong: {key.split('+')[0]} did not sign this")


def is_signed(change, origin):
    """Whether the key before has signed which comes after it."""
    said = f"holdpoint key change 1\n{origin}\n{change['before']}\n{change['key']}\n"
    try:
        public(change["before"]).verify(base64.b64decode(change["signature"]), said.encode())
    except InvalidSignature:
        return False
    return True


def signs(key, text, signatures):
    name, id, _ = key.split("+", 2)
    for line in signatures.splitlines():
        dash, signer, signature = line.split(" ")
        signature = base64.b64decode(signature)
        if signer == name and signature[:4].hex() == id:
            check(key, signature[4:], text + "\n")
            return True
    return False


def signed(bundle, trusted, note):
    """The size and the root of a signed head: origin, size and root, then an empty line and the signatures."""
    text, signatures = note.split("\n\n")
    origin, size, root = text.split("\n")
    known, changes = trusted, iter(bundle.get("keys", []))
    while not signs(known, text, signatures):
        # Another key signs by now: the one before it has signed which.
        change = next((change for change in changes if change["before"] == known and is_signed(change, origin)), None)
        if change is None:
            sys.exit(f"wrong: {known} did not sign the head, nor which key came after it")
        known = change["key"]
    return int(size), base64.b64decode(root)


def is_in(leaf, index, proof, size, root):
    """Whether a proof leads from a leaf at that place to the root of a tree of that size (RFC 9162, 2.1.3.2)."""
    node, last = sha(b"\0", leaf.encode()), size - 1
    for beside in map(bytes.fromhex, proof):
        if index % 2 or index == last:
            node = sha(b"\1", beside, node)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            node = sha(b"\1", node, beside)
        index, last = index // 2, last // 2
    return last == 0 and node == root


def once(members):
    """Of two members of one name one program reads the first and another the last: such a text says nothing."""
    hold(len(dict(members)) == len(members), "a member is given twice")
    return dict(members)


def receipt(bundle, trusted):
    """One leaf, and its way to a head."""
    hold(bundle["leaf_hash"] == sha(b"\0", bundle["leaf"].encode()).hex(), "the leaf: its hash is another")
    if not bundle.get("head") or bundle.get("index") is None:
        still_open("no signed head holds it yet; fetch it again after the next one")
    head = signed(bundle, trusted, bundle["head"])
    hold(is_in(bundle["leaf"], bundle["index"], bundle["proof"], *head), "the leaf is not in the log")
    print(f"ok: {bundle['leaf']} is in the log that {trusted.split('+')[0]} signed")


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


def whole_run(bundle, trusted):
    """A run: its chain, its definition, and the leaves that speak of it."""
    hold(bundle["format"] == "holdpoint-bundle" and bundle["version"] == 1, "it is another form than this script reads")
    run, link, links, ends, last, wanted, version = bundle["run"], bytes(32), {}, {}, {}, {}, 1

    # The chain: each append holds on to the one before it.
    for entry in bundle["entries"]:
        payload = entry["payload"].encode()
        hold(entry["version"] == version, f"{run}: version {version} is missing")
        hold(entry["prev"] in (None, link.hex()), f"{run} at version {version}: the chain is broken")
        link = sha(b"holdpoint entry 1\n", link, version.to_bytes(8, "big"), sha(payload), run.encode())
        told = json.loads(payload)
        apart = [sha(b"holdpoint secret 1\n", one["salt"].encode(), b"\n", one["json"].encode()).hex() for one in entry.get("secrets", [])]
        hold(not apart or apart == told.get("secrets"), f"{run} at version {version}: a secret is not what its hash says")
        links[version], events = link.hex(), told["events"]
        wanted[version] = set(kinds(events))
        version += len(events)
        ends[version - 1], last[version - 1] = link.hex(), entry["version"]

    # The definition: what the first event names, whole or, by an earlier build, its first half.
    begun = json.loads(bundle["entries"][0]["payload"])["events"][0]["started"]
    canonical = json.dumps(json.loads(bundle["definition"]["json"], object_pairs_hook=once), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    whole = sha(canonical.encode()).hex()
    hold(begun["definition"] in (whole, whole[:32]), f"{run}: another definition than the run began with")
    hold(bundle["definition"]["digest"] == begun["definition"], f"{run}: the definition is given another digest")

    # The leaves: each says what the chain says, and is in the tree that was signed.
    if not bundle.get("head"):
        still_open("no head is signed yet; export again after the first one")
    size, root = signed(bundle, trusted, bundle["head"])
    held = set()
    for leaf in bundle["leaves"]:
        said, index = json.loads(leaf["text"]), leaf["index"]
        at = said["version"]
        hold(said["link"] == (links if said["leaf"] == "entry" else ends)[at], f"{run} at version {at}: another link")
        if said["leaf"] == "entry":
            hold(at in wanted, f"{run} at version {at}: a leaf is there twice")
            hold(set(said["kinds"]) == wanted.pop(at), f"{run} at version {at}: the leaf says something else")
        else:  # all of it up to there was taken over from an earlier build
            wanted = {version: kinds for version, kinds in wanted.items() if version > at}
        if index is None or index >= size:
            still_open(f"{run} at version {at}: its leaf came after the head; export again after the next one")
        hold(is_in(leaf["text"], index, leaf["proof"], size, root), f"{run} at version {at}: not in the log")
        held.add(at if said["leaf"] == "entry" else last[at])

    hold(not any(wanted.values()), f"{run}: no leaf says what was decided at version {next((v for v in wanted if wanted[v]), 0)}")
    if bundle["entries"][-1]["version"] not in held:
        still_open(f"no signed head holds the last events of {run}: anybody can have put them there")
    print(f"ok: {run}, {version - 1} events, {len(bundle['leaves'])} leaves in the log that {trusted.split('+')[0]} signed")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: verify.py BUNDLE_OR_RECEIPT audit.pub")
    text, trusted = read(sys.argv[1]), read(sys.argv[2]).strip()
    try:
        public(trusted)
    except (IndexError, ValueError):
        sys.exit(f"{sys.argv[2]} is no public key: expected `name+id+key`, as audit.pub has it")
    try:
        bundle = json.loads(text, object_pairs_hook=once)
        (receipt if "leaf" in bundle and "entries" not in bundle else whole_run)(bundle, trusted)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        sys.exit(f"wrong: {sys.argv[1]} is no bundle and no receipt of ours ({type(error).__name__}: {error})")


main()
