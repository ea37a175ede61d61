"""What a binary says about itself: for which machine it is, which libraries it wants, and how new they must be."""

import struct

MACHINES = {62: "x86_64", 183: "aarch64"}
DYNAMIC, VERNEED = 6, 0x6FFFFFFE
NEEDED = 1


class NotOurs(Exception):
    """The file is no program that can be packed here."""


class Elf:
    """A 64-bit little-endian Linux program."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        if self.bytes[:6] != b"\x7fELF\x02\x01":
            raise NotOurs(f"{path} is no 64-bit Linux program")
        machine = struct.unpack_from("<H", self.bytes, 18)[0]
        if machine not in MACHINES:
            raise NotOurs(f"{path} is for a machine that is not packed here ({machine})")
        self.machine = MACHINES[machine]
        self.sections = self._sections()

    def _sections(self):
        offset, = struct.unpack_from("<Q", self.bytes, 40)
        size, count = struct.unpack_from("<HH", self.bytes, 58)
        fields = "<IIQQQQIIQQ"
        return [struct.unpack_from(fields, self.bytes, offset + size * at) for at in range(count)]

    def _text(self, section, offset):
        start = self.sections[section][4] + offset
        return self.bytes[start:self.bytes.index(b"\0", start)].decode()

    def needed(self):
        """The libraries that it is linked with."""
        found = []
        for section in self.sections:
            if section[1] != DYNAMIC:
                continue
            start, length, strings = section[4], section[5], section[6]
            for at in range(start, start + length, 16):
                tag, value = struct.unpack_from("<qQ", self.bytes, at)
                if tag == NEEDED:
                    found.append(self._text(strings, value))
        return found

    def versions(self):
        """Every version of a symbol that it wants, such as `GLIBC_2.34`."""
        found = set()
        for section in self.sections:
            if section[1] != VERNEED:
                continue
            at, strings, count = section[4], section[6], section[7]
            for _ in range(count):
                _, entries, _, first, following = struct.unpack_from("<HHIII", self.bytes, at)
                entry = at + first
                for _ in range(entries):
                    _, _, _, name, step = struct.unpack_from("<IHHII", self.bytes, entry)
                    found.add(self._text(strings, name))
                    entry += step
                at += following
        return found

    def glibc(self):
        """The oldest glibc that it runs with, as two numbers."""
        numbers = [name[6:].split(".") for name in self.versions() if name.startswith("GLIBC_2.")]
        if not numbers:
            raise NotOurs("the program says nothing of the glibc that it wants")
        return max((int(number[0]), int(number[1])) for number in numbers)
