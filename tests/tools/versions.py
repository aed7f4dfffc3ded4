"""Runs a smoke suite on the newest and on the oldest versions that pyproject.toml claims.

    python tests/tools/versions.py FOLDER [newest] [oldest]

Each has a virtual environment of its own in FOLDER. The oldest are the lower bounds themselves; the newest
are what pip finds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SMOKE = (
    "tests/test_cli.py",
    "tests/ir/test_composites.py",
    "tests/backends/test_onnx_model.py",
    "tests/frontends/torch_module/test_torch_patches.py",
    "tests/frontends/torch_module/test_torch_live.py",
    "tests/frontends/torch_module/test_torch_decided.py",
    "tests/frontends/torch_module/test_torch_tracing.py",
    "tests/frontends/torch_module/test_torch_attention.py",
    "tests/frontends/torch_module/test_torch_linear_algebra.py",
    "tests/frontends/torch_module/test_torch_wrapped.py",
    "tests/frontends/torch_module/test_saved_programs.py",
    "tests/frontends/test_nested_inputs.py",
    "tests/frontends/test_mindspore_plain_source.py",
)
"""Tests of the command line and of what depends on other packages' insides, in both targets."""


def requirements(kind: str) -> list[str]:
    """Return what pip is asked for: names, or names with their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found = [*project["dependencies"], *extras["torch"], *extras["mindspore"]]
    if kind == "newest":
        return [re.sub(r">=[^,]*,?", "", each) for each in found]
    return [_oldest(each) for each in found]


def _oldest(requirement: str) -> str:
    name, _, bound = requirement.partition(">=")
    bound = bound.partition(",")[0]
    return f"{name}=={bound}" if bound else requirement


def run(kind: str, folder: Path) -> int:
    """Make the environment and run the suite in it; returns pytest's exit code."""
    home = folder / kind
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    tools = ["pytest>=8,<9.2", "pytest-xdist>=3.6", "hypothesis>=6.100", "setuptools"]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements(kind), *tools], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], check=True, cwd=ROOT)
    print(f"{kind}: {_versions(python)}", flush=True)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    suite = [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", *SMOKE]
    return subprocess.run(suite, cwd=ROOT, env=environment, check=False).returncode


def _versions(python: Path) -> str:
    names = ("torch", "mindspore", "onnx", "onnxruntime", "numpy")
    code = f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {names!r}), sep=', ')"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Run what the command line asks for, both by default; returns the worst exit code."""
    folder, *kinds = sys.argv[1:]
    return max(run(kind, Path(folder).resolve()) for kind in kinds or ("newest", "oldest"))


if __name__ == "__main__":
    sys.exit(main())
