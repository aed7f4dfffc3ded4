"""Installs a built wheel in an empty environment and runs its commands there, on files that are made there.

First with the declared dependencies alone, then with the extra `torch`, then with `mindspore` too. Nothing of
the checkout is in reach: another folder, no PYTHONPATH, an environment of its own.
"""

from __future__ import annotations

import calendar
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

FILES = """
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

draw = np.random.default_rng(0)
held = {
    "features.0.weight": draw.normal(size=(4, 3, 3, 3), scale=0.3),
    "features.0.bias": draw.normal(size=4),
    "head.weight": draw.normal(size=(2, 4), scale=0.5),
    "head.bias": draw.normal(size=2),
}

def save(name, held):
    nodes = [
        helper.make_node("Conv", ["x", "features.0.weight", "features.0.bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "head.weight", "head.bias"], ["y"], transB=1),
    ]
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    weights = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "net", [value("x", [2, 3, 8, 8])], [value("y", [2, 2])], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    onnx.save(made, name)

save("net.onnx", held)
save("other.onnx", {**held, "head.bias": held["head.bias"] + 0.25})
"""

TORCH_NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))
"""

MINDSPORE_NET = """
from mindspore import nn


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4)

    def construct(self, x):
        return self.dense(x)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        for name in ("first", "second"):
            self.insert_child_to_cell(name, Block())

    def construct(self, x):
        return self.second(self.first(x))
"""


@dataclass(frozen=True)
class Step:
    """A command, and what it must do.

    Attributes:
        command: words after `regraft` (or after another program of the environment, where it is named).
        code: its exit code.
        says: regular expressions of which each is found in what it prints.
        writes: files that are there afterwards and were not before.
        program: the program.
    """

    command: str
    code: int = 0
    says: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    program: str = "regraft"


BASE = (
    Step("check net.onnx", says=("^clean",)),
    Step("show net.onnx", says=("head", "122 ")),
    Step(
        "rewrite net.onnx --to onnx -o again.onnx --certify",
        says=("^equal", "wrote again.onnx"),
        writes=("again.onnx",),
    ),
    Step("again.certificate.json", says=("identical|algebraic",), program="regraft-recheck"),
    Step("certify net.onnx other.onnx", 1),
    Step("verify net.onnx again.onnx", says=("^equal",)),
    Step("verify net.onnx other.onnx", 1, ("^DIFFERENT: ", "FAILED: 0.25 apart")),
    Step(
        "rewrite net.onnx --to mxnet -o symbol",
        says=("^equal",),
        writes=("symbol/net-symbol.json", "symbol/net-0000.params"),
    ),
    Step("verify net.onnx symbol/net-symbol.json", says=("^equal",)),
    Step("report net.onnx other.onnx -o page.html", 1, writes=("page.html",)),
    Step("diff net.onnx other.onnx", 1, ("head",)),
    Step("diff net.onnx net.onnx"),
    Step("explain E701", says=("Cause:",)),
    Step("explain E701 --lang zh", says=("原因",)),
    Step("passes --json", says=('"tie-weights"',)),
    Step("rewrite net.onnx --to torch -o nothing", 2, (r"E105", r'pip install "regraft\[torch\]"')),
    Step("check absent.onnx", 2, ("E101",)),
)
WITH_TORCH = (
    Step("check net_torch.py:Net", says=("^clean",)),
    Step(
        "rewrite net.onnx --to torch -o in_torch --emit-tests",
        says=("^equal",),
        writes=("in_torch/model.py", "in_torch/model.safetensors"),
    ),
    Step("-m pytest -q in_torch", says=("passed",), program="python"),
    Step("verify net.onnx in_torch", says=("^equal",)),
    Step("verify other.onnx in_torch", 1, ("^DIFFERENT",)),
    Step(
        "rewrite net_torch.py:Net --input 2x3x8x8 --to onnx -o from_torch.onnx",
        says=("^equal",),
        writes=("from_torch.onnx",),
    ),
    Step("rewrite net_torch.py:Net --input 2x3x8x8 --to torch -o torch_again", says=("^equal",)),
    Step("verify net_torch.py:Net torch_again --input 2x3x8x8 --train", says=("^equal",)),
)
WITH_MINDSPORE = (
    Step("check net_mindspore.py:Net", 1, ("RP101",)),
    Step("fix net_mindspore.py:Net --input 2x4", says=("0 left",)),
    Step("check net_mindspore.py:Net", says=("^clean",)),
    Step(
        "rewrite net_torch.py:Net --input 2x3x8x8 --to mindspore -o in_mindspore",
        says=("^equal",),
        writes=("in_mindspore/model.ckpt",),
    ),
    Step(
        "convert-checkpoint in_mindspore/model.ckpt back.safetensors --map in_mindspore/renames.json",
        writes=("back.safetensors",),
    ),
    Step("rewrite net_mindspore.py:Net --input 2x4 --to onnx -o from_mindspore.onnx", says=("^equal",)),
)
STAGES = (("", BASE), ("torch", WITH_TORCH), ("torch,mindspore", WITH_MINDSPORE))


def install_and_try(wheel: Path, sdist: Path) -> None:
    """Install and try the wheel, stage after stage; ends the process with what failed.

    PIP_CONSTRAINT and the other variables of pip hold, for a machine that has a certain build of torch.
    """
    with tempfile.TemporaryDirectory(prefix="regraft-try-") as name:
        home, work = Path(name) / "environment", Path(name) / "work"
        work.mkdir()
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"
        environment = _without_the_checkout(home)
        sources = {"make_files.py": FILES, "net_torch.py": TORCH_NET, "net_mindspore.py": MINDSPORE_NET}
        for file, text in sources.items():
            (work / file).write_text(text, encoding="utf-8")
        failed: list[str] = []
        for extras, steps in STAGES:
            asked = f"{wheel}[{extras}]" if extras else str(wheel)
            further = ["pytest"] if extras == "torch" else []
            _run([python, "-m", "pip", "install", "--quiet", asked, *further], work, environment)
            print(f"regraft[{extras}]" if extras else "regraft", flush=True)
            if not extras:
                _run([python, "make_files.py"], work, environment)
                found = _run([python, "-c", "import regraft; print(regraft.__file__)"], work, environment)
                if not found.startswith(str(home)):
                    sys.exit(f"expected regraft in {home}, got {found}")
            for step in steps:
                failed += try_step(step, home, work, environment)
        failed += _same_wheel(sdist, wheel, work)
    if failed:
        sys.exit("\n".join(failed))


def _without_the_checkout(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": f"{home / 'bin'}:/usr/bin:/bin"}


def _run(command: list[object], work: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def try_step(step: Step, home: Path, work: Path, environment: dict[str, str]) -> list[str]:
    """Run a step; returns what it did not do as it must."""
    start = time.monotonic()
    there = [name for name in step.writes if (work / name).exists()]
    done = subprocess.run(
        [home / "bin" / step.program, *step.command.split()],
        cwd=work, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    faults = [f"expected {name} not to be there before" for name in there]
    if done.returncode != step.code:
        faults.append(f"expected exit code {step.code}, got {done.returncode}")
    faults += [
        f"expected {text!r} in the output" for text in step.says if not re.search(text, printed, re.MULTILINE)
    ]
    faults += [f"expected {name} to be written" for name in step.writes if not (work / name).is_file()]
    if "Traceback" in printed:
        faults.append("expected no traceback")
    words = f"{step.program} {step.command}"
    print(f"  {'failed' if faults else 'ok'}: {words} ({time.monotonic() - start:.1f} s)", flush=True)
    return [f"{words}: {fault}\n{printed}" for fault in faults]


def _same_wheel(sdist: Path, wheel: Path, work: Path) -> list[str]:
    """Build the sdist as pip does, with this process's setuptools; returns a fault unless it is the wheel."""
    stamp = {**os.environ, "SOURCE_DATE_EPOCH": _time_of(wheel)}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", sdist]
    _run([*command, "-w", work / "again"], work, stamp)
    (again,) = (work / "again").iterdir()
    is_same = (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())
    print(f"  {'ok' if is_same else 'failed'}: the sdist builds the same wheel", flush=True)
    return [] if is_same else [f"expected the sdist to build {wheel.name}, got other bytes"]


def _time_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as packed:
        year, *rest = packed.infolist()[0].date_time
    return str(calendar.timegm((year, *rest)))
