#!/usr/bin/env python3
"""Makes, from one ready binary, everything that Holdpoint is installed from: a wheel, npm packages, a Debian
package, a tarball, a container's image, and SHA256SUMS. It compiles nothing and asks no network.

    cargo build --profile dist --locked
    packaging/make.py target/dist/holdpoint dist/

The same binary and the same SOURCE_DATE_EPOCH make the same bytes. docs/packages.md says what is in each."""

import argparse
import base64
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from archive import Tree, gzipped, zipped  # noqa: E402
from elf import Elf, NotOurs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
HOME = HERE.parent
SUMMARY = "A durable orchestrator for agent workflows that wait for people"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
NODE = {"x86_64": "x64", "aarch64": "arm64"}
LOADERS = {"x86_64": "lib64/ld-linux-x86-64.so.2", "aarch64": "lib/ld-linux-aarch64.so.1"}
# Which package of Debian a library is in. One that is not here must be added, not guessed.
LIBRARIES = {
    "libc.so.6": "libc6", "libm.so.6": "libc6", "libdl.so.2": "libc6", "libpthread.so.0": "libc6",
    "librt.so.1": "libc6", "ld-linux-x86-64.so.2": "libc6", "ld-linux-aarch64.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
}
# What is packed to be read, and what the README leads to.
TEXTS = ["LICENSE", "README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = ["docs", "examples", "proto", "workflows"]
KINDS = ["wheel", "npm", "deb", "tarball", "image"]
# Nobody's on any system, and the same in every image: volumes keep their owner.
IMAGE_USER = 10001


class Wrong(Exception):
    """It cannot be made, for a reason that whoever runs this can mend."""


def main():
    options = arguments()
    try:
        checkout()
        binary = Binary(options)
        options.out.mkdir(parents=True, exist_ok=True)
        makers = {"wheel": wheel, "npm": npm, "deb": deb, "tarball": tarball, "image": image}
        made = [file for kind in options.only for file in makers[kind](binary, options)]
        lines = {name: f"{digest((options.out / name).read_bytes())}  {name}\n" for name in made}
        sums = "".join(line for _, line in sorted({**kept(options), **lines}.items()))
        put(options, "SHA256SUMS", sums.encode())
    except (Wrong, NotOurs) as wrong:
        sys.exit(f"packaging/make.py: {wrong}")
    except OSError as wrong:
        sys.exit(f"packaging/make.py: {wrong.filename or options.out}: {wrong.strerror}")
    except subprocess.CalledProcessError as wrong:
        sys.exit(f"packaging/make.py: {wrong.cmd[0]} ended with {wrong.returncode}")
    except KeyboardInterrupt:
        sys.exit("packaging/make.py: stopped; what is in the folder is whole")
    print(sums, end="")


def kept(options):
    """The lines of what was made there before and is still there."""
    sums = options.out / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True) if sums.exists() else []
    named = {line.split(maxsplit=1)[1].strip(): line for line in lines if len(line.split()) == 2}
    return {name: line for name, line in named.items() if (options.out / name).is_file()}


def checkout():
    """Everything that is packed beside the binary, looked for before anything is made."""
    wanted = [HOME / name for name in TEXTS]
    wanted += [HERE / "python" / "holdpoint" / "__main__.py", HERE / "npm" / "holdpoint.cjs"]
    wanted += [HERE / "deb" / name for name in
               ("holdpoint.service", "sysusers.conf", "holdpoint.toml", "postinst", "prerm", "postrm")]
    missing = [str(path.relative_to(HOME)) for path in wanted if not path.is_file()]
    missing += [name for name in FOLDERS if not (HOME / name).is_dir()]
    if missing:
        raise Wrong(f"{', '.join(missing)} not found in {HOME}; packages are made in a whole checkout")


@contextlib.contextmanager
def whole(options, name):
    """A place to write a file to that has its own name only when all of it is there."""
    part = options.out / f".{name}.part"
    try:
        yield part
        os.replace(part, options.out / name)
    finally:
        part.unlink(missing_ok=True)


def put(options, name, data):
    with whole(options, name) as part:
        part.write_bytes(data)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path, help="the program, built for this machine")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="make these alone")
    parser.add_argument("--strip", action="store_true", help="pack a copy without debug symbols")
    parser.add_argument("--fast", action="store_true", help="compress little, for tests")
    parser.add_argument("--root", type=pathlib.Path,
                        help="a tar of a Debian root for the image; this machine's libraries if left out")
    options = parser.parse_args()
    # Beyond 6 a binary gets a hundredth smaller, and takes several times as long.
    options.level = 1 if options.fast else 6
    # 1980: the earliest that a zip can say.
    options.when = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    return options


class Binary:
    """The program, and what it says of itself."""

    def __init__(self, options):
        if not options.binary.is_file():
            raise Wrong(f"there is no binary {options.binary}; `cargo build --profile dist` makes one")
        self.elf = Elf(options.binary)
        self.machine = self.elf.machine
        self.bytes = stripped(options.binary) if options.strip else options.binary.read_bytes()
        self.path = options.binary.resolve()
        told = self.ask("--version")
        found = re.match(r"holdpoint (\d+\.\d+\.\d+\S*)", told)
        if not found:
            raise Wrong(f"{options.binary} is not Holdpoint: --version says {told.strip()!r}")
        self.version = found.group(1)
        self.completions = {shell: self.ask("completions", shell) for shell in ("bash", "zsh", "fish")}
        with tempfile.TemporaryDirectory() as folder:
            self.ask("man", folder)
            pages = sorted(pathlib.Path(folder).glob("*.1"))
            self.manual = {page.name: page.read_bytes() for page in pages}

    def ask(self, *words):
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDPOINT_")}
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([self.path, *words], cwd=folder, env=env, capture_output=True, text=True)
        if ended.returncode != 0:
            raise Wrong(f"holdpoint {' '.join(words)} ended with {ended.returncode}: {ended.stderr.strip()}")
        return ended.stdout


def stripped(path):
    tool = shutil.which("strip")
    if tool is None:
        raise Wrong("--strip needs `strip`, which is in Debian's binutils")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "holdpoint"
        subprocess.run([tool, "-o", out, path], check=True)
        return out.read_bytes()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def text(name):
    return (HOME / name).read_bytes()


def wheel(binary, options):
    """`pip install`: the program on the PATH, and `python -m holdpoint`."""
    glibc = "_".join(map(str, binary.elf.glibc()))
    tag = f"py3-none-manylinux_{glibc}_{binary.machine}"
    name, info = f"holdpoint-{binary.version}", f"holdpoint-{binary.version}.dist-info"
    about = (f"Metadata-Version: 2.4\nName: holdpoint\nVersion: {binary.version}\nSummary: {SUMMARY}\n"
             "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.9\n"
             "Description-Content-Type: text/markdown\n\n")
    kind = f"Wheel-Version: 1.0\nGenerator: holdpoint\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries = [(f"holdpoint/{file.name}", file.read_bytes(), 0o644)
               for file in sorted((HERE / "python" / "holdpoint").glob("*.py"))]
    entries += [
        (f"{name}.data/scripts/holdpoint", binary.bytes, 0o755),
        (f"{info}/METADATA", about.encode() + text("README.md"), 0o644),
        (f"{info}/WHEEL", kind.encode(), 0o644),
        (f"{info}/licenses/LICENSE", text("LICENSE"), 0o644),
    ]
    rows = []
    for path, data, _ in entries:
        hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={hashed},{len(data)}\n")
    record = "".join(rows) + f"{info}/RECORD,,\n"
    entries.append((f"{info}/RECORD", record.encode(), 0o644))
    file = f"{name}-{tag}.whl"
    put(options, file, zipped(entries, options.level))
    return [file]


def npm(binary, options):
    """`npx holdpoint`: a package that finds the one for its platform, and that one."""
    cpu = NODE[binary.machine]
    platform = f"@holdpoint/linux-{cpu}"
    shared = {"version": binary.version, "license": "Apache-2.0"}
    main = Tree(options.when)
    main.add("package.json", json.dumps({
        "name": "holdpoint", **shared, "description": SUMMARY, "bin": {"holdpoint": "bin/holdpoint.cjs"},
        "files": ["bin"], "engines": {"node": ">=18"}, "optionalDependencies": {platform: binary.version},
    }, indent=2) + "\n")
    main.add("bin/holdpoint.cjs", (HERE / "npm" / "holdpoint.cjs").read_bytes(), 0o755)
    main.add("README.md", text("README.md"))
    main.add("LICENSE", text("LICENSE"))
    part = Tree(options.when)
    part.add("package.json", json.dumps({
        "name": platform, **shared, "description": f"The binary of holdpoint for Linux on {cpu}",
        "os": ["linux"], "cpu": [cpu], "libc": ["glibc"], "files": ["bin"], "preferUnplugged": True,
    }, indent=2) + "\n")
    part.add("bin/holdpoint", binary.bytes, 0o755)
    part.add("LICENSE", text("LICENSE"))
    files = {f"holdpoint-{binary.version}.tgz": main, f"holdpoint-linux-{cpu}-{binary.version}.tgz": part}
    for file, tree in files.items():
        put(options, file, gzipped(tree.tar("package/"), options.level))
    return list(files)


def depends(binary):
    packages = {}
    for library in binary.elf.needed():
        if library not in LIBRARIES:
            raise Wrong(f"it is linked with {library}, and packaging/make.py does not know Debian's package of it")
        packages[LIBRARIES[library]] = ""
    packages["libc6"] = f" (>= {'.'.join(map(str, binary.elf.glibc()))})"
    return ", ".join(sorted(name + bound for name, bound in packages.items()))


def documents(tree, binary, options):
    """Completions and the manual, where Debian wants them."""
    share = "usr/share"
    tree.add(f"{share}/bash-completion/completions/holdpoint", binary.completions["bash"])
    tree.add(f"{share}/zsh/vendor-completions/_holdpoint", binary.completions["zsh"])
    tree.add(f"{share}/fish/vendor_completions.d/holdpoint.fish", binary.completions["fish"])
    for page, data in binary.manual.items():
        tree.add(f"{share}/man/man1/{page}.gz", gzipped(data, 9))


def deb(binary, options):
    """`apt install ./holdpoint.deb`: the program, a unit that is not started by itself, its user, its settings."""
    tool = shutil.which("dpkg-deb")
    if tool is None:
        raise Wrong("a Debian package needs `dpkg-deb`, which is in the package dpkg")
    architecture = DEBIAN[binary.machine]
    tree = Tree(options.when)
    tree.add("usr/bin/holdpoint", binary.bytes, 0o755)
    tree.add("usr/lib/systemd/system/holdpoint.service", (HERE / "deb" / "holdpoint.service").read_bytes())
    tree.add("usr/lib/sysusers.d/holdpoint.conf", (HERE / "deb" / "sysusers.conf").read_bytes())
    tree.add("etc/holdpoint/holdpoint.toml", (HERE / "deb" / "holdpoint.toml").read_bytes())
    tree.folder("etc/holdpoint/workflows")
    documents(tree, binary, options)
    tree.add("usr/share/doc/holdpoint/copyright", "Holdpoint, under the Apache License 2.0:\n"
             "/usr/share/common-licenses/Apache-2.0\n")
    tree.add("usr/share/doc/holdpoint/changelog.gz", gzipped(text("CHANGELOG.md"), 9))
    size = sum(len(data) for _, (_, data, _, _) in tree.items()) // 1024 + 1
    tree.add("DEBIAN/control", (
        f"Package: holdpoint\nVersion: {binary.version}\nArchitecture: {architecture}\n"
        f"Maintainer: Holdpoint <holdpoint@localhost>\nInstalled-Size: {size}\nDepends: {depends(binary)}\n"
        f"Recommends: ca-certificates\nSection: net\nPriority: optional\nDescription: {SUMMARY}\n"
        " An agent's question survives anything that happens to the machine; a person's\n"
        " answer is never lost, never applied twice, and never applied to anything but\n"
        " what that person was shown.\n"))
    tree.add("DEBIAN/conffiles", "/etc/holdpoint/holdpoint.toml\n")
    for script in ("postinst", "prerm", "postrm"):
        tree.add(f"DEBIAN/{script}", (HERE / "deb" / script).read_bytes(), 0o755)
    file = f"holdpoint_{binary.version}_{architecture}.deb"
    packing = ["-Zgzip", "-z1"] if options.fast else ["-Zxz", "-z3"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        root.mkdir(mode=0o755)
        tree.write(root)
        for place in [root, *root.rglob("*")]:
            os.utime(place, (options.when, options.when), follow_symlinks=False)
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(options.when)}
        with whole(options, file) as part:
            words = [tool, *packing, "--root-owner-group", "--build", root, part]
            subprocess.run(words, check=True, env=env, stdout=subprocess.DEVNULL)
    return [file]


def tarball(binary, options):
    """For everybody else: the program and what explains it."""
    name = f"holdpoint-{binary.version}-{binary.machine}-unknown-linux-gnu"
    tree = Tree(options.when)
    tree.add("bin/holdpoint", binary.bytes, 0o755)
    for file in TEXTS:
        tree.add(file, text(file))
    for path in (path for folder in FOLDERS for path in (HOME / folder).rglob("*")):
        # What Python leaves behind is of whoever ran an example.
        if path.is_file() and "__pycache__" not in path.parts:
            tree.add(str(path.relative_to(HOME)), path.read_bytes())
    names = {"bash": "holdpoint.bash", "zsh": "_holdpoint", "fish": "holdpoint.fish"}
    for shell, script in binary.completions.items():
        tree.add(f"completions/{names[shell]}", script)
    for page, data in binary.manual.items():
        tree.add(f"share/man/man1/{page}", data)
    tree.add("systemd/holdpoint.service", (HERE / "deb" / "holdpoint.service").read_bytes())
    file = f"{name}.tar.gz"
    put(options, file, gzipped(tree.tar(f"{name}/"), options.level))
    return [file]


def libraries(binary, tree):
    """The loader and the libraries of this machine, where the loader looks for them."""
    loader = LOADERS[binary.machine]
    tree.add(loader, pathlib.Path("/", loader).read_bytes(), 0o755)
    listed = subprocess.run([f"/{loader}", "--list", binary.path], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        found = re.match(r"\s*(\S+) => (/\S+) ", line)
        if found and "/ld-linux" not in found.group(2):
            # Name services are looked up by the C library as it runs; these are all that ours asks for.
            tree.add(found.group(2).lstrip("/"), pathlib.Path(found.group(2)).read_bytes(), 0o755)
    certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.is_file():
        tree.add("etc/ssl/certs/ca-certificates.crt", certificates.read_bytes())


def image(binary, options):
    """A container's image, as an OCI layout in one tar: the program on a root of Debian's, or on what it needs of
    this machine. It runs as nobody's user, has its data in /data, and makes its first key itself."""
    architecture = DEBIAN[binary.machine]
    layers = []
    tree = Tree(options.when)
    if options.root:
        layers.append(opened(options.root))
        certificates(options.root, tree)
    else:
        libraries(binary, tree)
    tree.add("usr/bin/holdpoint", binary.bytes, 0o755)
    tree.add("usr/share/doc/holdpoint/LICENSE", text("LICENSE"))
    tree.add("etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nholdpoint:x:{IMAGE_USER}:{IMAGE_USER}"
             "::/data:/sbin/nologin\n")
    tree.add("etc/group", f"root:x:0:\nholdpoint:x:{IMAGE_USER}:\n")
    tree.add("etc/nsswitch.conf", "hosts: files dns\n")
    tree.folder("data", 0o700, IMAGE_USER)
    tree.folder("workflows")
    tree.folder("tmp", 0o1777)
    layers.append(tree.tar())
    blobs, described = {}, []

    def blob(data, kind):
        blobs[digest(data)] = data
        return {"mediaType": kind, "digest": f"sha256:{digest(data)}", "size": len(data)}

    for layer in layers:
        packed = gzipped(layer, options.level)
        described.append(blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip"))
    labels = {"org.opencontainers.image.title": "holdpoint", "org.opencontainers.image.version": binary.version,
              "org.opencontainers.image.description": SUMMARY, "org.opencontainers.image.licenses": "Apache-2.0"}
    config = {
        "architecture": architecture, "os": "linux", "created": "1980-01-01T00:00:00Z",
        "config": {
            "User": f"{IMAGE_USER}:{IMAGE_USER}",
            "ExposedPorts": {"4653/tcp": {}},
            "Env": ["PATH=/usr/bin", "HOME=/data", "HOLDPOINT_DATA=/data", "HOLDPOINT_WORKFLOWS=/workflows",
                    "HOLDPOINT_LISTEN=0.0.0.0:4653"],
            "Entrypoint": ["/usr/bin/holdpoint"], "Cmd": ["serve", "--first-key"],
            "Volumes": {"/data": {}}, "WorkingDir": "/", "StopSignal": "SIGTERM", "Labels": labels,
            # Docker's own word; others leave it alone.
            "Healthcheck": {"Test": ["CMD", "/usr/bin/holdpoint", "health"], "Interval": 15_000_000_000,
                            "Timeout": 6_000_000_000, "StartPeriod": 60_000_000_000, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(layer)}" for layer in layers]},
        "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "packaging/make.py"} for _ in layers],
    }
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": described,
    }
    entry = blob(json.dumps(manifest).encode(), manifest["mediaType"])
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    entry["annotations"] = {"org.opencontainers.image.ref.name": binary.version}
    layout = Tree(options.when)
    layout.add("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}))
    layout.add("index.json", json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}))
    for name, data in blobs.items():
        layout.add(f"blobs/sha256/{name}", data)
    file = f"holdpoint-{binary.version}-{architecture}.oci.tar"
    put(options, file, layout.tar())
    return [file]


def certificates(path, tree):
    """The bundle of certificates, which Debian's package makes when it is configured, and no root that was only
    unpacked has."""
    bundle, parts = "etc/ssl/certs/ca-certificates.crt", {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix("./")
            if name == bundle:
                return
            if member.isfile() and name.startswith("usr/share/ca-certificates/") and name.endswith(".crt"):
                parts[name] = tar.extractfile(member).read()
    if parts:
        tree.add(bundle, b"".join(data for _, data in sorted(parts.items())))


def opened(path):
    """A tar as a layer wants it: what it says, without its compression."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if not tarfile.is_tarfile(path):
        raise Wrong(f"--root: {path} is no tar")
    return data


if __name__ == "__main__":
    main()
