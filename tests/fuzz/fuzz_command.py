"""The command line: every command, with arguments that were right."""

# ruff: noqa: E501 - tables of odd texts

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from .fuzz_onnx import EXAMPLES
from .mutation import NUMBERS, TEXTS, mutate_text
from .oracle import command
from .registry import Target

_SYMBOL = "given/shared_weight-symbol.json"
_NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)

    def forward(self, x):
        return self.conv(x)
"""
_LINES = (
    ["show", _SYMBOL, "--input", "data=1x1x3x3"],
    ["show", _SYMBOL, "--input", "1x1x3x3:float32", "--ir", "--no-dynamic-batch"],
    ["show", _SYMBOL, "--input", "data=2x1x5x5", "--dynamic", "data:0+2", "--depth", "1", "--json"],
    ["show", _SYMBOL, "--params", "given/shared_weight-0000.params", "--input", "data=1x1x3x3"],
    ["check", _SYMBOL, "--input", "data=1x1x3x3", "--json"],
    ["rewrite", _SYMBOL, "--input", "data=1x1x3x3", "-o", "out/net.onnx", "--no-fold"],
    ["rewrite", _SYMBOL, "--input", "data=1x1x3x3", "-o", "out", "--to", "mxnet", "--force"],
    ["rewrite", _SYMBOL, "--input", "data=1x1x3x3", "-o", "out/a.onnx", "--pass", "tie-weights:twin=data+data2"],
    ["rewrite", _SYMBOL, "--input", "data=1x1x3x3", "-o", "out", "--to", "mindspore", "--no-verify", "--checkpoint-format",
     "safetensors", "--explicit-initializers"],
    ["rewrite", _SYMBOL, "--input", "data=1x1x3x3", "-o", "out/b.onnx", "--only-pass", "rename-parameters", "--verify-each",
     "--print-after", "rename-parameters"],
    ["verify", _SYMBOL, "given/net.onnx", "--input", "data=1x1x3x3"],
    ["diff", "given/shared_weight-0000.params", "given/net.onnx", "--map", "given/map.json"],
    ["convert-checkpoint", "given/shared_weight-0000.params", "out/x.pth", "--map", "given/map.json", "--forward"],
    ["explain", "tie-weights"],
    ["explain", "E101"],
    ["passes", "--json"],
    ["check", "given/net.py:Net", "--input", "x=2x1x5x5", "--arg", "width=3"],
    ["show", "given/net.py:Net", "--arg", "width=3"],
    ["rewrite", "given/net.py:Net", "--input", "2x1x5x5", "-o", "out/c.onnx", "--dynamic", "x:0", "--partial"],
)  # fmt: skip

_WORDS = (
    "data=1x1x3x3:int64", "data=1x1x3x3:complex64", "data=1x1x3x3:string", "data=²x6", "data=0x1x3x3", "data=scalar",
    "data=1x1x3", "data=1x1x3x3x3", "data=" + "x".join(["1"] * 70), "x".join(["99999"] * 4), "data=1000000000000000000x1x3x3",
    "data2=1x1x3x3", "=1x1x3x3", "1x1x3x3=", "data=-1x1x3x3", "data=1x1x3x3:float8", "data=1x1x3x3:bool", "data=1e3x1x3x3",
    "x=30000x1x300x300", "data:0", "data:9", "data:-1", "data:99999999999999999999", "data:²", "nothing:0", ":0", "data:0+0",
    "tie-weights:twin=data+data", "tie-weights:twin=", "tie-weights:tie=a+b", "tie-weights:x=1", "rename-parameters:",
    "/dev/null", "/dev/full", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/", ".", "given", "out/a/b/c.onnx", "given/net.py/x.onnx",
    "given/loop", "given/dangling.onnx", "given/fifo-free", "given/net.py", "given/net.py:", "given/net.py:Net.forward", ":Net",
    "given/net.py:Net.conv", "os:getcwd", "os.path:join", "sys:exit", "builtins:print", "torch.nn:ReLU", "json:loads",
    "--input", "--json", "--help", "-o", "--to", "onnx", "mindspore", "mxnet", "--", "--debug", "--version", "--force",
    "width=" + "9" * 30, "width=[" * 2000, "width=1e400", "width=", "=3", "width=None", "width=(", "width='", "width={}",
)  # fmt: skip


def lines() -> list[bytes]:
    """Right command lines."""
    return [json.dumps(line).encode() for line in _LINES]


def mutate_line(data: bytes, random: Random) -> bytes:
    """Change, drop, repeat and swap arguments."""
    words = json.loads(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randrange(len(words))
        kind = random.randrange(8)
        if kind < 3:
            words[at] = mutate_text(words[at], random)
        elif kind == 3:
            words[at] = random.choice((*_WORDS, *TEXTS))
        elif kind == 4 and len(words) > 1:
            del words[at]
        elif kind == 5:
            words.insert(random.randrange(len(words) + 1), random.choice((*_WORDS, words[at])))
        elif kind == 6:
            words += random.choice(_LINES)[2:]
        else:
            words[at] = "x".join(str(random.choice(NUMBERS)) for _ in range(random.randrange(1, 5)))
    return json.dumps(words or ["show"]).encode()


def run_line(data: bytes, folder: Path) -> int:
    """Run one command line, in a folder that has the files it names."""
    from .fuzz_onnx import models

    words = [str(w).replace("\0", "") or "" for w in json.loads(data)]
    words = [
        w.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape") for w in words
    ]  # as the shell gives them
    if "--debug" in words:  # which asks for a traceback
        words = [w for w in words if w != "--debug"]
    given = folder / "given"
    for name in ("shared_weight-symbol.json", "shared_weight-0000.params"):
        shutil.copy(EXAMPLES / name, given)
    (given / "net.py").write_text(_NET)
    (given / "net.onnx").write_bytes(models()[0])
    row = {
        "source": "conv_weight",
        "source_path": "conv.weight",
        "target": "conv.weight",
        "shape": [1, 1, 3, 3],
    }
    document = {
        "format": "regraft-renames",
        "version": 1,
        "parameters": [{**row, "target_shape": [1, 1, 3, 3]}],
    }
    (given / "map.json").write_text(json.dumps(document))
    (given / "loop").symlink_to("loop")
    (given / "dangling.onnx").symlink_to("nowhere/at/all")
    return command(*words)


TARGETS = [Target("command", lines, mutate_line, run_line, share=2)]
