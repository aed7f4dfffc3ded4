"""Standard output holds a command's result alone, whatever a model prints and however it does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from regraft.cli import main

TORCH = """
import atexit, os, subprocess, sys
import torch
from torch import nn

class Late:
    def __del__(self):
        os.write(2, b"torn down\\n")

late = Late()
print("noise of the import")
os.write(1, b"noise below Python\\n")
subprocess.run([sys.executable, "-c", "print('noise of a child')"])
atexit.register(print, "noise of the end")
stream = sys.stdout

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        print("noise of the constructor")
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        print("noise of the run")
        stream.write("noise of a kept stream\\n")
        return self.conv(x)
"""

MINDSPORE = """
import numpy as np
from mindspore import nn

print("noise of the import")

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        print("noise of the constructor")
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="valid", has_bias=True)

    def construct(self, x):
        print("noise of the run")
        return self.conv(x)
"""


@pytest.fixture
def nets(tmp_path: Path) -> tuple[str, str]:
    for name, text in (("noisy_torch.py", TORCH), ("noisy_mindspore.py", MINDSPORE)):
        (tmp_path / name).write_text(text)
    return f"{tmp_path / 'noisy_torch.py'}:Net", f"{tmp_path / 'noisy_mindspore.py'}:Net"


def document(*arguments: object) -> dict:
    """What a command prints with --json, when that is all it prints."""
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert result.exit_code in (0, 1), result.output
    assert "noise" in result.stderr
    return json.loads(result.stdout)


def test_a_model_that_prints_breaks_the_json_of_no_command(nets: tuple[str, str], tmp_path: Path) -> None:
    torch_net, mindspore_net = nets
    shape = ("--input", "2x3x6x6")
    assert document("check", mindspore_net, *shape)["findings"]
    assert document("check", mindspore_net.removesuffix(":Net"))["models"]
    assert document("show", mindspore_net, *shape)["modules"]
    assert document("fix", mindspore_net)["diff"] == ""
    emitted = document("rewrite", mindspore_net, *shape, "--to", "mindspore", "-o", tmp_path / "out")
    assert emitted["verified"]["passed"]
    assert document("rewrite", torch_net, *shape, "-o", tmp_path / "out.onnx")["verified"]["passed"]
    assert document("verify", torch_net, mindspore_net, *shape)["outputs"]
    assert document("show", torch_net)["modules"]


def test_a_net_that_prints_breaks_the_json_of_no_checkpoint(nets: tuple[str, str], tmp_path: Path) -> None:
    torch_net, mindspore_net = nets
    values = {"conv.weight": torch.rand(4, 3, 3, 3), "conv.bias": torch.rand(4)}
    torch.save(values, tmp_path / "a.pth")
    there, back = tmp_path / "b.ckpt", tmp_path / "c.pth"
    done = document("convert-checkpoint", tmp_path / "a.pth", there, "--like", mindspore_net)
    assert (done["file"], done["tensors"]) == (str(there), 2)
    assert document("convert-checkpoint", there, back, "--like", torch_net)["direction"] == "forward"
    assert document("diff", mindspore_net, there)["equal"]
    assert document("diff", back, torch_net)["equal"]
    document("repair-checkpoint", mindspore_net, there, "-o", tmp_path / "d.ckpt")
    torch.save({"conv.weight": values["conv.weight"]}, tmp_path / "less.pth")
    call = ["convert-checkpoint", str(tmp_path / "less.pth"), str(tmp_path / "e.ckpt")]
    refused = CliRunner().invoke(main, [*call, "--like", mindspore_net, "--json"])
    assert json.loads(refused.stdout)["error"]["code"] == "E801"


def test_a_refused_model_that_prints_leaves_the_error_alone(nets: tuple[str, str]) -> None:
    result = CliRunner().invoke(main, ["check", nets[0], "--input", "2x5x6x6", "--json"])
    assert json.loads(result.stdout)["error"]["code"] == "E103"


@pytest.mark.slow
def test_of_a_process_neither_compiled_code_nor_children_nor_its_end_reach_standard_output(
    nets: tuple[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regraft", "show", nets[0], "--input", "2x3x6x6", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["modules"]
    for source in ("the import", "below Python", "a child", "the constructor", "the run", "a kept stream"):
        assert source in done.stderr
    assert "noise of the end" in done.stderr
    assert "torn down" not in done.stderr  # which takes the interpreter a second, for nobody
