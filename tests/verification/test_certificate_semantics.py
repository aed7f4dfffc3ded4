"""The checker's operators against ONNX's reference evaluator, on whole numbers whose results are exact."""

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from regraft.verification.certificate import recheck

X = np.arange(-48, 48, dtype=np.float32).reshape(2, 4, 3, 4)
W = (np.arange(4 * 2 * 3 * 2) % 7 - 3).astype(np.float32).reshape(4, 2, 3, 2)
M = (np.arange(12) % 5 - 2).astype(np.float32).reshape(3, 4)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


ROWS = (
    ("Conv", [X, W, M[0]], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    ("Conv", [X, W[:, :1]], {"group": 4, "auto_pad": "SAME_LOWER"}),
    ("AveragePool", [X], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}),
    ("AveragePool", [X], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("GlobalAveragePool", [X[:, :, :1]], {}),
    ("MatMul", [X, M.T], {}),
    ("Gemm", [M, M, M[:, :3]], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Einsum", [X, M], {"equation": "nchw,hk->nkcw"}),
    ("ReduceMean", [X, ints(1, 3)], {"keepdims": 0}),
    ("ReduceSumSquare", [X, ints(-1)], {}),
    ("CumSum", [X, np.array(3, np.int64)], {"exclusive": 1, "reverse": 1}),
    ("Pad", [X, ints(0, 1, 2, 0, 0, 0, 1, 3), np.array(5, np.float32)], {}),
    ("Pad", [X, ints(1, 2, 0, 1), None, ints(2, 3)], {"mode": "reflect"}),
    ("Slice", [X, ints(-1, 3), ints(-9, 0), ints(1, 3), ints(-2, -1)], {}),
    ("Gather", [X, ints(2, -1, 0)], {"axis": 1}),
    ("GatherElements", [M, ints(2, -1, 0, 0, 1, 3).reshape(3, 2)], {"axis": 1}),
    ("GatherND", [X, ints(0, -1, 1, 2).reshape(2, 2)], {}),
    ("ScatterND", [M, ints(0, -1).reshape(2, 1), M[:2] + 1], {"reduction": "add"}),
    ("ScatterElements", [M, ints(1, 0).reshape(1, 2), M[:1, :2] + 7], {"axis": 0}),
    ("DepthToSpace", [X], {"blocksize": 2, "mode": "CRD"}),
    ("Resize", [X, None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}),
    ("Resize", [X, None, None, ints(2, 4, 6, 2)], {"mode": "nearest", "nearest_mode": "ceil"}),
    (
        "Resize",
        [X, None, np.array([1, 1, 2, 1], np.float32)],
        {"mode": "cubic", "coordinate_transformation_mode": "asymmetric"},
    ),
    ("Trilu", [M, np.array(1, np.int64)], {"upper": 0}),
    ("Split", [X, ints(1, 3)], {"axis": 1}),
    ("Tile", [M, ints(2, 3)], {}),
    ("Reshape", [X, ints(0, -1)], {}),
    ("Transpose", [X], {"perm": [2, 0, 3, 1]}),
    ("Pow", [X, np.array(3, np.float32)], {}),
)


EMPTY = recheck.Graph([], [], {}, [], [], {})
NOTHING = recheck.Certificate(Path(), {}, EMPTY, EMPTY, EMPTY, [], [{}], [], [])


def empty_run() -> recheck.Run:
    """Return a run without graphs, in one field."""
    tensors = recheck.Tensors(Path(), {})
    check = recheck.Check(NOTHING, tensors, [2097143], b"k")
    return recheck.Run(check, 2097143, {})


def as_data(run: recheck.Run, array: np.ndarray) -> recheck.Val:
    """Return an array as the value of an input, of which nothing is known before a run."""
    val = run.term("drawn", array.shape, (), "x", array.shape)
    val.held = run.field.image(array)
    return val


def apply(run, name: str, attributes: dict, operands: list, outs: list[str]) -> list[recheck.Val]:
    """Apply the checker's operator to arrays, or to values."""
    names = ["" if a is None else f"i{i}" for i, a in enumerate(operands)]
    env = {}
    for n, a in zip(names, operands, strict=True):
        kind = str(a.dtype) if isinstance(a, np.ndarray) else "float32"
        number = (
            recheck.mapped(recheck.Fraction, a)
            if kind.startswith("float") and isinstance(a, np.ndarray)
            else a
        )
        env[n] = a if a is None else (run.val(a) if isinstance(a, recheck.Val) else run.number(number), kind)
    found = run.apply(recheck.Node(name, names, outs, attributes), env, strict=True)
    return [val for val, _ in found]


@pytest.mark.parametrize(("name", "operands", "attributes"), ROWS)
def test_an_operator_is_exact(name: str, operands: list[np.ndarray | None], attributes: dict) -> None:
    names = ["" if a is None else f"i{i}" for i, a in enumerate(operands)]
    outs = ["o0", "o1"] if name == "Split" else ["o0"]
    node = helper.make_node(name, names, outs, **attributes)
    given = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    graph = helper.make_graph(
        [node], "g", infos, [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    expected = ReferenceEvaluator(model).run(None, given)
    # data as residues: what the operator moves or sums is not known before a run; the rest is
    run = empty_run()
    given = {0: as_data(run, np.asarray(operands[0]))}
    found = apply(run, name, attributes, [given.get(i, a) for i, a in enumerate(operands)], outs)
    for val, wanted in zip(found, expected, strict=True):
        assert val.shape == wanted.shape
        np.testing.assert_array_equal(val.residues, run.field.image(np.asarray(wanted, np.float64)))


def test_a_transposed_convolution_in_groups_is_exact() -> None:
    wanted = torch.nn.functional.conv_transpose2d(
        torch.tensor(X), torch.tensor(W), groups=2, stride=(2, 3), padding=(1, 0), output_padding=(1, 0)
    )
    attributes = {"group": 2, "strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 0]}
    run = empty_run()
    (found,) = apply(run, "ConvTranspose", attributes, [X, W], ["y"])
    np.testing.assert_array_equal(found.residues, run.field.image(wanted.numpy()))
