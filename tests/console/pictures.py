"""Puts pictures of the last test run into docs/, in 256 colours: `python3 tests/console/pictures.py`.

Takes those that docs/ has already, and those of the walkthroughs. Look at them before you commit them.
"""

import struct
import sys
import zlib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "target" / "console"
WALKS = ("multi_tier_support", "event_planning", "research_task", "customer_onboarding")


def chunks(data):
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def pixels(data):
    """The rows of a PNG as a browser writes it, three bytes a pixel."""
    header = dict(chunks(data))[b"IHDR"]
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert depth == 8 and kind in (2, 6) and not interlaced, "not as Chromium writes it"
    step = 3 if kind == 2 else 4
    raw = zlib.decompress(b"".join(body for name, body in chunks(data) if name == b"IDAT"))
    stride, before, rows = width * step, bytes(width * step), []
    for y in range(height):
        filtered = raw[y * (stride + 1)]
        row = bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left = row[x - step] if x >= step else 0
            up, corner = before[x], before[x - step] if x >= step else 0
            if filtered == 1:
                row[x] = (row[x] + left) & 255
            elif filtered == 2:
                row[x] = (row[x] + up) & 255
            elif filtered == 3:
                row[x] = (row[x] + (left + up) // 2) & 255
            elif filtered == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                row[x] = (row[x] + near[2]) & 255
        before = bytes(row)
        rows.append([tuple(row[x : x + 3]) for x in range(0, stride, step)])
    return width, height, rows


def in_256_colours(data):
    width, height, rows = pixels(data)
    counted = Counter(pixel for row in rows for pixel in row)
    # The commonest colours as they are; every other becomes the nearest of them.
    palette = [colour for colour, _ in counted.most_common(256)]
    places = {colour: place for place, colour in enumerate(palette)}

    def place(colour):
        if colour not in places:
            distance = lambda other: sum((one - two) ** 2 for one, two in zip(colour, palette[other]))
            places[colour] = min(range(len(palette)), key=distance)
        return places[colour]

    body = b"".join(b"\0" + bytes(place(pixel) for pixel in row) for row in rows)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(colour) for colour in palette)),
        (b"IDAT", zlib.compress(body, 9)),
        (b"IEND", b""),
    ]
    told = b"\x89PNG\r\n\x1a\n"
    for name, content in parts:
        told += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return told


def main():
    wanted = [(path.name, path) for path in (ROOT / "docs" / "console").glob("*.png")]
    for walk in WALKS:
        wanted += [(path.name, ROOT / "docs" / "walkthroughs" / path.name) for path in SHOTS.glob(f"{walk}-*.png")]
    for name, target in sorted(wanted):
        if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
            continue
        if not (SHOTS / name).exists():
            print(f"{name}: no test has taken it")
            continue
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(in_256_colours((SHOTS / name).read_bytes()))
        print(f"{target.relative_to(ROOT)} {target.stat().st_size // 1024} KiB")


main()
