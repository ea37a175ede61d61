"""Checks a bundle that `holdpoint export FILE --run RUN` wrote, or a receipt, with nothing of Holdpoint but its public key.

    python verify.py run.json audit.pub
    python verify.py receipt.json audit.pub

Written from docs/evidence.md alone. It needs the `cryptography` package for Ed25519.
"""

import base64, hashlib, json, math, re, sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit("this needs the `cryptography` package: pip install cryptography")

sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
# What a file says is told in one line, whatever is in it.
plain = lambda text: "".join(letter if letter.isprintable() else "?" for letter in text)


def hold(is_so, what):
    """Says what does not hold, and ends."""
    if not is_so:
        sys.exit(f"wrong: {plain(what)}")


def still_open(what):
    """Nothing is wrong, and nothing is proven yet."""
    print(f"open: {plain(what)}", file=sys.stderr)
    sys.exit(4)


def read(path):
    try:
        return open(path, encoding="utf-8").read()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"cannot read {path}: {error}")


class Number(str):
    """A number as it stands: another program would write it otherwise."""


def whole_number(text):
    """A whole number; `-0` counts nothing."""
    return any_number(text) if text == "-0" or math.isinf(float(text)) else int(text)


def any_number(text):
    """Any other; what no program keeps is none."""
    hold(not math.isinf(float(text)), "a number is too large")
    return float(text)


def unbase(text):
    """What base64 says, in its one spelling."""
    raw = base64.b64decode(text, validate=True)
    hold(base64.b64encode(raw).decode() == text, "base64 has one spelling")
    return raw


def once(members):
    """Of two members of one name one program reads the first and another the last: such a text says nothing."""
    hold(len(dict(members)) == len(members), "a member is given twice")
    return dict(members)


def sound(value, deep=1):
    """Half a character is no text, and what is nested so deep is nothing of ours: other programs refuse both."""
    if isinstance(value, (dict, list)):
        hold(deep < 128, "it is nested too deep")
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            sound(part, deep + 1)
    elif isinstance(value, str):
        value.encode()


def parsed(text, parse_int=whole_number, parse_float=any_number):
    """A text's JSON; NaN and Infinity are none."""
    none = lambda word: hold(False, f"{word} is no JSON")
    value = json.loads(text, object_pairs_hook=once, parse_constant=none, parse_int=parse_int, parse_float=parse_float)
    sound(value)
    return value


def canonical(value):
    """JSON with its keys sorted and no spaces, and numbers as they stand."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return str(value) if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def count(value, what):
    """A number that counts something, in 64 bits: neither 1.0 nor true is one."""
    hold(type(value) is int and 0 <= value < 1 << 64, f"{what} is no number that counts")
    return value


def place(index):
    """A leaf's place in the log; none as long as it has none."""
    return None if index is None else count(index, "`index`")


def hashes(texts):
    """Hashes have one spelling."""
    hold(isinstance(texts, list), "a list of hashes is a list: `[]`, or nothing at all, where there are none")
    hold(all(re.fullmatch("[0-9a-f]{64}", text) for text in texts), "what should be a hash is none")
    return texts


def public(key):
    """A key, as `name+id+base64`; its id is its own. The name has no `+`, and base64 may: the first two part it."""
    name, id, rest = key.split("+", 2)
    raw = base64.b64decode(rest, validate=True)
    is_spelled = name and not re.search(r"\s", name) and base64.b64encode(raw).decode() == rest
    if not is_spelled or raw[:1] != b"\1" or id != sha(name.encode(), b"\n", raw)[:4].hex():
        raise ValueError("no key")
    return Ed25519PublicKey.from_public_bytes(raw[1:])


def made(key, signature, text):
    """Whether a key made a signature."""
    try:
        public(key).verify(signature, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def changed(bundle):
    """The changes of the key. What is none of them is refused, needed or not."""
    keys = bundle.get("keys", [])
    hold(isinstance(bundle.get("key"), (str, type(None))), "`key` is a text, or null")
    hold(isinstance(keys, list), "`keys` lists changes of the key: `[]`, or nothing at all, where there are none")
    for change in keys:
        parts = [change["before"], change["key"], change.get("signature", "")]
        hold(all(isinstance(part, str) for part in parts), "a change of the key has texts")
        unbase(parts[2])
    return keys


def is_signed(change, origin):
    """Whether the key before has signed which comes after it."""
    said = f"holdpoint key change 1\n{origin}\n{change['before']}\n{change['key']}\n"
    return made(change["before"], unbase(change.get("signature", "")), said)


def signed_lines(lines):
    """Who signs, and with what: every line is a signature, whoever's it is."""
    found = [line.split(" ") for line in lines.removesuffix("\n").split("\n")]
    found = [(dash, name, unbase(signature)) for dash, name, signature in found]
    hold(all(dash == "—" and len(raw) > 4 for dash, _, raw in found), "a line below the empty one is no signature")
    return [(name, raw[:4].hex(), raw[4:]) for _, name, raw in found]


def signed(bundle, trusted):
    """The size and the root of a signed head, and whose log it is of: origin, size and root, then an empty line and the signatures."""
    hold(len(bundle["head"].encode()) <= 1 << 16, "a signed head is short")
    text, lines = bundle["head"].split("\n\n")
    origin, size, root, *_ = text.split("\n")
    hold(re.fullmatch("0|[1-9][0-9]{0,19}", size), "the second line of a signed head is its size")
    hold(len(unbase(root)) == 32, "the third line of a signed head is its root")
    signatures, known, changes = signed_lines(lines), trusted, iter(changed(bundle))
    signs = lambda key: any(
        [name, id] == key.split("+", 2)[:2] and made(key, signature, text + "\n") for name, id, signature in signatures
    )
    while not signs(known):
        # Another key signs by now: the one before it has signed which.
        change = next((change for change in changes if change["before"] == known and is_signed(change, origin)), None)
        hold(change, f"{known} did not sign the head, nor which key came after it")
        known = change["key"]
    return count(int(size), "the size"), unbase(root), f"the log {origin}, signed by {known}"


def is_in(leaf, index, proof, size, root):
    """Whether a proof leads from a leaf at that place to the root of a tree of that size (RFC 9162, 2.1.3.2)."""
    node, last = sha(b"\0", leaf.encode()), size - 1
    if index > last:
        return False
    for beside in map(bytes.fromhex, proof):
        if last == 0:
            return False
        if index % 2 or index == last:
            node = sha(b"\1", beside, node)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            node = sha(b"\1", node, beside)
        index, last = index // 2, last // 2
    return last == 0 and node == root


def compact(leaf):
    """A leaf's text."""
    return json.dumps(leaf, separators=(",", ":"), ensure_ascii=False)


# What leaves have, in this order.
LEAVES = {"entry": ["run", "version", "kinds", "link"], "anchor": ["run", "version", "link", "definition"]}
LEAVES |= {"tombstone": ["run", "version", "link"], "log": ["index", "action", "link"], "refusals": ["next", "link"]}


def told(bundle, *names):
    """What a receipt says under one of these names; none where it says nothing. protobuf has `runId`, and numbers as texts."""
    found = [bundle[name] for name in names if name in bundle]
    hold(len(found) < 2, f"`{names[0]}` is given twice")
    return found[0] if found else None


def number(value):
    """A number, or the text of one; none where there is none."""
    return place(int(value) if isinstance(value, str) and re.fullmatch("[0-9]+", value) else value)


def receipt(bundle, trusted):
    """One leaf, and its way to a head; of the run and version that the leaf names, and of no other."""
    leaf, index, proof = bundle["leaf"], number(bundle.get("index")), hashes(bundle.get("proof", []))
    said = parsed(leaf)
    hold(compact(said) == leaf and list(said) == ["leaf", *LEAVES[said["leaf"]]], "the leaf: it is none")
    hold(told(bundle, "leaf_hash", "leafHash") == sha(b"\0", leaf.encode()).hex(), "the leaf: its hash is another")
    run, version = told(bundle, "run_id", "runId"), number(bundle.get("sequence"))
    hold(run in (None, said.get("run")), "`run_id` is not that of the leaf")
    hold(version in (None, said.get("version")), "`sequence` is not that of the leaf")
    changed(bundle)
    if bundle.get("head") in (None, ""):
        still_open("no signed head holds it yet; fetch it again after the next one")
    size, root, log = signed(bundle, trusted)
    is_there = index is not None and is_in(leaf, index, proof, size, root)
    hold(is_there, "the leaf is not in the log: its proof does not lead to the head")
    print(f"ok: {leaf} is in {log}")


# What weighs enough for a leaf, by the event that says it, in the order in which a leaf names it.
KINDS = {"answered": "decision", "voted": "vote", "closed": "closed", "revoked": "revoked", "renewed": "renewed"}
KINDS |= {"started": "fork", "completed": "end", "failed": "end", "cancelled": "end", "ruled": "ruled"}


def kinds(events):
    """What of that events have. One without members is a bare text."""
    hold(all(isinstance(event, str) or len(event) == 1 for event in events), "an event says one thing")
    told = [(event, {}) if isinstance(event, str) else next(iter(event.items())) for event in events]
    found = {KINDS.get(name) for name, body in told if name != "started" or body.get("forked_from") is not None}
    return [kind for kind in dict.fromkeys(KINDS.values()) if kind in found]


def whole_run(bundle, trusted):
    """A run: its chain, its definition, and the leaves that speak of it."""
    form = (bundle["format"], count(bundle["version"], "`version`"))
    hold(form == ("holdpoint-bundle", 1), "it is another form than this script reads")
    changed(bundle)
    run, link, version, is_chained, unchained = bundle["run"], bytes(32), 1, False, 0
    wanted, anchored = {}, None  # the leaves that there must be, by their text: which version each holds

    # The chain: each append holds on to the one before it. What an earlier build wrote, without a chain, comes first.
    for entry in bundle["entries"]:
        payload, first, prev = entry["payload"], version, entry.get("prev")
        hold(count(entry["version"], "`version`") == first, f"{run}: version {first} is missing")
        hold(prev == link.hex() or prev is None and not is_chained, f"{run} at version {first}: the chain is broken")
        is_chained = prev is not None
        link = sha(b"holdpoint entry 1\n", link, first.to_bytes(8, "big"), sha(payload.encode()), run.encode())
        said = parsed(payload)
        secrets, listed = entry.get("secrets", []), hashes(said.get("secrets", []))
        hold(isinstance(secrets, list), "`secrets` is a list, or not there")
        apart = [sha(b"holdpoint secret 1\n", one["salt"].encode(), b"\n", one["json"].encode()).hex() for one in secrets]
        hold(not apart or apart == listed, f"{run} at version {first}: a secret is not what its hash says")
        count(said["at"], "`at`")
        hold(said["events"] and isinstance(said["events"], list), f"{run} at version {first}: it holds no event")
        version += len(said["events"])
        weighty = kinds(said["events"])
        if not is_chained:
            unchained, anchored = version - 1, link.hex()
        elif weighty:
            leaf = {"leaf": "entry", "run": run, "version": first, "kinds": weighty, "link": link.hex()}
            wanted[compact(leaf)] = version - 1

    # The definition: what the first event names, whole or, by an earlier build, its first half.
    begun = parsed(bundle["entries"][0]["payload"])["events"][0]["started"]
    whole = sha(canonical(parsed(bundle["definition"]["json"], parse_float=Number, parse_int=Number)).encode()).hex()
    hold(begun["definition"] in (whole, whole[:32]), f"{run}: another definition than the run began with")
    hold(bundle["definition"]["digest"] == begun["definition"], f"{run}: the definition is given another digest")

    # The leaves: exactly those that the chain asks for, once, and each in the tree that was signed.
    if unchained:
        wanted[compact({"leaf": "anchor", "run": run, "version": unchained, "link": anchored, "definition": whole})] = unchained
    leaves = [(leaf["text"], place(leaf.get("index")), hashes(leaf.get("proof", []))) for leaf in bundle["leaves"]]
    texts = [text for text, _, _ in leaves]
    missing, odd = wanted.keys() - texts, set(texts) - wanted.keys()
    hold(not missing, f"{run}: no leaf says what was decided: {min(missing, default='')}")
    hold(not odd, f"{run}: nothing in the journal is behind a leaf: {min(odd, default='')}")
    hold(len(texts) == len(wanted), f"{run}: a leaf is there twice")
    if bundle.get("head") is None:
        still_open("no head is signed yet; export again after the first one")
    (size, root, log), held, late = signed(bundle, trusted), 0, None
    for text, index, proof in leaves:
        if index is None or index >= size:
            late = text
            continue
        hold(is_in(text, index, proof, size, root), f"{run}: not in the log: {text}")
        held = max(held, wanted[text])
    if late:
        still_open(f"{run}: a leaf came after the head; export again after the next one: {late}")
    if held < version - 1:
        still_open(f"no signed head holds the last events of {run}: anybody can have put them there")
    ending = "it is over" if "end" in weighty else "it is not over, and may have gone on"
    print(f"ok: {run}, {version - 1} events, {len(texts)} leaves in {log}; {ending}")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: verify.py BUNDLE_OR_RECEIPT audit.pub")
    text, trusted = read(sys.argv[1]), read(sys.argv[2]).strip()
    try:
        public(trusted)
    except (IndexError, ValueError):
        sys.exit(f"{sys.argv[2]} is no public key: expected `name+id+key`, as audit.pub has it; the name has no blank and no `+`")
    try:
        bundle = parsed(text)
        is_bundle = any(name in bundle for name in ("format", "entries", "leaves"))
        (whole_run if is_bundle else receipt)(bundle, trusted)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        sys.exit(f"wrong: {sys.argv[1]} is no bundle and no receipt of ours ({type(error).__name__}: {error})")


main()
