"""Random MXNet symbols, against MXNet 1.x itself, whose Python REGRAFT_MXNET_PYTHON names."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
from hypothesis import strategies as st

import regraft
from regraft.backends.onnx_model import to_model
from regraft.frontends.mxnet_symbol import read
from regraft.frontends.options import LoadOptions
from regraft.verification.oracle.mxnet_runner import MXNetRunner

from .program import EXAMPLE, OTHERS, close, exact

ORACLE = "REGRAFT_MXNET_PYTHON"
Shape = tuple[int, ...]


@dataclass
class Symbol:
    """What is drawn: variable 0 is the data.

    Attributes:
        shape: of the data, without the batch.
        nodes: operator, attributes, the numbers of the nodes that it reads, and what its weights are made of.
        shapes: of each node, without the batch.
    """

    shape: Shape
    nodes: list[tuple[str, dict[str, str], tuple[int, ...], Shape]] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)

    def document(self) -> tuple[dict, dict[str, Shape]]:
        """The symbol as MXNet writes it, and its parameters."""
        rows: list[dict] = [{"op": "null", "name": "data", "inputs": []}]
        place, weights = {0: 0}, {}
        for number, (op, attributes, reads, weight) in enumerate(self.nodes, 1):
            inputs = [[place[r], 0, 0] for r in reads]
            if weight:
                weights[f"w{number}"] = weight
                inputs.append([len(rows), 0, 0])
                rows.append({"op": "null", "name": f"w{number}", "inputs": []})
            place[number] = len(rows)
            rows.append({"op": op, "name": f"n{number}", "attrs": attributes, "inputs": inputs})
        heads = [[place[n], 0, 0] for n in range(1, len(self.nodes) + 1)][-3:]
        variables = [n for n, row in enumerate(rows) if row["op"] == "null"]
        return {"nodes": rows, "arg_nodes": variables, "heads": heads}, weights


_UNARY = "abs square relu negative sign floor ceil trunc sigmoid tanh exp sin BlockGrad _copy softsign"
_SCALAR = (
    "_plus_scalar _minus_scalar _rminus_scalar _mul_scalar _maximum_scalar _minimum_scalar _greater_scalar"
)
_SCALAR += " _lesser_equal_scalar _equal_scalar _mod_scalar _hypot_scalar"
_BINARY = (
    "elemwise_add elemwise_sub elemwise_mul broadcast_maximum broadcast_minimum broadcast_greater _hypot"
)
_BINARY += " broadcast_lesser_equal broadcast_equal broadcast_hypot broadcast_mod"

Drawn = tuple[str, dict[str, str], tuple[int, ...], Shape, Shape]


def _one(draw: st.DrawFn, symbol: Symbol) -> Drawn | None:
    """One more operator that fits a value there is: its row, and its shape."""
    x = draw(st.integers(0, len(symbol.nodes)))
    shape = symbol.shapes[x]
    axis = draw(st.integers(1, len(shape)))
    kinds = [
        "unary",
        "unary",
        "scalar",
        "binary",
        "binary",
        "softmax",
        "slice",
        "reverse",
        "reduce",
        "concat",
    ]
    kinds += ["flatten", "transpose", "expand", "clip"] + ["conv", "pool", "pool", "deconv"] * (
        len(shape) == 3
    )
    kind = draw(st.sampled_from(kinds))
    same: Mapping[str, Callable[[], tuple[str, dict[str, str]]]] = {
        "unary": lambda: (draw(st.sampled_from(_UNARY.split())), {}),
        "scalar": lambda: (
            draw(st.sampled_from(_SCALAR.split())),
            {"scalar": draw(st.sampled_from(["0.5", "2", "-3"]))},
        ),
        "softmax": lambda: ("softmax", {"axis": str(axis)}),
        "reverse": lambda: ("reverse", {"axis": f"({axis},)"}),
        "clip": lambda: ("clip", {"a_min": "-1", "a_max": "1.5"}),
    }
    if kind in same:
        return *same[kind](), (x,), (), shape
    if kind in ("binary", "concat"):
        equal = [n for n, s in enumerate(symbol.shapes) if s == shape]
        y = draw(st.sampled_from(equal))
        if kind == "binary":
            return draw(st.sampled_from(_BINARY.split())), {}, (x, y), (), shape
        joined = (*shape[: axis - 1], 2 * shape[axis - 1], *shape[axis:])
        return "Concat", {"dim": str(axis), "num_args": "2"}, (x, y), (), joined
    if kind == "flatten":
        return "Flatten", {}, (x,), (), (int(np.prod(shape)),)
    if kind == "expand":
        return "expand_dims", {"axis": str(axis)}, (x,), (), (*shape[: axis - 1], 1, *shape[axis - 1 :])
    if kind == "transpose":
        order = draw(st.permutations(range(len(shape))))
        return (
            "transpose",
            {"axes": str((0, *(a + 1 for a in order)))},
            (x,),
            (),
            tuple(shape[a] for a in order),
        )
    if kind == "slice":
        end = draw(st.integers(1, shape[axis - 1]))
        cut = (*shape[: axis - 1], end, *shape[axis:])
        return "slice_axis", {"axis": str(axis), "begin": "0", "end": str(end)}, (x,), (), cut
    if kind == "reduce":
        op, keep = draw(st.sampled_from(["sum", "mean", "max", "min"])), draw(st.booleans())
        left = (*shape[: axis - 1], *([1] if keep else []), *shape[axis:])
        return (op, {"axis": str(axis), "keepdims": str(keep)}, (x,), (), left) if left else None
    k, s, p = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    window = {"kernel": f"({k}, {k})", "stride": f"({s}, {s})", "pad": f"({p}, {p})"}
    if kind == "deconv":
        size = tuple((n - 1) * s + k - 2 * p for n in shape[1:])
        row = ("Deconvolution", {**window, "num_filter": "2", "no_bias": "True"}, (x,), (shape[0], 2, k, k))
        return (*row, (2, *size)) if min(size) > 0 else None
    full = kind == "pool" and draw(st.booleans())
    size = tuple((-((k - n - 2 * p) // s) if full else (n + 2 * p - k) // s) + 1 for n in shape[1:])
    if min(size) <= 0 or min(n + 2 * p for n in shape[1:]) < k or p > k // 2:
        return None
    if kind == "conv":
        window |= {"num_filter": "3", "no_bias": "True"}
        return "Convolution", window, (x,), (3, shape[0], k, k), (3, *size)
    window |= {"pool_type": draw(st.sampled_from(["max", "avg", "sum"]))}
    window |= {"pooling_convention": "full" if full else "valid"}
    return "Pooling", window, (x,), (), (shape[0], *size)


@st.composite
def programs(draw: st.DrawFn) -> Symbol:
    shape = draw(st.sampled_from([(3, 6, 5), (4, 3), (5,)]))
    symbol = Symbol(shape, [], [shape])
    for _ in range(draw(st.integers(1, 8))):
        found = _one(draw, symbol)
        if found is not None and np.prod(found[-1]) < 5000:
            symbol.nodes.append(found[:-1])
            symbol.shapes.append(found[-1])
    if not symbol.nodes:
        symbol.nodes.append(("abs", {}, (0,), ()))
        symbol.shapes.append(shape)
    return symbol


def check(symbol: Symbol) -> None:
    """Assert that what regraft makes of a symbol computes what MXNet does, at other batch sizes too."""
    document, weights = symbol.document()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net-symbol.json"
        path.write_text(json.dumps(document))
        held = {f"arg:{n}": exact(random, s, "float32") / 4 for n, s in weights.items()}
        _write_params(path.with_name("net-0000.params"), held)
        data = exact(random, (EXAMPLE, *symbol.shape), "float32")
        graph = read(path, [("data", data)], LoadOptions())
        rewritten = regraft.rewrite(graph, verify_each=True).graph
        session = onnxruntime.InferenceSession(to_model(rewritten).SerializeToString())
        symbolic = graph.input_nodes()[0].type.shape[:1] == ("N",)
        with closing(MXNetRunner(graph, os.environ[ORACLE])) as runner:
            for batch in (EXAMPLE, *(OTHERS if symbolic else ())):
                data = exact(random, (batch, *symbol.shape), "float32")
                want = runner.run({"data": data}, calls=False).outputs
                for (name, w), g in zip(want, session.run(None, {"data": data}), strict=True):
                    close(g, w, f"{name} at batch {batch}")


def _write_params(path: Path, held: dict[str, np.ndarray]) -> None:
    from ...corpora.mxnet.cases import save_params

    save_params(path, held)
