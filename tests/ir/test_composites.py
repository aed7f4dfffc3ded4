"""Composites: the typing rule against the expansion's own types, and the numbers against the frameworks'."""

import math
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest

from regraft.ir import COMPOSITES, BackendError, Builder, Graph, TensorType, expand, validate
from regraft.ir.composites.polynomial import FAMILIES
from regraft.ir.types import dtype_name, type_of_proto

from ..passes.oracle import evaluate, run_onnxruntime, to_onnx
from ..rows.operators import CASES as EMITTED
from . import matrix_cases

RANDOM = np.random.default_rng(0)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@dataclass
class Case:
    name: str
    arrays: list
    attributes: dict = field(default_factory=dict)
    oracle: object = None

    def __str__(self):
        shapes = ",".join("" if a is None else "x".join(map(str, a.shape)) for a in self.arrays)
        return f"{self.name}({shapes}) {self.attributes}"


def torch_linear(x, weight, bias=None):
    import torch

    return torch.nn.functional.linear(
        *(None if a is None else torch.tensor(a) for a in (x, weight, bias))
    ).numpy()


def torch_adaptive(x, output_size):
    import torch

    pool = getattr(torch.nn.functional, f"adaptive_avg_pool{len(output_size)}d")
    return pool(torch.tensor(x), output_size).numpy()


def torch_largest(x, output_size):
    import torch

    pool = getattr(torch.nn.functional, f"adaptive_max_pool{len(output_size)}d")
    return pool(torch.tensor(x), output_size).numpy()


def torch_unpooled(x, places, output_size):
    import torch

    pool = getattr(torch.nn.functional, f"max_unpool{len(output_size)}d")
    return pool(torch.tensor(x), torch.tensor(places), 2, output_size=output_size).numpy()


def torch_attention(query, key, value, mask=None, **options):
    import torch

    tensors = [None if a is None else torch.tensor(a) for a in (query, key, value, mask)]
    options = {"is_causal": bool(options.get("is_causal")), "scale": options.get("scale")}
    return torch.nn.functional.scaled_dot_product_attention(*tensors, **options).numpy()


def torch_recurrent(kind):
    def run(x, lengths, *rest, hidden_size, num_layers=1, has_bias=1, proj_size=0, **options):
        import torch

        options = {k: v if k == "nonlinearity" else bool(v) for k, v in options.items()}
        options |= {"num_layers": num_layers, "bias": bool(has_bias)}
        options |= {"proj_size": proj_size} if proj_size else {}
        layer = getattr(torch.nn, kind)(x.shape[-1], hidden_size, **options)
        states, parameters = rest[: 1 + (kind == "LSTM")], rest[1 + (kind == "LSTM") :]
        with torch.no_grad():
            for own, given in zip(layer.parameters(), parameters, strict=True):
                own.copy_(torch.tensor(given))
        hx = None if states[0] is None else tuple(map(torch.tensor, states))
        given = torch.tensor(x)
        if lengths is not None:
            packing = {"batch_first": options["batch_first"], "enforce_sorted": False}
            given = torch.nn.utils.rnn.pack_padded_sequence(given, torch.tensor(lengths), **packing)
        with torch.no_grad():
            found = layer(given, hx if hx is None or kind == "LSTM" else hx[0])[0]
        if lengths is None:
            return found.numpy()
        padding = {"batch_first": options["batch_first"], "total_length": x.shape[1]}
        return torch.nn.utils.rnn.pad_packed_sequence(found, **padding)[0].numpy()

    return run


def torch_cell(kind):
    def run(x, *rest, **options):
        import torch

        states, parameters = rest[: 1 + (kind == "LSTMCell")], rest[1 + (kind == "LSTMCell") :]
        cell = getattr(torch.nn, kind)(x.shape[-1], states[0].shape[-1], bias=len(parameters) > 2, **options)
        with torch.no_grad():
            for own, given in zip(cell.parameters(), parameters, strict=True):
                own.copy_(torch.tensor(given))
            hx = tuple(map(torch.tensor, states))
            found = cell(torch.tensor(x), hx if kind == "LSTMCell" else hx[0])
        return (found[0] if kind == "LSTMCell" else found).numpy()

    return run


def torch_multihead(query, key, value, out, out_bias, weight, bias, num_heads, batch_first):
    import torch

    assert batch_first
    given = [torch.from_numpy(x).transpose(0, 1) for x in (query, key, value)]
    weights = [torch.from_numpy(x) for x in (weight, bias)]
    rest = [torch.from_numpy(x) for x in (out, out_bias)]
    y, _ = torch.nn.functional.multi_head_attention_forward(
        *given, query.shape[-1], num_heads, *weights, None, None, False, 0.0, *rest, need_weights=False
    )
    return y.transpose(0, 1).numpy()


def full_pool(x, mode, kernel_shape, strides, pads, count_include_pad=1):
    """MXNet's rule, window by window: as many as cover the padded input, divided by what is in them."""
    rank = len(kernel_shape)
    padded = [n + pads[i] + pads[i + rank] for i, n in enumerate(x.shape[2:])]
    counts = [-(-(n - k) // s) + 1 for n, k, s in zip(padded, kernel_shape, strides, strict=True)]
    out = np.zeros((*x.shape[:2], *counts), np.float32)
    for index in np.ndindex(*counts):
        real, size = [slice(None), slice(None)], 1
        for axis, i in enumerate(index):
            start = i * strides[axis] - pads[axis]
            stop = min(start + kernel_shape[axis], x.shape[2 + axis] + pads[axis + rank])
            inside = slice(max(start, 0), max(min(stop, x.shape[2 + axis]), 0))
            real.append(inside)
            size *= stop - start if count_include_pad else max(inside.stop - inside.start, 0)
        window = x[tuple(real)].reshape(*x.shape[:2], -1)
        if mode == "max":
            out[(..., *index)] = window.max(-1, initial=np.finfo(np.float32).min)
        else:
            out[(..., *index)] = window.sum(-1) / (max(size, 1) if mode == "average" else 1)
    return out


def adaptive(shape, size):
    return Case("AdaptiveAveragePool", [draw(*shape)], {"output_size": size}, torch_adaptive)


def largest(shape, size):
    return Case("AdaptiveMaxPool", [draw(*shape)], {"output_size": size}, torch_largest)


def unpooled(size, *output):
    """Of a pool with windows of 2."""
    import torch

    pool = getattr(torch.nn.functional, f"max_pool{len(size)}d")
    found = [v.numpy() for v in pool(torch.tensor(draw(2, 3, *size)), 2, return_indices=True)]
    return Case("MaxUnpool", found, {"output_size": list(output or size)}, torch_unpooled)


def attention(batch, queries, keys, width, mask=None, **attributes):
    arrays = [draw(*batch, queries, width), draw(*batch, keys, width), draw(*batch, keys, width + 1)]
    return Case(
        "ScaledDotProductAttention", arrays + ([] if mask is None else [mask]), attributes, torch_attention
    )


def full(sizes, mode, kernel, strides, pads, **more):
    attributes = {"mode": mode, "kernel_shape": kernel, "strides": strides, "pads": pads, **more}
    return Case("FullPool", [draw(2, 3, *sizes)], attributes, full_pool)


def recurrent(kind, *, lengths=None, given=False, **options):
    """A stack of width 4 to 5 on 2 sequences of 6, batch first."""
    gates, rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], options.get("num_layers", 1)
    directions = 2 if options.get("bidirectional") else 1
    width = options.get("proj_size") or 5
    states = [draw(rows * directions, 2, n) for n in (width, 5)] if given else [None, None]
    parameters = []
    for layer in range(rows):
        shapes = [(gates * 5, directions * width if layer else 4), (gates * 5, width)]
        shapes += [(gates * 5,)] * 2 if options.get("has_bias", 1) else []
        shapes += [(options["proj_size"], 5)] if options.get("proj_size") else []
        parameters += [draw(*shape) for _ in range(directions) for shape in shapes]
    lengths = None if lengths is None else np.array(lengths)
    arrays = [draw(2, 6, 4), lengths, *states[: 1 + (kind == "LSTM")], *parameters]
    return Case(kind, arrays, {"hidden_size": 5, "batch_first": 1, **options}, torch_recurrent(kind))


def cell(kind, *, bias=True, **options):
    gates = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}[kind]
    states = [draw(2, 5) for _ in range(1 + (kind == "LSTMCell"))]
    parameters = [draw(gates * 5, 4), draw(gates * 5, 5), *[draw(gates * 5)] * (2 * bias)]
    return Case(kind, [draw(2, 4), *states, *parameters], options, torch_cell(kind))


def multihead(width, heads):
    arrays = [draw(2, 5, width), draw(2, 4, width), draw(2, 4, width)]
    arrays += [draw(width, width), draw(width), draw(3 * width, width), draw(3 * width)]
    return Case("MultiheadAttention", arrays, {"num_heads": heads, "batch_first": 1}, torch_multihead)


def of_torch(name):
    """What torch computes in float64, the first of its results."""

    def run(*arrays, **attributes):
        import torch

        operator = getattr(torch.ops.aten, name)
        given = [torch.tensor(a).double() if a.dtype.kind == "f" else torch.tensor(a) for a in arrays]
        if "degree" in attributes:
            given.append(attributes["degree"])
        overload = operator.n_scalar if "degree" in attributes else operator
        given += [attributes["axis"]] if "axis" in attributes else []
        order = [attributes["n"]] if "n" in attributes else []
        found = overload(*order, *given)
        found = found[0] if isinstance(found, tuple) else found
        return (found.float() if found.is_floating_point() else found).numpy()

    return run


def polynomial(family, **attributes):
    base, _, kind = family.rpartition("_")
    degrees = [] if attributes else [np.array([[0, 1, 2, 5]] * 3, np.float32)]
    oracle = of_torch(f"special_{base}_polynomial_{kind}")
    arrays = [np.tanh(draw(2, 3, 4)) * 1.2, *(np.stack([d, d]) for d in degrees)]
    return Case("Polynomial", arrays, {"family": family, **attributes}, oracle)


OF_ALL = {
    "Lgamma": "lgamma",
    "Digamma": "digamma",
    "Expm1": "expm1",
    "Erfc": "erfc",
    "Erfcx": "special_erfcx",
    "Exp2": "exp2",
    "LogNdtr": "special_log_ndtr",
    "Frexp": "frexp",
    "SphericalBesselJ0": "special_spherical_bessel_j0",
    "BesselI0": "i0",
    **{f"BesselI{order}": f"special_i{order}" for order in ("1", "0e", "1e")},
    **{f"BesselJ{order}": f"special_bessel_j{order}" for order in (0, 1)},
}
OF_POSITIVE = {
    **{f"BesselY{order}": f"special_bessel_y{order}" for order in (0, 1)},
    **{f"BesselK{order}": f"special_modified_bessel_k{order}" for order in (0, 1)},
    **{f"BesselK{order}e": f"special_scaled_modified_bessel_k{order}" for order in (0, 1)},
    "Ndtri": "special_ndtri",
    "Erfinv": "erfinv",
}
WHOLE = np.random.default_rng(0).integers(-90, 90, (2, 2, 3, 4))
SPECIAL = [
    *(Case(name, [draw(2, 3, 4) * 3], oracle=of_torch(torchs)) for name, torchs in OF_ALL.items()),
    *(Case(n, [np.tanh(abs(draw(2, 3, 4)) + 0.05)], oracle=of_torch(t)) for n, t in OF_POSITIVE.items()),
    Case("Log1p", [abs(draw(2, 3, 4)) - 0.9], oracle=of_torch("log1p")),
    Case("Gamma", [draw(2, 3, 4) * 3], oracle=np.vectorize(math.gamma, otypes="f")),
    *(Case("Polygamma", [abs(draw(2, 3)) + 0.1], {"n": n}, of_torch("polygamma")) for n in (0, 1, 4)),
    Case("Zeta", [abs(draw(2, 3)) + 1.5, abs(draw(2, 3)) + 0.1], oracle=of_torch("special_zeta")),
    Case("LogAddExp2", [draw(2, 3), draw(2, 3)], oracle=of_torch("logaddexp2")),
    *(Case(name.title(), list(WHOLE), oracle=of_torch(name)) for name in ("gcd", "lcm")),
    *(polynomial(family) for family in FAMILIES),
    *(polynomial(family, degree=4) for family in FAMILIES),
    polynomial("laguerre_l", degree=0),
    polynomial("shifted_chebyshev_v", degree=-1),
]
"""Their accuracy, and what they give at poles and infinities: test_special_functions.py."""
SCANS = [
    *(
        Case(name, [draw(*shape)], {"axis": axis}, of_torch(name.lower()))
        for name in ("CumMax", "CumMin", "CumProd", "LogCumSumExp")
        for shape, axis in (((2, 5, 3), 1), ((2, 1), 1), ((3, 9), -1))
    ),
    Case("CumMax", [WHOLE[0]], {"axis": 2}, of_torch("cummax")),
]
"""Their places, and NaN and infinities on the way: test_scans.py."""

TRIANGLE = np.tril(np.ones((5, 5), np.bool_))
LABEL = draw(2, 4)
CASES = [
    *(
        Case(c.row.removeprefix("regraft."), [o.array for o in c.operands], c.attributes, c.oracle)
        for c in EMITTED
        if c.oracle is not None
    ),
    *SPECIAL,
    *SCANS,
    *(Case(*case) for case in matrix_cases.CASES),
    Case("Linear", [draw(2, 4), draw(3, 4)], oracle=torch_linear),
    Case("Linear", [draw(2, 4), draw(3, 4), draw(3)], oracle=torch_linear),
    Case("Linear", [draw(2, 5, 4), draw(3, 4), draw(3)], oracle=torch_linear),
    Case("Linear", [draw(2, 5, 6, 4), draw(1, 4)], oracle=torch_linear),
    *(adaptive((2, 3, 7), [size]) for size in (1, 3, 7, 10)),
    *(largest((2, 3, 7), [size]) for size in (1, 3, 7, 10)),
    *(largest((2, 3, 7, 5), size) for size in ([3, 2], [1, 9], [7, 5])),
    largest((2, 3, 4, 7, 5), [3, 2, 5]),
    *(unpooled(size) for size in ([6], [4, 6], [4, 6, 2])),
    unpooled([5, 7]),
    *(
        adaptive((2, 3, *sizes), size)
        for sizes in ((8, 8), (7, 5), (1, 9))
        for size in ([1, 1], [4, 4], [7, 3])
    ),
    adaptive((1, 2, 4, 5, 6), [2, 3, 4]),
    attention((2,), 5, 5, 4),
    attention((2, 3), 4, 6, 8, scale=0.3),
    attention((2,), 5, 5, 4, is_causal=1),
    attention((2,), 3, 5, 4, is_causal=1),
    attention((2, 3), 5, 5, 4, mask=TRIANGLE),
    attention((2, 3), 5, 5, 4, mask=np.where(TRIANGLE, 0, -1e9).astype(np.float32)),
    multihead(8, 2),
    Case(
        "PaddedEmbedding",
        [draw(5, 3), np.array([[1, 0], [4, 2]])],
        {"padding_idx": 0},
        lambda table, indices, padding_idx: table[indices],
    ),
    Case("Unstack", [draw(2, 3, 4)], {"axis": 1}, lambda x, axis: x.take(0, axis)),  # the first of them
    *(full((5, 6), mode, [2, 3], [3, 2], [1, 1, 1, 1]) for mode in ("max", "average", "sum")),
    *(full((7,), mode, [3], [2], [0, 0]) for mode in ("max", "average", "sum")),
    full((6, 6), "average", [3, 3], [2, 2], [1, 1, 1, 1], count_include_pad=0),
    full((8, 8), "max", [3, 3], [2, 2], [0, 0, 0, 0]),
    Case("Print", [draw(2, 4)], {"parts": '["x"]'}, lambda x, **_: x),
    Case("MakeLoss", [draw(2, 4)], {"grad_scale": 2.0}, lambda x, **_: x),
    Case("SoftmaxOutput", [draw(2, 4)], {}, softmax),
    Case("SoftmaxOutput", [draw(2, 4, 3)], {"axis": 1}, softmax),
    Case(
        "SoftmaxOutput",
        [draw(2, 4, 3)],
        {"axis": 0},
        lambda x, axis: softmax(x.reshape(len(x), -1)).reshape(x.shape),
    ),
    Case("LinearRegressionOutput", [draw(2, 4), LABEL], oracle=lambda x, _: x),
    Case("MAERegressionOutput", [draw(2, 4)], oracle=lambda x: x),
    Case("LogisticRegressionOutput", [draw(2, 4)], oracle=lambda x: 1 / (1 + np.exp(-x))),
    Case("SVMOutput", [draw(2, 4)], oracle=lambda x: x),
    *(recurrent(kind) for kind in ("LSTM", "GRU", "RNN")),
    *(recurrent(kind, num_layers=2, bidirectional=1, given=True) for kind in ("LSTM", "GRU", "RNN")),
    recurrent("LSTM", bidirectional=1, lengths=[6, 3]),
    recurrent("GRU", num_layers=2, bidirectional=1, lengths=[2, 6], has_bias=0),
    recurrent("RNN", nonlinearity="relu", num_layers=2),
    recurrent("LSTM", proj_size=3, num_layers=2, bidirectional=1, given=True),
    recurrent("LSTM", proj_size=3, has_bias=0),
    *(cell(kind, bias=bias) for kind in ("LSTMCell", "GRUCell", "RNNCell") for bias in (True, False)),
    cell("RNNCell", nonlinearity="relu"),
]


STACKS = {"LSTM": 3, "GRU": 2, "RNN": 2}
BATCHED = {
    "MultiheadAttention": 2,
    "PaddedEmbedding": 1,
    "MaxUnpool": 1,
    **matrix_cases.BATCHED,
    "ScaledDotProductAttention": 2,
    **STACKS,
    "LSTMCell": 2,
    "GRUCell": 1,
    "RNNCell": 1,
    **dict.fromkeys(("Zeta", "LogAddExp2", "Gcd", "Lcm", "Polynomial"), 1),
}
"""Composites that have the batch in more inputs than the first -> the last of these."""


def build(case, symbolic=False):
    """A graph of the one composite; `symbolic` names the batch."""
    b = Builder(Graph())
    values = []
    for i, array in enumerate(case.arrays):
        if array is None:
            values.append(None)
            continue
        shape = list(array.shape)
        if symbolic and i <= BATCHED.get(case.name, 0):
            inner = (i and case.name in STACKS) or case.name == "CTCLoss"
            shape[1 if inner and array.ndim == 3 else 0] = "N"
        values.append(b.graph.add_input(f"x{i}", TensorType(dtype_name(array.dtype), tuple(shape))))
    results = len(COMPOSITES[case.name].signature.outputs)
    y, *_ = b.ops(f"regraft.{case.name}", *values, outputs=results, **case.attributes)
    b.graph.outputs.append(("y", y))
    return b.graph


def expanded(graph):
    new = graph.copy()
    while composites := [n.key for n in new.operators() if n.domain]:
        for key in composites:
            expand(Builder(new), key)
    validate(new)
    return new


def test_every_composite_has_a_case():
    # a stub computes nothing; ONNX's reference evaluator is not asked for loops: test_selection.py
    assert {case.name for case in CASES} == set(COMPOSITES) - {"Stub", "Suppressed"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_numbers_of_the_expansion(case):
    graph, arrays = build(case), [a for a in case.arrays if a is not None]
    # the reference evaluator reads no sequence lengths and has no relu in an RNN
    (found,) = run_onnxruntime(expanded(graph), *arrays) if case.name in STACKS else evaluate(graph, *arrays)
    expected = case.oracle(*case.arrays, **case.attributes)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_typing_rule_is_the_expansions(case, symbolic):
    graph = build(case, symbolic)
    stated = graph.known_type(graph.outputs[0][1])
    model = to_onnx(expanded(graph))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = type_of_proto(onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0].type)
    assert stated.shape is not None
    assert inferred is not None
    assert stated.dtype == inferred.dtype
    if inferred.shape is not None:  # ONNX loses symbols; what it knows must agree
        pairs = zip(stated.shape, inferred.shape, strict=True)
        assert all(a == b for a, b in pairs if isinstance(b, int)), (stated, inferred)
    if symbolic:
        assert stated.shape[0] == "N"
    else:
        assert stated.shape == case.oracle(*case.arrays, **case.attributes).shape


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("FullPool", {"mode": "max", "kernel_shape": [2, 2], "strides": [2, 2]}),
    ],
)
def test_an_expansion_that_needs_a_size_says_so(name, attributes):
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", ("N", 3, "H", "W")))
    results = len(COMPOSITES[name].signature.outputs)
    y, *_ = b.ops(f"regraft.{name}", x, outputs=results, **attributes)
    with pytest.raises(BackendError, match="static spatial") as caught:
        expand(b, y.node)
    assert "--input" in caught.value.hint
