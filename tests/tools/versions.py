"""Runs a smoke suite in a table of environments: oldest and newest versions, and those below the bounds.

    python tests/tools/versions.py FOLDER [--keep] [NAME …]

Each environment of `ENVIRONMENTS` has a virtual environment of its own in FOLDER, which is removed after its
suite: one of torch's CUDA builds takes 6 GB. Results lie in `benchmarks/results/versions.json`, a row for
each environment, and become a page of the site. Without names, all environments are run.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "benchmarks" / "results" / "versions.json"
MEASURED = ("torch", "mindspore", "onnx", "onnxruntime", "numpy", "protobuf")

SUITES: Mapping[str, tuple[str, ...]] = {
    "ONNX": (
        "tests/backends/test_onnx_model.py",
        "tests/frontends/onnx_model/test_decoder_operators.py",
        "tests/verification/test_compare.py",
    ),
    "MXNet": (
        "tests/frontends/test_mxnet_files.py",
        "tests/rows/test_mxnet_emitter_rows.py",
    ),
    "PyTorch": (
        "tests/rows/test_torch_rows.py",
        "tests/frontends/torch_module/test_torch_patches.py",
        "tests/frontends/torch_module/test_torch_attention.py",
        "tests/frontends/torch_module/test_torch_wrapped.py",
        "tests/frontends/torch_module/test_saved_programs.py",
        "tests/frontends/torch_module/test_scripted_archives.py",
        "tests/backends/test_torch_source.py",
    ),
    "MindSpore": (
        "tests/frontends/test_mindspore_cell.py",
        "tests/frontends/test_mindspore_plain_source.py",
        "tests/frontends/test_mindspore_recurrent.py",
        "tests/backends/test_grouped_source.py",
    ),
    "both frameworks": (
        "tests/frontends/torch_module/test_torch_live.py",
        "tests/frontends/test_nested_inputs.py",
        "tests/backends/test_attention_source.py",
    ),
}
"""Tests of what depends on other packages' insides; all but the last need one framework or none."""

TOOLS = ("pytest>=8,<9.2", "pytest-xdist>=3.6", "hypothesis>=6.100", "setuptools>=77")
OLD_PROTOBUF_CODE = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}


@dataclass(frozen=True)
class Environment:
    """Versions to try.

    Attributes:
        python: of which Python.
        bounds: "oldest" takes the lower bounds that pyproject.toml claims, "newest" what pip finds.
        suites: what is run.
        pins: package -> version, against the bounds; a package without a version is left to pip.
        without: packages that are not installed.
        variables: of the environment.
        claimed: whether pyproject.toml claims that this works.
    """

    python: str
    bounds: str
    suites: tuple[str, ...] = tuple(SUITES)
    pins: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    claimed: bool = True


def _only_mindspore(version: str) -> Environment:
    pins = {"mindspore": version}
    return Environment("3.11", "newest", ("MindSpore",), pins, ("torch",), OLD_PROTOBUF_CODE, claimed=False)


def _only_torch(version: str) -> Environment:
    return Environment("3.11", "newest", ("PyTorch",), {"torch": version}, ("mindspore",))


ENVIRONMENTS: Mapping[str, Environment] = {
    "newest": Environment("3.12", "newest"),
    "oldest": Environment("3.11", "oldest"),
    "numpy-2": Environment("3.12", "newest", ("ONNX", "MXNet", "PyTorch"), {"numpy": ">=2"}, ("mindspore",)),
    "onnx-1.20": Environment(
        "3.11", "oldest", pins={"onnx": "==1.20.0", "onnxruntime": "==1.28.0"}, claimed=False
    ),
    "torch-2.14": _only_torch("==2.14.1"),
    "torch-2.12": _only_torch("==2.12.1"),
    "torch-2.10": _only_torch("==2.10.0"),
    "mindspore-2.9": _only_mindspore("==2.9.0"),
    "mindspore-2.8": _only_mindspore("==2.8.0"),
    "mindspore-2.7": _only_mindspore("==2.7.2"),
}


def requirements(environment: Environment) -> list[str]:
    """Return what pip is asked for: names with their lower bounds, with pins, or bare."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked: dict[str, str] = {}
    for text in (*project["dependencies"], *extras["torch"], *extras["mindspore"]):
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", text).groups()  # type: ignore[union-attr]
        if environment.bounds == "oldest" and bounds.startswith(">="):
            asked[name] = "==" + bounds.removeprefix(">=").partition(",")[0]
        elif not bounds.startswith(">="):  # the cap of an extra; what is pinned already lies below it
            asked.setdefault(name, "")
            asked[name] = asked[name] or bounds
        else:
            asked[name] = ""
    if "mindspore" in environment.without:
        asked["numpy"] = ""  # whose extra caps it
    asked |= environment.pins
    return [name + bounds for name, bounds in asked.items() if name not in environment.without]


def run(name: str, folder: Path, *, keep: bool = False) -> dict[str, object]:
    """Make an environment and run its suites; returns a row of results."""
    environment = ENVIRONMENTS[name]
    home = folder / name
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([_interpreter(environment.python), "-m", "venv", home], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements(environment), *TOOLS], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], check=True, cwd=ROOT)
    versions = _versions(python)
    print(f"{name}: Python {environment.python}, {versions}", flush=True)
    row: dict[str, object] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short=8", "HEAD"),
        "python": environment.python,
        "versions": versions,
        "variables": dict(environment.variables),
        "claimed": environment.claimed,
        "suites": {suite: _suite(suite, python, environment) for suite in environment.suites},
    }
    if not keep:
        shutil.rmtree(home)
    return row


def _interpreter(version: str) -> str:
    for candidate in (f"/usr/bin/python{version}", shutil.which(f"python{version}")):
        if candidate and Path(candidate).exists() and _makes_environments(candidate):
            return candidate
    sys.exit(f"expected Python {version} with venv to be installed, got none")


def _makes_environments(python: str) -> bool:
    """Whether a Python has what Debian puts into a package of its own."""
    code = "import ensurepip, venv"
    return subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0


def _suite(suite: str, python: Path, environment: Environment) -> dict[str, object]:
    """Run one suite; returns counts, seconds, and each failure's first line."""
    report = python.parents[1] / "report.xml"
    report.unlink(missing_ok=True)
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"}
    given = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables | environment.variables
    options = ["-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "-q", f"--junitxml={report}"]
    start = time.monotonic()
    done = subprocess.run(
        [python, "-m", "pytest", *options, *SUITES[suite]],
        cwd=ROOT, env=given, check=False, capture_output=True, text=True,
    )  # fmt: skip
    found = {"seconds": round(time.monotonic() - start), **_counts(report)}
    print(f"  {suite}: {found['passed']} passed, {found['failed']} failed, {found['seconds']} s", flush=True)
    if not report.exists():
        print(done.stdout[-3000:], done.stderr[-2000:], flush=True)
    return found


def _counts(report: Path) -> dict[str, object]:
    """Return what a JUnit file says; a run that wrote none has failed as a whole."""
    if not report.exists():
        return {"passed": 0, "failed": 1, "skipped": 0, "failures": {"the suite ended": 1}}
    passed = failed = skipped = 0
    causes: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        broken = [child for child in case if child.tag in ("failure", "error")]
        if broken:
            failed += 1
            said = broken[0].get("message") or ""
            if said == "collection failure":  # of a whole file: the reason is the last line of its traceback
                said = f"{case.get('name')}: {(broken[0].text or '').strip().splitlines()[-1]}"
            causes[" ".join(said.split())[:160]] += 1
        elif any(child.tag == "skipped" for child in case):
            skipped += 1
        else:
            passed += 1
    return {"passed": passed, "failed": failed, "skipped": skipped, "failures": dict(causes.most_common(4))}


def _versions(python: Path) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json\n"
        "have = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        f"print(json.dumps({{n: have[n] for n in {MEASURED!r} if n in have}}))"
    )
    printed = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    return json.loads(printed)


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def store(name: str, row: dict[str, object]) -> None:
    """Replace the row of an environment in the stored results, in the order of the table."""
    held = json.loads(STORED.read_text()) if STORED.exists() else {}
    held[name] = row
    held = {known: held[known] for known in ENVIRONMENTS if known in held}
    STORED.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_broken(row: dict[str, object]) -> bool:
    """Whether a row is of versions that pyproject.toml claims, and has a failure."""
    suites = row["suites"]
    assert isinstance(suites, dict)
    return bool(row["claimed"]) and any(counts["failed"] for counts in suites.values())


def main() -> int:
    """Run what the command line names, all by default; returns 1 where a claimed version failed."""
    folder, *names = [word for word in sys.argv[1:] if word != "--keep"]
    broken = []
    for name in names or ENVIRONMENTS:
        row = run(name, Path(folder).resolve(), keep="--keep" in sys.argv)
        store(name, row)
        if is_broken(row):
            broken.append(name)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
