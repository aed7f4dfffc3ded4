"""Cases of the MindSpore frontend: per row an expression of a `construct`, a Cell per group of them."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np

_CELL = """
import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.ops import auto_generate as A
from mindspore.ops import operations as P
from mindspore.ops.operations import math_ops
from mindspore.ops.operations._inner_ops import TensorCopySlices

class Group(nn.Cell):
    def __init__(self):
        super().__init__()
{layers}

    def construct(self, {inputs}):
        return (
{results}
        )
"""


@dataclass
class Group:
    """Cases that are compiled as one Cell.

    Attributes:
        inputs: the inputs that expressions name.
        rows: row -> expression; an item of a tuple result, or several as a tuple.
        layers: attribute of the Cell -> what makes it.
        dynamic: whether axis 0 of the inputs is the batch, so that another size of it is run too.
    """

    inputs: dict[str, np.ndarray]
    rows: dict[str, str]
    layers: dict[str, str]
    dynamic: bool = True

    def cell(self, folder: Path, name: str) -> ms.nn.Cell:
        """Write the Cell's source, which MindSpore reads to compile it, and make the Cell."""
        path = folder / f"{name}.py"
        path.write_text(
            _CELL.format(
                layers="\n".join(f"        self.{k} = {v}" for k, v in self.layers.items()),
                inputs=", ".join(self.inputs),
                results="\n".join(f"            {v},  # {k}" for k, v in self.rows.items()),
            )
        )
        spec = importlib.util.spec_from_file_location(f"rows_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where MindSpore looks for the source
        spec.loader.exec_module(module)
        ms.set_seed(1)
        return module.Group()


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(*shape: int, high: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape).astype(np.int32)
