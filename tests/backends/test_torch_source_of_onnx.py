"""ONNX's operators as PyTorch source: forms that torch has no function for, and settings that a run gives."""

import importlib.util
import sys
import warnings
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import parser
from onnx.reference import ReferenceEvaluator
from torch.utils import _pytree as pytree

import regraft
from regraft.backends.torch_source import write

NUMBER = count()
DRAW = np.random.default_rng(0)


def built(graph, folder):
    write(graph, folder)
    spec = importlib.util.spec_from_file_location(f"torch_of_onnx_{next(NUMBER)}", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.build()


def model_of(head, *nodes, opset=21):
    lines = "\n".join(nodes)
    opsets = f'"" : {opset}, "ai.onnx.ml" : 3'
    return parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> net {head} {{ {lines} }}")


def run(model, *arrays):
    """The results of the emitted net, and the folder's text."""
    names = [i.name for i in model.graph.input]
    graph = regraft.load(model, dict(zip(names, arrays, strict=True)))
    folder = Path(run.folder) / str(next(NUMBER))
    net = built(regraft.rewrite(graph).graph, folder)
    results = pytree.tree_leaves(net(*map(torch.from_numpy, arrays)))
    return [r.detach().numpy() for r in results], (folder / "model.py").read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path):
    run.folder = tmp_path


def floats(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


def wholes(*numbers, dtype=np.int64):
    return np.array(numbers, dtype)


def shuffled(*shape):
    """Numbers of which no two are equal."""
    return DRAW.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


X34, X2345 = floats(3, 4), floats(2, 3, 4, 5)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 1.02, 0, 0]]], np.float32)
REGIONS = np.array([[0, 0, 6, 6], [1, 2, 9.5, 5.5], [-2, -1, 3, 12]], np.float32)
LSTM = (floats(5, 2, 3), floats(2, 16, 3), floats(2, 16, 4), floats(2, 32))

UNSIGNED = [
    (name, np.array([0, 1, top, top // 2 + 1], np.uint64), np.array([3, top, 2, top // 2 + 3], np.uint64))
    for name, top in (("uint16", 2**16 - 1), ("uint32", 2**32 - 1), ("uint64", 2**64 - 1))
]

ROWS = {  # kind: [(head, nodes, arrays)]
    "around a network of scikit-learn": [
        (
            "(float[3,4] x, int64[3,1] i) => (float[3,4] y, float[3,3] z, float[1,3] row)",
            [
                "y = ai.onnx.ml.Scaler<offset=[1.0,2.0,0.5,0.0], scale=[2.0,0.5,1.0,4.0]>(x)",
                "z = ai.onnx.ml.ArrayFeatureExtractor(x, i)",
                "zero = Constant<value_ints=[0]>()",
                "first = Gather<axis=0>(x, zero)",
                "axes = Constant<value_ints=[0]>()",
                "vector = Squeeze(first, axes)",
                "row = ai.onnx.ml.ArrayFeatureExtractor(vector, i)",
            ],
            [X34, wholes(2, 0, 3).reshape(3, 1)],
        ),
        (
            "(int64[3,4] x, float[3,4] f) => (float[3,4] a, float[3,4] b, float[3,4] c, float[3,4] d)",
            [
                "a = ai.onnx.ml.Scaler<offset=[0.5], scale=[2.0]>(x)",
                'b = ai.onnx.ml.Normalizer<norm="L1">(f)',
                'c = ai.onnx.ml.Normalizer<norm="L2">(x)',
                'd = ai.onnx.ml.Normalizer<norm="MAX">(f)',
            ],
            [wholes(0, 0, 0, 0, 1, -2, 3, 4, 5, 6, 7, 8).reshape(3, 4), X34],
        ),
    ],
    "bounds that a run gives": [
        (
            "(float[3,4] x, int64[2] s, int64[2] e) => (float[A,B] y)",
            ["y = Slice(x, s, e)"],
            (X34, wholes(0, 1), wholes(2, -1)),
        ),
        (
            "(float[3,4] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[A,B] y)",
            ["y = Slice(x, s, e, a, t)"],
            (X34, wholes(-1), wholes(-100), wholes(-1), wholes(-2)),
        ),
        (
            "(float[3,4] x, int64[1] s, int64[1] e) => (float[A,B] y)",
            ["y = Slice(x, s, e)"],
            (X34, wholes(2), wholes(2**40)),
        ),
        (
            "(float[3,4] x, int64[1] s, int64[1] e) => (float[A,B] y)",
            ["y = Slice(x, s, e)"],
            (X34, wholes(2), wholes(1)),
        ),
    ],
    "axes that a run gives": [
        ("(float[3,4] x, int64[2] a) => (float[A,B,C,D] y)", ["y = Unsqueeze(x, a)"], (X34, wholes(-1, 0))),
        (
            "(float[3,1,4] x, int64[1] a) => (float[A,B] y)",
            ["y = Squeeze(x, a)"],
            (floats(3, 1, 4), wholes(-2)),
        ),
        (
            "(float[3,4] x, int64[2] n) => (float[A,B] y, float[C,D] z)",
            ["y, z = Split<axis=1>(x, n)"],
            (X34, wholes(3, 1)),
        ),
        (
            "(float[2,3,4] x, int64[2] a) => (float[A,B,C] y)",
            ["y = ReduceProd(x, a)"],
            (floats(2, 3, 4), wholes(-1, 0)),
        ),
        ("(float[2,3,4] x) => (float[1,1,1] y)", ["y = ReduceProd(x)"], (floats(2, 3, 4),)),
        (
            "(float[3,4] x, int64 a) => (float[3,4] y)",
            ["y = CumSum<exclusive=1, reverse=1>(x, a)"],
            (X34, np.array(-1)),
        ),
        ("(float[3,4] x, int64 a) => (float[3,4] y)", ["y = CumSum<reverse=1>(x, a)"], (X34, np.array(0))),
        (
            "(float[2,8,1] x, int64 n, int64 a) => (float[A,B,C] y)",
            ["y = DFT<onesided=1>(x, n, a)"],
            (floats(2, 8, 1), np.array(6), np.array(1)),
        ),
        (
            "(float[1,16,1] x, int64 h, float[8] w) => (float[A,B,C,D] y)",
            ["y = STFT(x, h, w)"],
            (floats(1, 16, 1), np.array(4), floats(8)),
        ),
    ],
    "shapes that a run gives": [
        (
            "(float[2,3,4] x, int64[3] s) => (float[A,B,C] y)",
            ["y = Reshape(x, s)"],
            (floats(2, 3, 4), wholes(0, -1, 2)),
        ),
        (
            "(float[2,3,4] x) => (float[A,B,C] y)",
            [
                "s = Shape<start=0, end=1>(x) r = Constant<value_ints=[0, -1]>() t = Concat<axis=0>(s, r)",
                "y = Reshape(x, t)",
            ],
            (floats(2, 3, 4),),
        ),
        (
            "(float[1,5,5] x, int64[2] s, int64[2] k) => (float[A,B,C,D] y)",
            ["y = Col2Im(x, s, k)"],
            (floats(1, 5, 5), wholes(5, 5), wholes(1, 5)),
        ),
        (
            "(float[1,12,6] x, int64[3] s, int64[3] k) => (float[A,B,C,D,E] y)",
            ["y = Col2Im<strides=[1,2,1], pads=[0,0,1,0,1,0]>(x, s, k)"],
            (floats(1, 12, 6), wholes(2, 4, 2), wholes(2, 3, 1)),
        ),
    ],
    "paddings": [
        *[
            (
                "(float[3,4] x, int64[4] p) => (float[A,B] y)",
                [f'y = Pad<mode="{mode}">(x, p)'],
                (X34, wholes(1, 2, 0, 3)),
            )
            for mode in ("constant", "reflect", "edge", "wrap")
        ],
        (
            "(float[3,4] x, int64[2] p, float v, int64[1] a) => (float[A,B] y)",
            ["y = Pad(x, p, v, a)"],
            (X34, wholes(2, -1), np.array(7, np.float32), wholes(-1)),
        ),
        (
            "(bool[3] x) => (bool[A] y)",
            ["p = Constant<value_ints=[1, 2]>() y = Pad(x, p)"],
            (np.array([True, False, True]),),
        ),
        (
            "(int32[3] x) => (int32[A] y)",
            ['p = Constant<value_ints=[1, 2]>() y = Pad<mode="edge">(x, p)'],
            (wholes(4, 5, 6, dtype=np.int32),),
        ),
        (
            "(float[2,3,2,2,2] x) => (float[A,B,C,D,E] y)",
            ['p = Constant<value_ints=[1,0,0,1,1,0,0,1,0,0]>() y = Pad<mode="reflect">(x, p)'],
            (floats(2, 3, 2, 2, 2),),
        ),
    ],
    "sizes that a run resizes to": [
        *[
            (
                "(float[1,2,4,6] x, float[4] s) => (float[A,B,C,D] y)",
                [f'y = Resize<mode="{mode}", coordinate_transformation_mode="{where}">(x, , s)'],
                (floats(1, 2, 4, 6), np.array([1, 1, 0.6, 1.7], np.float32)),
            )
            for mode in ("nearest", "linear", "cubic")
            for where in ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")
        ],
        (
            "(float[1,2,4,6] x, int64[2] s) => (float[A,B,C,D] y)",
            ['y = Resize<mode="linear", axes=[3,2], keep_aspect_ratio_policy="not_larger">(x, , , s)'],
            (floats(1, 2, 4, 6), wholes(7, 3)),
        ),
    ],
    "modes of Resize that torch lacks": [
        *[
            (
                "(float[N,2,4,6] x) => (float[N,2,C,D] y)",
                [
                    "s = Constant<value_floats=[1.0, 1.0, 0.6, 1.7]>()",
                    f'y = Resize<mode="{mode}", {more}>(x, , s)',
                ],
                (floats(2, 2, 4, 6),),
            )
            for mode, more in (
                ("linear", 'coordinate_transformation_mode="half_pixel_symmetric"'),
                ("cubic", "cubic_coeff_a=-0.5, exclude_outside=1"),
                ("cubic", "antialias=1, cubic_coeff_a=-0.75"),
                ("nearest", 'nearest_mode="ceil", coordinate_transformation_mode="align_corners"'),
            )
        ],
        (
            "(float[1,1,4,6] x) => (float[A,B,C,D] y)",
            [
                "r = Constant<value_floats=[0.4, -0.2, 0.6, 1.2]>() s = Constant<value_ints=[3, 5]>()",
                'y = Resize<mode="linear", axes=[2,3], coordinate_transformation_mode="tf_crop_and_resize",'
                " extrapolation_value=9.0>(x, r, , s)",
            ],
            (floats(1, 1, 4, 6),),
        ),
    ],
    "recurrent operators on operands": [
        (
            "(float[5,2,3] x, float[2,16,3] w, float[2,16,4] r, float[2,32] b)"
            " => (float[A,B,C,D] y, float[E,F,G] h)",
            ['y, h = LSTM<hidden_size=4, direction="bidirectional">(x, w, r, b)'],
            LSTM,
        ),
        (
            "(float[5,2,3] x, float[1,16,3] w, float[1,16,4] r, float[1,32] b, int32[2] n, float[1,2,4] h,"
            " float[1,2,4] c, float[1,12] p) => (float[A,B,C,D] y, float[E,F,G] z, float[H,I,J] s)",
            ["y, z, s = LSTM<hidden_size=4>(x, w, r, b, n, h, c, p)"],
            (
                *(a[:1] if a.shape[0] == 2 else a for a in LSTM),
                wholes(5, 5, dtype=np.int32),
                floats(1, 2, 4),
                floats(1, 2, 4),
                floats(1, 12),
            ),
        ),
        *[
            (
                "(float[5,2,3] x, float[1,12,3] w, float[1,12,4] r, float[1,24] b) => (float[A,B,C,D] y)",
                [f'y = GRU<hidden_size=4, direction="reverse", linear_before_reset={last}>(x, w, r, b)'],
                (LSTM[0], floats(1, 12, 3), floats(1, 12, 4), floats(1, 24)),
            )
            for last in (0, 1)
        ],
        (
            "(float[5,2,3] x, float[1,4,3] w, float[1,4,4] r) => (float[A,B,C,D] y, float[E,F,G] h)",
            ['y, h = RNN<hidden_size=4, activations=["Relu"]>(x, w, r)'],
            (floats(5, 2, 3), floats(1, 4, 3), floats(1, 4, 4)),
        ),
    ],
    "forms that ONNX Runtime lacks": [
        (
            "(float[5,5,3,3] x) => (float[5,5,3,3] y)",
            ["y = LRN<size=4, alpha=0.5>(x)"],
            (floats(5, 5, 3, 3),),
        ),
        (
            "(float[2,0,4] x) => (float[2,1,4] y)",
            ["a = Constant<value_ints=[1]>() y = ReduceMax(x, a)"],
            (floats(2, 0, 4),),
        ),
        (
            "(float[2,5,3] x, float[1,4,3] w, float[1,4,4] r) => (float[A,B,C,D] y, float[E,F,G] h)",
            ["y, h = RNN<hidden_size=4, layout=1>(x, w, r)"],
            (floats(2, 5, 3), floats(1, 4, 3), floats(1, 4, 4)),
        ),
    ],
    "places": [
        (
            "(float[3,4] x, int64[2,4] i) => (float[2,4] y)",
            ["y = GatherElements(x, i)"],
            (X34, wholes([0, -1, -3, 2], [1, 1, -2, 0])),
        ),
        (
            "(float[3,4] x, int64[2,4] i, float[2,4] u) => (float[3,4] y)",
            ["y = ScatterElements<axis=1>(x, i, u)"],
            (X34, wholes([0, -1, -3, 2], [3, 2, -4, 1]), floats(2, 4)),
        ),
        (
            "(float[2,3,4] x, int64[2,2,1] i) => (float[2,2,4] y)",
            ["y = GatherND<batch_dims=1>(x, i)"],
            (floats(2, 3, 4), wholes([[0], [-1]], [[1], [1]])),
        ),
        *[
            (
                "(float[3,4] x, int64[3,1] i, float[3,4] u) => (float[3,4] y)",
                [f'y = ScatterND<reduction="{r}">(x, i, u)'],
                (X34, wholes([0], [2], [0]), floats(3, 4)),
            )
            for r in ("add", "mul", "max", "min")
        ],
        (
            "(float[2,6] x) => (float[2,A] y, int64[2,A] i)",
            ["k = Constant<value_ints=[4]>() y, i = TopK(x, k)"],
            (np.array([[1, 3, 3, 0, 3, 1], [5, 5, 5, 5, 5, 5]], np.float32),),
        ),
        *[
            (
                "(float[6] x) => (float[A] y, int64[B] i, int64[C] j, int64[D] n)",
                [f"y, i, j, n = Unique<sorted={s}>(x)"],
                (np.array([2, 1, 1, 3, 4, 3], np.float32),),
            )
            for s in (0, 1)
        ],
        (
            "(float[1,4,4] b, float[1,2,4] s, int64[1] n, float[1] o, float[1] t) => (int64[A,3] y)",
            ["y = NonMaxSuppression(b, s, n, o, t)"],
            (
                BOXES,
                np.array([[[0.9, 0.75, 0.6, 0.95], [0.1, 0.75, 0.2, 0.3]]], np.float32),
                wholes(3),
                np.array([0.5], np.float32),
                np.array([0.15], np.float32),
            ),
        ),
        *[
            (
                "(float[2,3,8,10] x, float[3,4] r, int64[3] i) => (float[A,B,C,D] y)",
                [
                    f"y = RoiAlign<output_height=2, output_width=3, sampling_ratio={n}, spatial_scale=0.8,"
                    f' mode="{mode}", coordinate_transformation_mode="{where}">(x, r, i)'
                ],
                (floats(2, 3, 8, 10), REGIONS, wholes(0, 1, 0)),
            )
            for n, mode, where in (
                (0, "avg", "half_pixel"),
                (2, "avg", "output_half_pixel"),
                (2, "max", "half_pixel"),
            )
        ],
    ],
    "blocks and channels": [
        (
            "(float[N,8,2,3] x) => (float[N,A,B,C] y)",
            ["y = DepthToSpace<blocksize=2>(x)"],
            (shuffled(2, 8, 2, 3),),
        ),
        (
            "(float[N,2,4,6] x) => (float[N,A,B,C] y)",
            ["y = SpaceToDepth<blocksize=2>(x)"],
            (shuffled(2, 2, 4, 6),),
        ),
        ("(float[2,3,4,5] x) => (float[A,B] y)", ["y = Flatten<axis=-4>(x)"], (X2345,)),
        ("(float[2,3,4,5] x) => (float[A,B] y)", ["y = Flatten<axis=-1>(x)"], (X2345,)),
        ("(float[2,3,4,5] x) => (float[A,B] y)", ["y = Flatten<axis=4>(x)"], (X2345,)),
        *[
            (
                "(float[1,2,3,3] x, float[2,2,3,3] w) => (float[A,B,C,D] y)",
                [f"y = ConvTranspose<strides=[2,2], {more}>(x, w)"],
                (floats(1, 2, 3, 3), floats(2, 2, 3, 3)),
            )
            for more in ('auto_pad="SAME_UPPER"', 'auto_pad="SAME_LOWER"', "output_shape=[6,7]")
        ],
    ],
    "pools": [
        *[
            (
                "(float[1,2,7,7] x) => (float[A,B,C,D] y)",
                [f"y = {op}<kernel_shape=[3,3], {more}>(x)"],
                (floats(1, 2, 7, 7),),
            )
            for op in ("AveragePool", "MaxPool")
            for more in (
                "pads=[0,1,1,2], strides=[2,2]",
                "ceil_mode=1, strides=[2,2], pads=[1,1,1,1]",
                "ceil_mode=1, strides=[3,3], pads=[0,0,2,2]",
                'auto_pad="SAME_LOWER", strides=[2,2]',
            )
        ],
        (
            "(float[2,2,4,4] x) => (float[A,B,C,D] y, int64[E,F,G,H] i)",
            ["y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)"],
            (shuffled(2, 2, 4, 4),),
        ),
    ],
    "unsigned integers": [
        *[
            (
                f"({name}[4] x, {name}[4] y) => ({to or name}[4] z)",
                [f"z = {op}(x, y)"],
                (a.astype(name), b.astype(name)),
            )
            for name, a, b in UNSIGNED
            for op, to in (
                ("Add", ""),
                ("Sub", ""),
                ("Div", ""),
                ("Mod", ""),
                ("Less", "bool"),
                ("GreaterOrEqual", "bool"),
                ("Max", ""),
                ("Min", ""),
                ("BitwiseAnd", ""),
                ("Mul", ""),
            )
        ],
        *[
            (
                f"({name}[4] x, {name}[4] y) => ({name}[4] z)",
                [f'z = BitShift<direction="{side}">(x, y)'],
                (a.astype(name), np.array([0, 1, 15, 7], name)),
            )
            for name, a, _ in UNSIGNED
            for side in ("LEFT", "RIGHT")
        ],
        ("(uint16[4] x) => (uint16[4] y)", ["y = BitwiseNot(x)"], (np.array([0, 1, 65535, 7], np.uint16),)),
    ],
}

BY_REFERENCE = {
    "unsigned integers",
    "forms that ONNX Runtime lacks",
    "sizes that a run resizes to",
    "modes of Resize that torch lacks",
}
"""Kinds whose results are those of ONNX's own evaluator: ONNX Runtime's differ, or it has none."""


@pytest.mark.parametrize("kind", ROWS)
def test_forms_are_onnxs(kind):
    for head, nodes, arrays in ROWS[kind]:
        model = model_of(head, *nodes)
        given = dict(zip([i.name for i in model.graph.input], arrays, strict=True))
        if kind in BY_REFERENCE:
            expected = ReferenceEvaluator(model).run(None, given)
        else:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            expected = session.run(None, given)
        got, text = run(model, *arrays)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.dtype, (nodes, text)
            assert a.shape == b.shape, (nodes, text)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=f"{nodes}\n{text}")


CHANNELS_LAST = """
<ir_version: 8, opset_import: ["" : 15]>
net (float[N,8,8,3] x) => (float[N,5] y) {
  a = Transpose<perm=[0,3,1,2]>(x)
  b = Conv<auto_pad="SAME_UPPER", strides=[2,2], kernel_shape=[3,3]>(a, stem, stem_bias)
  c = Transpose<perm=[0,2,3,1]>(b)
  d = Relu(c)
  e = Transpose<perm=[0,3,1,2]>(d)
  f = Conv<auto_pad="SAME_UPPER", group=4, kernel_shape=[3,3]>(e, depthwise)
  g = Transpose<perm=[0,2,3,1]>(f)
  h = ReduceMean<axes=[1,2], keepdims=0>(g)
  y = MatMul(h, head)
}
"""


def test_a_net_of_channels_last_is_layers_and_trains(tmp_path):
    from onnx import numpy_helper

    model = parser.parse_model(CHANNELS_LAST)
    for name, shape in (
        ("stem", (4, 3, 3, 3)),
        ("stem_bias", (4,)),
        ("depthwise", (4, 1, 3, 3)),
        ("head", (4, 5)),
    ):
        model.graph.initializer.append(numpy_helper.from_array(floats(*shape), name))
    graph = regraft.load(model)
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    text = (tmp_path / "net" / "model.py").read_text()
    assert text.count("(nn.Module)") == 1
    for layer in ("nn.Conv2d(3, 4, 3, stride=2)", "nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)"):
        assert layer in text
    net = built(regraft.rewrite(graph).graph, tmp_path / "again").train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, first = torch.from_numpy(floats(2, 8, 8, 3)), None
    for _ in range(3):
        loss = net(x).square().mean()
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < first


def test_places_that_an_operator_found_are_read_as_they_are():
    x = shuffled(2, 6)
    head, nodes = (
        "(float[2,6] x) => (float[2,3] y)",
        ["k = Constant<value_ints=[3]>() v, i = TopK(x, k) y = GatherElements<axis=1>(x, i)"],
    )
    (got,), text = run(model_of(head, *nodes), x)
    assert "% x.shape" not in text
    assert np.array_equal(got, -np.sort(-x, 1)[:, :3])


def test_the_forms_of_a_file_export_and_compile():
    """No size of a Resize that is known is read of a tensor."""
    for head, nodes, arrays in ROWS["modes of Resize that torch lacks"]:
        model = model_of(head, *nodes)
        graph = regraft.rewrite(regraft.load(model, {"x": arrays[0]})).graph
        net = built(graph, Path(run.folder) / str(next(NUMBER)))
        x = torch.from_numpy(arrays[0])
        exported = torch.export.export(net, (x,)).module()
        torch.testing.assert_close(exported(x), net(x))


@pytest.mark.parametrize("given", ["value_floats=[1.0, 1.0, 2.0, 3.0]", "value_ints=[1, 2, 8, 18]"])
@pytest.mark.parametrize(("rounding", "is_torchs"), [("round_prefer_floor", True), ("ceil", False)])
def test_whole_factors_are_torchs_own_mode(given, rounding, is_torchs):
    """Places are compared: by those of half pixels that are rounded, each element repeats as torch has it."""
    slots = "x, , s" if "floats" in given else "x, , , s"
    sizes = "H,6" if "floats" in given else "4,6"
    head = f"(float[1,2,{sizes}] x) => (float[A,B,C,D] y)"
    model = model_of(head, f's = Constant<{given}>() y = Resize<nearest_mode="{rounding}">({slots})')
    x = shuffled(1, 2, 4, 6)
    (got,), text = run(model, x)
    assert np.array_equal(got, ReferenceEvaluator(model).run(None, {"x": x})[0])
    assert ('mode="nearest"' in text and "def resized" not in text) == is_torchs


class Recurrent(torch.nn.Module):
    def __init__(self, kind, **more):
        super().__init__()
        self.rnn = getattr(torch.nn, kind)(3, 4, **more)
        self.head = torch.nn.Linear(8 if more.get("bidirectional") else 4, 2)

    def forward(self, x):
        x, state = self.rnn(x)
        return self.head(x), state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("GRU", {}),
        ("GRU", {"bias": False, "bidirectional": True}),
        ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_recurrent_operators_on_parameters_are_layers_that_hold_the_originals_state(kind, more, tmp_path):
    torch.manual_seed(0)
    model, x = Recurrent(kind, **more).eval(), torch.randn(5, 2, 3)
    torch.onnx.export(model, (x,), str(tmp_path / "net.onnx"), dynamo=False)
    graph = regraft.load(str(tmp_path / "net.onnx"))
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    assert f"self.rnn = nn.{kind}(3, 4" in (tmp_path / "net" / "model.py").read_text()
    state = built(regraft.rewrite(graph).graph, tmp_path / "again").state_dict()
    assert state.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(state[name], value), name
    files, back, again = (tmp_path / name for name in ("net.onnx", "back.safetensors", "again.pth"))
    names = tmp_path / "net" / "renames.json"
    torch.save(model.state_dict(), tmp_path / "net.pth")
    regraft.convert_checkpoint(tmp_path / "net.pth", back, names)
    assert regraft.diff(files, back).equal
    regraft.convert_checkpoint(files, again, names)
    assert {n: v.tolist() for n, v in torch.load(again).items()} == {n: v.tolist() for n, v in state.items()}


def test_a_dropout_whose_mask_is_read_drops_in_training(tmp_path):
    model = model_of("(float[4,50] x) => (float[4,50] y, bool[4,50] mask)", "y, mask = Dropout(x)")
    net = built(regraft.rewrite(regraft.load(model, {"x": floats(4, 50)})).graph, tmp_path / "net")
    x = torch.ones(4, 50)
    y, mask = net.eval()(x)
    assert mask.all()
    assert torch.equal(y, x)
    y, mask = net.train()(x)
    assert 0 < mask.sum() < 200
    assert torch.equal(y, mask * 2.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_layer_that_runs_backwards_is_one_on_a_sequence_turned_round(kind, tmp_path):
    torch.manual_seed(0)
    model, x = Recurrent(kind).eval(), torch.randn(5, 2, 3)
    torch.onnx.export(model, (x,), str(tmp_path / "net.onnx"), dynamo=False)
    file = onnx.load(tmp_path / "net.onnx")
    node = next(node for node in file.graph.node if node.op_type == kind)
    node.attribute.append(onnx.helper.make_attribute("direction", "reverse"))
    onnx.save(file, tmp_path / "net.onnx")
    graph = regraft.load(str(tmp_path / "net.onnx"))
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed
    text = (tmp_path / "net" / "model.py").read_text()
    assert f"self.rnn = nn.{kind}(3, 4)" in text
    assert text.count("flip(") == 2
    net = built(regraft.rewrite(graph).graph, tmp_path / "again")
    with torch.no_grad():
        expected = model.head(model.rnn(x.flip(0))[0].flip(0))
    torch.testing.assert_close(net(x)[0], expected)


def test_numbers_beyond_8_bits_saturate_where_the_file_says_so(tmp_path):
    x = torch.tensor([0.3, 1e6, -1e6, float("inf")])
    rows = [(17, "e4m3fn", 1, 448.0), (19, "e5m2", 1, 57344.0), (19, "e5m2", 0, float("inf"))]
    for to, name, saturate, most in rows:
        model = model_of(f"(float[4] x) => (float8{name}[4] y)", f"y = Cast<to={to}, saturate={saturate}>(x)")
        graph = regraft.rewrite(regraft.load(model, {"x": x.numpy()})).graph
        found = built(graph, tmp_path / f"{name}{saturate}")(x).float()
        assert found.tolist() == [0.3125, most, -most, most]


def test_8_bit_floats_are_compared_with_onnx_runtimes(tmp_path):
    head = "(float[8] x) => (float8e4m3fn[8] y)"
    graph = regraft.load(model_of(head, "y = Cast<to=17>(x)"), {"x": floats(8)})
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="torch")
    assert report.passed


class Tied(torch.nn.Module):
    """A decoder whose head is its table, with a bias or without."""

    def __init__(self, bias):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 6)
        self.body = torch.nn.Linear(6, 6)
        self.head = torch.nn.Linear(6, 20, bias=bias)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.body(self.embed(x)).relu())


@pytest.mark.parametrize("bias", [True, False])
def test_a_table_that_the_older_exporter_stores_twice_is_one_parameter(bias, tmp_path):
    net, x = Tied(bias).eval(), torch.randint(0, 20, (2, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), str(tmp_path / "tied.onnx"), dynamo=False)
    assert len(onnx.load(tmp_path / "tied.onnx").graph.initializer) == 4 + bias  # of 3 and the bias
    graph = regraft.load(tmp_path / "tied.onnx")
    folder = tmp_path / "out"
    again = built(regraft.rewrite(graph, to="torch").graph, folder)
    text = (folder / "model.py").read_text()
    assert "self.head = nn.Linear(" in text
    assert again.head.weight is again.embed.weight
    again.load_state_dict(net.state_dict())
    for each in (net, again):
        each(x).square().sum().backward()
    torch.testing.assert_close(again.embed.weight.grad, net.embed.weight.grad)
