"""Commands that a signal ends: the signal's exit code, no traceback, all old files or all new ones."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

NET = """
import hashlib, os, signal, threading, time

{at_import}
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        {at_construction}

    def forward(self, x):
        {in_forward}
        return self.fc(x)
"""

INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
LONG_C_CODE = (
    "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.{name})).start(); "
    "hashlib.pbkdf2_hmac('sha256', b'', b'', 2_000_000_000)"
)


def make_net(folder: Path, **code: str) -> str:
    places = {name: code.get(name, "pass") for name in ("at_import", "at_construction", "in_forward")}
    (folder / "net.py").write_text(NET.format(**places))
    return f"{folder / 'net.py'}:Net"


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """A command in a folder, whose temporary files are in a folder beside it."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "regraft", *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_hangups,
    )


def _hear_hangups() -> None:
    """Take back what `nohup` makes of a run of the tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def assert_ended(process: subprocess.Popen[str], number: int) -> None:
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()  # which does nothing to one that has ended
    assert process.returncode == 128 + number, (process.returncode, out, err)
    assert "Traceback" not in out + err
    assert err.splitlines()[-1] == ("interrupted" if number == signal.SIGINT else "terminated")


def left_over(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if "regraft-" in p.name]


@pytest.mark.parametrize("place", ["at_import", "at_construction"])
def test_ctrl_c_in_the_users_code(tmp_path: Path, place: str) -> None:
    net = make_net(tmp_path, **{place: INTERRUPT})
    assert_ended(start("check", net, folder=tmp_path), signal.SIGINT)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_code_that_does_not_return_to_python_is_not_waited_for(tmp_path: Path, name: str) -> None:
    """As a compiler's: here ten minutes of hashing."""
    net = make_net(tmp_path, at_import=LONG_C_CODE.format(name=name))
    assert_ended(start("check", net, folder=tmp_path), getattr(signal, name))


@pytest.mark.parametrize("to", ["onnx", "mindspore"])
def test_ctrl_c_while_the_output_is_compared_leaves_the_files_that_were(tmp_path: Path, to: str) -> None:
    out = tmp_path / ("out/x.onnx" if to == "onnx" else "out")
    options = ("--input", "2x3", "--to", to, "-o", str(out), "--force")
    first = start("rewrite", make_net(tmp_path), *options, folder=tmp_path)
    assert first.wait(timeout=120) == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert before
    counted = (
        f"seen = globals().setdefault('seen', []); seen.append(1) if type(x) is torch.Tensor else None; "
        f"{INTERRUPT} if len(seen) > 1 else None"
    )
    assert_ended(
        start("rewrite", make_net(tmp_path, in_forward=counted), *options, folder=tmp_path), signal.SIGINT
    )
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert not left_over(tmp_path)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As it is for what a shell runs in the background, or `nohup`."""
    net = make_net(tmp_path, at_import=f"{INTERRUPT}; os.kill(os.getpid(), signal.SIGHUP)")
    command = f"trap '' INT HUP; exec {sys.executable} -m regraft check {net}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class TwoNets(NamedTuple):
    """Two nets that are written over each other.

    Attributes:
        folder: where they run.
        out: where they are written.
        commands: what writes each.
        whole: the files that each leaves, by name.
        lasts: seconds that writing takes.
    """

    folder: Path
    out: Path
    commands: list[tuple[str, ...]]
    whole: list[dict[str, bytes]]
    lasts: float


def make_file(folder: Path, width: int) -> str:
    """An ONNX model: a command that reads one spends more of its time on what it writes."""
    weight = np.random.default_rng(width).standard_normal((width, 4), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx")


@pytest.fixture(scope="module")
def two_nets(tmp_path_factory: pytest.TempPathFactory) -> TwoNets:
    folder = tmp_path_factory.mktemp("two")
    out, commands, whole, lasts = folder / "out", list[tuple[str, ...]](), list[dict[str, bytes]](), 0.0
    for width in (3, 5):
        (folder / str(width)).mkdir()
        options = ("--to", "mindspore", "-o", str(out), "--force", "--no-verify")
        commands.append((make_file(folder / str(width), width), *options))
        began = time.monotonic()
        assert start("rewrite", *commands[-1], folder=folder).wait(timeout=120) == 0
        lasts = time.monotonic() - began
        whole.append({p.name: p.read_bytes() for p in out.iterdir()})
    return TwoNets(folder, out, commands, whole, lasts)


@pytest.mark.slow
@pytest.mark.xdist_group("signals")
@pytest.mark.parametrize(("number", "turns"), [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGKILL, 4)])
def test_signals_at_any_moment_leave_all_old_or_all_new_files(
    two_nets: TwoNets, number: int, turns: int
) -> None:
    """Two nets are written over each other, and ended at random moments; `make kills` ends hundreds.

    They are not compared, so that more of the moments lie in what writes. A SIGTERM reads as Ctrl-C in the
    few milliseconds for which MindSpore has taken SIGINT, see `ending`.
    """
    drawn, folder = random.Random(number), two_nets.folder
    codes = {0, -number if number == signal.SIGKILL else 128 + number}
    if number == signal.SIGTERM:
        codes.add(128 + signal.SIGINT)
    for turn in range(turns):
        process = start("rewrite", *two_nets.commands[turn % 2], folder=folder)
        time.sleep(drawn.uniform(0.3, two_nets.lasts))  # Python itself has begun
        process.send_signal(number)
        printed, errors = process.communicate(timeout=120)
        assert process.returncode in codes, errors
        assert "Traceback" not in printed + errors
        files = {p.name: p.read_bytes() for p in two_nets.out.iterdir() if p.is_file()}
        assert files in two_nets.whole
    assert start("rewrite", *two_nets.commands[0], folder=folder).wait(timeout=120) == 0
    assert not left_over(folder)
    assert tempfile.gettempdir() != str(folder / "temporary")
