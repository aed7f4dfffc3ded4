"""The checker's operators against ONNX's reference evaluator, on whole numbers whose results are exact."""

import json

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
    run = recheck.Run(None, None, 2097143, b"k", set(), set(), 1 << 20)
    # data as residues: what the operator moves or sums is not known before a run; the rest is
    vals = [
        None
        if a is None
        else recheck.Val("float32", residues=run.field.image(a))
        if i == 0
        else recheck.Val(str(a.dtype), exact=a)
        for i, a in enumerate(operands)
    ]
    row = recheck.Node(name, names, outs, attributes, "", "", [], [], json.dumps(attributes))
    found = recheck.OPS[name](recheck.Args(run, row, vals))
    for val, wanted in zip(found if isinstance(found, list) else [found], expected, strict=True):
        assert val.shape == wanted.shape
        np.testing.assert_array_equal(val.residues(run), run.field.image(np.asarray(wanted, np.float64)))


def test_a_transposed_convolution_in_groups_is_exact() -> None:
    wanted = torch.nn.functional.conv_transpose2d(
        torch.tensor(X), torch.tensor(W), groups=2, stride=(2, 3), padding=(1, 0), output_padding=(1, 0)
    )
    attributes = {"group": 2, "strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 0]}
    run = recheck.Run(None, None, 2097143, b"k", set(), set(), 1 << 20)
    row = recheck.Node("ConvTranspose", ["x", "w"], ["y"], attributes, "", "", [], [])
    vals = [recheck.Val("float32", exact=a) for a in (X, W)]
    found = recheck.OPS["ConvTranspose"](recheck.Args(run, row, vals))
    np.testing.assert_array_equal(found.residues(run), run.field.image(wanted.numpy()))
