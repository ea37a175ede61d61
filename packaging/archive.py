"""Archives that come out the same each time: no clock, no user and no order of a disk is in them."""

import gzip
import io
import tarfile
import zipfile


class Tree:
    """Files that are to be packed: by path, with what they are allowed to be."""

    def __init__(self, when):
        self.when = when
        self.entries = {}

    def add(self, path, data, mode=0o644, owner=0):
        self.entries[path] = ("file", data if isinstance(data, bytes) else data.encode(), mode, owner)

    def folder(self, path, mode=0o755, owner=0):
        self.entries[path] = ("folder", b"", mode, owner)

    def link(self, path, target):
        self.entries[path] = ("link", target.encode(), 0o777, 0)

    def items(self):
        return sorted(self.entries.items())

    def write(self, folder):
        """Lays the files out on disk."""
        for path, (kind, data, mode, _) in self.items():
            place = folder / path
            if kind == "folder":
                place.mkdir(parents=True, exist_ok=True)
                place.chmod(mode)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                place.symlink_to(data.decode())
            else:
                place.write_bytes(data)
                place.chmod(mode)

    def tar(self, prefix=""):
        """A tar of them, as bytes; folders above files are in it."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            known = set()
            for path, (kind, data, mode, owner) in self.items():
                parts = (prefix + path).split("/")
                for depth in range(1, len(parts)):
                    above = "/".join(parts[:depth])
                    if above not in known and above != prefix + path and above not in self.entries:
                        known.add(above)
                        tar.addfile(self._info(above, "folder", 0, 0o755, 0))
                info = self._info(prefix + path, kind, len(data) if kind == "file" else 0, mode, owner)
                if kind == "link":
                    info.linkname = data.decode()
                tar.addfile(info, io.BytesIO(data) if kind == "file" else None)
        return out.getvalue()

    def _info(self, path, kind, size, mode, owner):
        info = tarfile.TarInfo(path)
        kinds = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}
        info.type, info.size, info.mode, info.mtime = kinds[kind], size, mode, self.when
        info.uid = info.gid = owner
        return info


def gzipped(data, level):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=level, mtime=0) as packed:
        packed.write(data)
    return out.getvalue()


def zipped(entries, level):
    """A zip, as bytes: `entries` are path, data and mode, in order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as packed:
        for path, data, mode in entries:
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.external_attr = (0o100000 | mode) << 16
            info.create_system = 3
            packed.writestr(info, data, zipfile.ZIP_DEFLATED, level)
    return out.getvalue()
