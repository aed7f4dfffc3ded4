"""Builds the wheel and the sdist, and tests the wheel where nothing of the checkout is.

    python tests/tools/dist.py FOLDER            builds both twice; a byte that differs is an error
    python tests/tools/dist.py FOLDER --test     and installs the wheel, then each extra, and runs commands

Both are functions of the commit and of the version of setuptools that WHEEL names: the time is the commit's
(or SOURCE_DATE_EPOCH), members are sorted, and owners, modes and folders of the machine are left out. With
REPOSITORY in the environment (https://host/owner/name) the README's links lead there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("tests/", "benchmarks/", "examples/")
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1]))"


def epoch() -> str:
    """Return the seconds that every member of the archives states as its time."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or _printed("git", "log", "-1", "--format=%ct", cwd=ROOT)


def repository() -> str:
    """Return the address of the files of this version in the repository; empty where none is known."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    address = os.environ.get("REPOSITORY", "").rstrip("/")
    return f"{address}/blob/v{version}" if address else ""


def page_of_index(text: str, address: str) -> str:
    """Return the README for an index of packages, where links to files of the checkout lead nowhere.

    Args:
        text: the README.
        address: of the files of this version; where it is empty, links become their text and pictures go.
    """

    def replaced(found: re.Match[str]) -> str:
        mark, said, file = found.groups()
        if address:
            return f"{mark}[{said}]({address}/{file}{'?raw=true' if mark else ''})"
        return "" if mark else said

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)", replaced, text)


def build(folder: Path) -> tuple[Path, Path]:
    """Write the sdist, and the wheel that is built from the sdist, into a folder; returns wheel and sdist."""
    os.umask(0o022)  # modes of files are those of members
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="regraft-dist-") as name:
        tree = Path(name) / "tree"
        for path in _printed("git", "ls-files", cwd=ROOT).splitlines():
            if (ROOT / path).is_file() and not path.startswith(LEFT_OUT):
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, tree / path)
        page = tree / "README.md"
        page.write_text(page_of_index(page.read_text(encoding="utf-8"), repository()), encoding="utf-8")
        sdist = folder / _built("sdist", tree, Path(name))
        sdist.write_bytes(normal_archive((Path(name) / sdist.name).read_bytes(), int(epoch())))
        with tarfile.open(sdist) as archive:
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
            archive.extractall(Path(name) / "unpacked", **safely)
        (source,) = (Path(name) / "unpacked").iterdir()
        wheel = folder / _built("wheel", source, folder)
        _no_place_of_this_machine(wheel, sdist, places=(name, str(ROOT)))
    return wheel, sdist


def _built(kind: str, tree: Path, folder: Path) -> str:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch()}
    code = BUILD.format(kind)
    return _printed(sys.executable, "-c", code, str(folder), cwd=tree, env=environment).splitlines()[-1]


def normal_archive(content: bytes, seconds: int) -> bytes:
    """Return a `.tar.gz` with sorted members of one time, without owners and with two modes."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = seconds
            member.mode = 0o755 if member.isdir() else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=0)


def _no_place_of_this_machine(wheel: Path, sdist: Path, places: tuple[str, ...]) -> None:
    with zipfile.ZipFile(wheel) as packed:
        texts = {name: packed.read(name) for name in packed.namelist()}
    with tarfile.open(sdist) as packed:
        texts |= {m.name: f.read() for m in packed if (f := packed.extractfile(m)) is not None}
    found = [name for name, text in texts.items() for place in places if place.encode() in text]
    if found:
        sys.exit(f"expected no path of this machine in the archives, got one in {found}")


def build_twice(folder: Path) -> tuple[Path, Path]:
    """Build in two temporary folders; ends with what differs, unless both builds are one, byte by byte."""
    built = build(folder)
    with tempfile.TemporaryDirectory() as name:
        again = build(Path(name))
        for first, second in zip(built, again, strict=True):
            if (first.name, first.read_bytes()) != (second.name, second.read_bytes()):
                sys.exit(f"expected two builds of {first.name} to be equal, got {second} with other bytes")
    for path in built:
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}", flush=True)
    return built


def _printed(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> None:
    """Build, and test if asked."""
    folder, *further = sys.argv[1:]
    wheel, sdist = build_twice(Path(folder).resolve())
    if further == ["--test"]:
        from dist_steps import install_and_try

        install_and_try(wheel, sdist)


if __name__ == "__main__":
    main()
