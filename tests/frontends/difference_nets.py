"""Nets of rows of the table of differences: one submodule a row, in torch and as a port to MindSpore."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regraft.frontends.differences import Difference

HEADS = {
    "torch": (
        "from math import inf, nan\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
    ),
    "mindspore": (
        "from math import inf, nan\n\nimport mindspore as ms\nimport mindspore.numpy as mnp\n"
        "from mindspore import mint, nn, ops\n"
    ),
}
BASES = {"torch": ("nn.Module", "forward"), "mindspore": ("nn.Cell", "construct")}


class Net(NamedTuple):
    """A file with a net of several rows.

    Attributes:
        path: the file.
        lines: of each row, the lines where it can be mended: those of its layer and of its call.
        size: how many numbers the net takes.
    """

    path: Path
    lines: list[tuple[int, ...]]
    size: int

    @property
    def reference(self) -> str:
        """The net as the command line names it."""
        return f"{self.path}:Net"


class Call(NamedTuple):
    """An expression, with the layer that it constructs taken out.

    Attributes:
        layer: the call that constructs it; empty for none.
        run: what is computed, of `self.layer`.
    """

    layer: str
    run: str


def call_of(source: str, arguments: Sequence[str]) -> Call:
    """Take an expression apart; a layer that stands alone is called with the arguments."""
    tree = ast.parse(source, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.fullmatch(r"nn\.[A-Z]\w*", ast.unparse(node.func)):
            layer = ast.get_source_segment(source, node) or ""
            run = (
                f"self.layer({', '.join(arguments)})" if node is tree else source.replace(layer, "self.layer")
            )
            return Call(layer, run)
    return Call("", source)


def shapes_of(row: Difference) -> list[tuple[int, ...]]:
    """The shapes of a row's inputs."""
    return [tuple(map(int, shape.split("x"))) for shape in row.inputs]


def given_of(row: Difference) -> list[tuple[str, str]]:
    """Names and lists of a row's further values."""
    return [tuple(map(str.strip, each.split("=", 1))) for each in filter(None, row.given.split(";"))]  # pyright: ignore


def write_net(path: Path, rows: Sequence[Difference], side: str) -> Net:
    """Write the net of some rows.

    Args:
        path: the file.
        rows: its rows.
        side: "torch", or "naive" or "right" for MindSpore.
    """
    framework = "torch" if side == "torch" else "mindspore"
    base, method = BASES[framework]
    tensor = "torch.tensor" if framework == "torch" else "ms.Tensor"
    lines = HEADS[framework].splitlines()
    places: list[tuple[int, ...]] = []
    parts: list[str] = []
    at = 0
    for number, row in enumerate(rows):
        names = "xyz"[: len(row.inputs)]
        given = given_of(row)
        call = call_of(getattr(row, side), [*names, *(name for name, _ in given)])
        lines += [
            "",
            "",
            f"class Row{number}({base}):",
            "    def __init__(self):",
            "        super().__init__()",
        ]
        lines += [f"        self.{name} = {tensor}({value})" for name, value in given]
        if call.layer:
            lines.append(f"        self.layer = {call.layer}")
        made = len(lines)
        lines += ["", f"    def {method}(self, {', '.join(names)}):"]
        lines += [f"        {name} = self.{name}" for name, _ in given]
        lines.append(f"        return {call.run}")
        places.append((made, len(lines)) if call.layer else (len(lines),))
        taken = []
        for shape in shapes_of(row):
            size = math.prod(shape)
            taken.append(f"x[{at}:{at + size}].reshape({shape})")
            at += size
        parts.append(f"self.row{number}({', '.join(taken)})")
    lines += ["", "", f"class Net({base}):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        self.row{number} = Row{number}()" for number in range(len(rows))]
    lines += [
        "",
        f"    def {method}(self, x):",
        "        return (",
        *(f"            {p}," for p in parts),
        "        )",
    ]
    path.write_text("\n".join(lines) + "\n")
    return Net(path, places, at)
