"""The oracle of the torch frontend: ONNX Runtime on the lowered graph against PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import torch

from regraft.backends.onnx_model import to_model
from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read
from regraft.frontends.torch_module.export.output_names import named_outputs
from regraft.ir import Graph, parse, render, validate


def fresh(array: np.ndarray, seed: int, batch: int | None) -> np.ndarray:
    """Another array of the same kind, with another batch size where one is given."""
    random = np.random.default_rng(seed)
    shape = array.shape if batch is None else (batch, *array.shape[1:])
    if array.dtype == bool:
        return random.random(shape) < 0.5
    if array.dtype.kind in "iu":
        return random.integers(0, max(int(array.max(initial=1)), 1) + 1, shape).astype(array.dtype)
    return random.standard_normal(shape).astype(array.dtype)


def session_of(graph: Graph) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # as written: ONNX Runtime's own rewriting is not under test
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = to_model(graph)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> object:
        return self.function(*arguments)


def check(
    module: torch.nn.Module | Callable[..., object],
    *arrays: np.ndarray | None,
    atol: float = 2e-5,
    rtol: float = 1e-4,
    dynamic: bool = True,
    positive: bool = False,
    options: LoadOptions | None = None,
) -> Graph:
    """Lower, and compare on the example, on fresh inputs, and (where dynamic) on another batch size."""
    if not isinstance(module, torch.nn.Module):
        module = Function(module)
    options = options or LoadOptions(dynamic_batch=dynamic)
    flags = {m: m.training for m in module.modules()}
    graph = read(module, [("", a) for a in arrays], options)
    assert {m: m.training for m in module.modules()} == flags
    validate(graph)
    assert render(parse(render(graph))) == render(graph)
    module.eval()
    session = session_of(graph)
    names = [n.name for n in graph.input_nodes()]
    symbolic = [n.type.shape and n.type.shape[0] == "N" for n in graph.input_nodes()]
    assert any(symbolic) or not dynamic, f"static: {graph.origin.notes}"
    for seed, batch in enumerate([None, None, 3, 5] if any(symbolic) else [None, None]):
        given = [a for a in arrays if a is not None]
        feeds = [
            a if seed == 0 else fresh(a, seed, batch if s else None)
            for a, s in zip(given, symbolic, strict=True)
        ]
        if positive:
            feeds = [np.abs(f) + 0.1 for f in feeds]
        values = iter(feeds)
        with torch.no_grad():
            tensors = [None if a is None else torch.from_numpy(next(values).copy()) for a in arrays]
            expected = named_outputs(module(*tensors))
        found = session.run(None, dict(zip(names, feeds, strict=True)))
        assert [o.name for o in session.get_outputs()] == [n for n, _ in expected]
        for (name, want), got in zip(expected, found, strict=True):
            assert got.dtype == want.dtype, name
            assert got.shape == want.shape, name
            np.testing.assert_allclose(got, want, atol=atol, rtol=rtol, err_msg=name, equal_nan=True)
    return graph
