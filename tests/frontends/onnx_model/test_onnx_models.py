"""ONNX models as sources: ONNX Runtime on the file as it is decides what was to be computed."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, StringStringEntryProto, TensorProto, helper, numpy_helper, parser

import regraft
from regraft.backends.onnx_model import to_model
from regraft.ir import Graph, ModelError, UnsupportedError

DRAW = np.random.default_rng(0)
OPSET_17 = '<ir_version: 8, opset_import: ["" : 17]>'


def model(text: str, **weights: np.ndarray) -> ModelProto:
    """A model from its text, with initializers; ``__`` in their names is a dot in the file."""
    found = parser.parse_model(text)
    renamed = {name: name.replace("__", ".") for name in weights}
    for node in found.graph.node:
        for slot, name in enumerate(node.input):
            node.input[slot] = renamed.get(name, name)
    found.graph.initializer.extend(
        numpy_helper.from_array(array, renamed[name]) for name, array in weights.items()
    )
    return found


def run(proto: ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs, strict=True)))


def require_equal(proto: ModelProto, *inputs: np.ndarray, tolerance: float = 1e-5) -> Graph:
    """Require that what is read computes what the file computes, as it is and after the default passes."""
    names = [i.name for i in proto.graph.input if i.name not in {t.name for t in proto.graph.initializer}]
    graph = regraft.load(proto, dict(zip(names, inputs, strict=True)))
    for read in (graph, regraft.rewrite(graph, verify_each=True).graph):
        for found, expected in zip(run(to_model(read), *inputs), run(proto, *inputs), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return graph


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return DRAW.standard_normal(shape).astype(dtype)


# -- the suite of ONNX itself ------------------------------------------------------------------------------


def _sample() -> dict[str, object]:
    """The first case of every operator and number of inputs in ONNX's own tests."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    found: dict[tuple[str, ...], object] = {}
    for case in cases:
        nodes = case.model.graph.node
        plain = all(
            i.type.HasField("tensor_type") for i in (*case.model.graph.input, *case.model.graph.output)
        )
        if plain and len(nodes) == 1 and nodes[0].domain in ("", "ai.onnx"):
            found.setdefault((nodes[0].op_type, str(len(nodes[0].input))), case)
    return {case.name: case for case in found.values()}  # type: ignore[attr-defined]


def test_a_sample_of_onnx_own_tests() -> None:
    """Every case that ONNX Runtime passes is right, or is among those that are known not to be."""
    judged, wrong = 0, []
    for name, case in _sample().items():
        proto = case.model  # type: ignore[attr-defined]
        for inputs, outputs in case.data_sets:  # type: ignore[attr-defined]
            close = {"rtol": case.rtol, "atol": case.atol}  # type: ignore[attr-defined]
            try:
                _require_outputs(run(proto, *inputs), outputs, close)
            except Exception:  # what ONNX Runtime lacks, or computes otherwise, judges nothing here
                continue
            judged += 1
            try:
                graph = regraft.load(
                    proto, dict(zip([i.name for i in proto.graph.input], inputs, strict=True))
                )
                given = [graph.origin.inputs[n.name] for n in graph.input_nodes()]
                _require_outputs(run(to_model(graph), *given), outputs, close)
            except Exception as error:  # all of them are listed
                wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    assert judged > 180
    known = ("test_bitcast_", "test_scan_sum")
    assert [line for line in wrong if not line.startswith(known)] == []


def _require_outputs(found: list[np.ndarray], expected: list[np.ndarray], close: dict[str, float]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        b = np.asarray(b)
        assert a.shape == b.shape
        if b.dtype.kind in "fc":
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, **close)
        else:
            assert (np.asarray(a).astype(str) == b.astype(str)).all()


# -- opsets ------------------------------------------------------------------------------------------------

OLD = {
    "softmax": (12, "float[2, 3, 4] x", "float[2, 3, 4] y", "y = Softmax <axis = 1> (x)", (2, 3, 4)),
    "open softmax": (12, "float[n, 3, 4] x", "float[n, 3, 4] y", "y = LogSoftmax (x)", (2, 3, 4)),
    "hardmax": (11, "float[2, 3, 4] x", "float[2, 3, 4] y", "y = Hardmax <axis = 0> (x)", (2, 3, 4)),
    "clip": (6, "float[2, 3] x", "float[2, 3] y", "y = Clip <min = -0.5, max = 0.5> (x)", (2, 3)),
    "one bound": (10, "float[2, 3] x", "float[2, 3] y", "y = Clip <max = 0.5> (x)", (2, 3)),
    "pad": (10, "float[2, 3] x", "float[2, 6] y", "y = Pad <pads = [0, 1, 0, 2], value = 3.0> (x)", (2, 3)),
    "mirror": (
        2,
        "float[2, 3] x",
        "float[2, 5] y",
        'y = Pad <pads = [0, 1, 0, 1], mode = "reflect"> (x)',
        (2, 3),
    ),
    "slice": (
        9,
        "float[4, 5] x",
        "float[2, 5] y",
        "y = Slice <axes = [0], starts = [1], ends = [-1]> (x)",
        (4, 5),
    ),
    "squeeze": (11, "float[2, 1, 3] x", "float[2, 3] y", "y = Squeeze <axes = [1]> (x)", (2, 1, 3)),
    "reduce": (11, "float[2, 3] x", "float[2] y", "y = ReduceSum <axes = [1], keepdims = 0> (x)", (2, 3)),
    "mean": (17, "float[2, 3] x", "float[1, 3] y", "y = ReduceMean <axes = [0]> (x)", (2, 3)),
    "split": (11, "float[2, 6] x", "float[2, 3] y", "y, z = Split <axis = 1> (x)", (2, 6)),
    "sizes": (12, "float[2, 6] x", "float[2, 2] y", "y, z = Split <axis = 1, split = [2, 4]> (x)", (2, 6)),
    "dropout": (10, "float[2, 3] x", "float[2, 3] y", "y = Dropout <ratio = 0.3> (x)", (2, 3)),
    "upsample": (
        7,
        "float[1, 1, 2, 3] x",
        "float[1, 1, 4, 6] y",
        'y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (x)',
        (1, 1, 2, 3),
    ),
    "linear": (
        7,
        "float[1, 1, 2, 3] x",
        "float[1, 1, 4, 6] y",
        'y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x)',
        (1, 1, 2, 3),
    ),
    "top k": (9, "float[2, 5] x", "float[2, 3] y, int64[2, 3] z", "y, z = TopK <k = 3> (x)", (2, 5)),
    "groups": (
        18,
        "float[2, 4, 3] x",
        "float[2, 4, 3] y",
        "s = Constant <value_floats = [1.0, 2.0]> ()\n b = Constant <value_floats = [0.5, 3.0]> ()\n"
        "y = GroupNormalization <num_groups = 2> (x, s, b)",
        (2, 4, 3),
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_operators_of_old_opsets_mean_what_they_meant(name: str) -> None:
    opset, inputs, outputs, body, shape = OLD[name]
    text = f'<ir_version: 8, opset_import: ["" : {opset}]>\nold ({inputs}) => ({outputs}) {{ {body} }}'
    require_equal(model(text), normal(*shape))


# -- functions, nested graphs, sequences -------------------------------------------------------------------


def test_functions_of_the_model_become_modules() -> None:
    proto = model(
        """
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        net (float[N, 4] x) => (float[N, 4] y) {
          a = own.Block <scale = 0.5> (x, w)
          y = own.Block <scale = 2.0> (a, v)
        }
        <opset_import: ["" : 18], domain: "own">
        Block <scale> (x, w) => (y) {
          k = MatMul (x, w)
          by = Constant <value_float: float = @scale> ()
          s = Mul (k, by)
          y = Tanh (s)
        }
        """,
        w=normal(4, 4),
        v=normal(4, 4),
    )
    graph = require_equal(proto, normal(3, 4))
    assert graph.input_nodes()[0].type.shape == ("N", 4)
    assert [m.class_name for m in graph.modules][1:] == ["Block", "Block"]


def test_loops_and_branches() -> None:
    proto = model(
        """
        <ir_version: 8, opset_import: ["" : 16]>
        turns (float[2, 3] x, bool flag) => (float[2, 3] y, float[n, 2, 3] all) {
          trips = Constant <value_int: int = 3> ()
          yes = Constant <value = bool {1}> ()
          last, all = Loop (trips, yes, x) <body = body (int64 i, bool going, float[2, 3] state)
              => (bool more, float[2, 3] next, float[2, 3] out) {
            more = Identity (going)
            next = Add (state, weight)
            out = Mul (next, next)
          }>
          y = If (flag) <then_branch = yes () => (float[2, 3] p) { p = Neg (last) },
                         else_branch = no () => (float[2, 3] q) { q = Exp (last) }>
        }
        """,
        weight=normal(2, 3),
    )
    for flag in (True, False):
        graph = require_equal(proto, normal(2, 3), np.asarray(flag))
    assert [p.name for p in graph.parameters()] == ["weight"]


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1)])
def test_a_scan_is_a_loop(directions: tuple[int, int]) -> None:
    proto = model(
        f"""
        <ir_version: 8, opset_import: ["" : 16]>
        scan (float[2] start, float[2, 5] x) => (float[2] last, float[2, 5] all) {{
          last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
              scan_input_directions = [{directions[0]}], scan_output_directions = [{directions[1]}],
              body = body (float[2] state, float[2] one) => (float[2] next, float[2] out) {{
            next = Add (state, one)
            out = Mul (next, one)
          }}> (start, x)
        }}
        """
    )
    require_equal(proto, normal(2), normal(2, 5))


def test_a_decided_branch_leaves_no_if() -> None:
    proto = model(
        """
        <ir_version: 8, opset_import: ["" : 16]>
        net (float[2, 3] x) => (float[2, 3] y) {
          s = Size (x)
          six = Constant <value_int: int = 6> ()
          flag = Equal (s, six)
          y = If (flag) <then_branch = yes () => (float[2, 3] p) { p = Neg (x) },
                         else_branch = no () => (float[2, 3] q) { q = Exp (x) }>
        }
        """
    )
    graph = require_equal(proto, normal(2, 3))
    assert [o.op_type for o in graph.operators()] == ["Neg"]


def test_sequences_of_known_lengths_leave_no_trace() -> None:
    proto = model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[2, 3] x) => (float[2, 1] y, float[2, 4] z, int64 n) {
          parts = SplitToSequence <axis = 1> (x)
          one = Constant <value_int: int = 1> ()
          y = SequenceAt (parts, one)
          more = SequenceInsert (parts, y)
          n = SequenceLength (more)
          z = ConcatFromSequence <axis = 1> (more)
        }
        """
    )
    graph = require_equal(proto, normal(2, 3))
    assert {o.op_type for o in graph.operators()} == {"Split", "Concat"}


# -- operators of ONNX Runtime -----------------------------------------------------------------------------

FUSED = {
    "FusedMatMul": ("y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w)", {"w": (3, 8)}),
    "BiasGelu": ("y = com.microsoft.BiasGelu (x, b)", {"b": (8,)}),
    "FastGelu": ("y = com.microsoft.FastGelu (x, b)", {"b": (8,)}),
    "QuickGelu": ("y = com.microsoft.QuickGelu <alpha = 1.5> (x)", {}),
    "SkipLayerNormalization": (
        "y = com.microsoft.SkipLayerNormalization <epsilon = 1.0e-5> (x, x, g, b, c)",
        {"g": (8,), "b": (8,), "c": (8,)},
    ),
    "SkipSimplifiedLayerNormalization": (
        "y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1.0e-5> (x, x, g)",
        {"g": (8,)},
    ),
    "Attention": ("y = com.microsoft.Attention <num_heads = 2> (x, w, b)", {"w": (8, 24), "b": (24,)}),
    "MultiHeadAttention": ("y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x, b)", {"b": (24,)}),
}


def test_a_tensor_is_an_optional_value_that_is_there() -> None:
    text = (
        "agraph (float[2] x) => (float[2] y, bool there, bool absent)"
        "{ y = OptionalGetElement(x) there = OptionalHasElement(x) absent = OptionalHasElement() }"
    )
    x = normal(2)
    graph = regraft.load(model('<ir_version: 8, opset_import: ["" : 18]>' + text), {"x": x})
    y, there, absent = run(to_model(graph), x)
    np.testing.assert_array_equal(y, x)
    assert (bool(there), bool(absent)) == (True, False)


@pytest.mark.parametrize("name", FUSED)
def test_fused_operators_are_what_onnx_runtime_computes(name: str) -> None:
    body, shapes = FUSED[name]
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\nnet (float[N, 5, 8] x) => (float y)'
    )
    proto = model(f"{text} {{ {body} }}", **{n: normal(*s) for n, s in shapes.items()})
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    require_equal(proto, normal(2, 5, 8))


# -- modules -----------------------------------------------------------------------------------------------

SCOPED = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 4] x) => (float[N, 4] y) {
  a = Gemm <transB = 1> (x, block__fc__weight, block__fc__bias)
  b = Relu (a)
  c = Gemm <transB = 1> (b, block__fc__weight, block__fc__bias)
  y = Gemm <transB = 1> (c, head__weight, head__bias)
}
"""


def _layers() -> dict[str, np.ndarray]:
    shapes = {"weight": (4, 4), "bias": (4,)}
    return {f"{n}__{r}": normal(*s) for n in ("block__fc", "head") for r, s in shapes.items()}


def _scoped(*scopes: tuple[str, ...]) -> ModelProto:
    weights = {
        f"{n}__{r}": normal(*s)
        for n in ("block__fc", "head")
        for r, s in (("weight", (4, 4)), ("bias", (4,)))
    }
    proto = model(SCOPED, **weights)
    kinds = {
        "": "net.Net",
        "block": "net.Block",
        "block.fc": "torch.nn.modules.linear.Linear",
        "head": "x.Linear",
    }
    for node, paths in zip(proto.graph.node, scopes, strict=True):
        for key, values in (
            ("name_scopes", [*paths, "op"]),
            ("class_hierarchy", [kinds[p] for p in paths] + ["op"]),
        ):
            node.metadata_props.append(StringStringEntryProto(key=f"pkg.torch.onnx.{key}", value=str(values)))
    return proto


def test_scopes_of_exporters_are_modules_and_a_module_used_twice_is_called_twice() -> None:
    inner = ("", "block", "block.fc")
    graph = require_equal(_scoped(inner, ("", "block"), inner, ("", "head")), normal(3, 4))
    tree = graph.modules
    assert [(tree.path(m.key), m.class_name) for m in tree] == [
        ("", "Net"),
        ("block", "Block"),
        ("block.fc", "Linear"),
        ("head", "Linear"),
    ]
    assert sorted(tree.call_name(c.key) for c in tree.calls()) == [
        "#1",
        "block#1",
        "block.fc#1",
        "block.fc#2",
        "head#1",
    ]
    assert {p for paths in graph.parameter_paths().values() for p in paths} == {
        "block.fc.weight",
        "block.fc.bias",
        "head.weight",
        "head.bias",
    }
    assert graph.origin.has_modules


def test_what_lies_between_two_nodes_of_a_scope_makes_two_calls() -> None:
    inner = ("", "block", "block.fc")
    graph = regraft.load(_scoped(inner, ("",), inner, ("", "head")), ["3x4"])
    names = sorted(graph.modules.call_names().values())
    assert names == ["#1", "block#1", "block#2", "block.fc#1", "block.fc#2", "head#1"]


def test_a_file_without_scopes_has_its_layers_as_modules() -> None:
    weights = {
        f"{n}__{r}": normal(*s)
        for n in ("block__fc", "head")
        for r, s in (("weight", (4, 4)), ("bias", (4,)))
    }
    graph = regraft.load(model(SCOPED, **weights))
    assert not graph.origin.has_modules
    assert [m.class_name for m in graph.modules][1:] == ["Gemm", "Gemm"]
    assert len(graph.parameters()) == 4


# -- sizes -------------------------------------------------------------------------------------------------

RESHAPED = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[batch, seq, 6] x, float[batch, seq, 6] z) => (float y) {
  a = Add (x, z)
  s = Shape (a)
  zero = Constant <value_ints: ints = [0]> ()
  one = Constant <value_ints: ints = [1]> ()
  n = Gather (s, zero)
  t = Gather (s, one)
  heads = Constant <value_ints: ints = [2, 3]> ()
  wanted = Concat <axis = 0> (n, t, heads)
  b = Reshape (a, wanted)
  y = Transpose <perm = [0, 2, 1, 3]> (b)
}
"""


def test_sizes_that_the_file_names_stay_names() -> None:
    proto = model(RESHAPED)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    graph = require_equal(proto, normal(2, 5, 6), normal(2, 5, 6))
    assert [n.type.shape for n in graph.input_nodes()] == [("batch", "seq", 6)] * 2
    assert graph.known_type(graph.outputs[0][1]).shape == ("batch", 2, "seq", 3)


def test_shape_arithmetic_that_gives_numbers_leaves_no_trace() -> None:
    """The batch stays open: its size is computed, those beside it are numbers."""
    proto = model(
        f"""{OPSET_17} net (float[n, 4, 6] x) => (float[n, 2, 12] y) {{
          s = Shape (x)
          one = Constant <value_ints: ints = [1]> ()
          two = Constant <value_ints: ints = [2]> ()
          rows = Gather (s, one)
          width = Gather (s, two)
          half = Div (rows, two)
          wide = Mul (width, two)
          zero = Constant <value_ints: ints = [0]> ()
          batch = Gather (s, zero)
          wanted = Concat <axis = 0> (batch, half, wide)
          y = Reshape (x, wanted)
        }}"""
    )
    graph = require_equal(proto, normal(3, 4, 6))
    assert sorted(o.op_type for o in graph.operators()) == ["Concat", "Gather", "Reshape", "Shape"]


def test_sizes_that_go_through_fractions_are_computed() -> None:
    """5 / 2 * 2 is 5 in floats, and 4 in whole numbers."""
    proto = model(
        f"""{OPSET_17} net (float[n, 5] x) => (float[n, m] y) {{
          s = Shape <start = 1> (x)
          two = Constant <value_ints: ints = [2]> ()
          f = Cast <to = 1> (s)
          g = Cast <to = 1> (two)
          half = Div (f, g)
          whole = Mul (half, g)
          w = Cast <to = 7> (whole)
          zero = Constant <value_ints: ints = [0]> ()
          one = Constant <value_ints: ints = [1]> ()
          y = Slice (x, zero, w, one)
        }}"""
    )
    require_equal(proto, normal(3, 5))


def test_a_size_that_the_model_insists_on_is_said_to_be_fixed() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]>\nnet (float[n, 6] x) => (float[2, 6] y) { y = Add (x, w) }'
    )
    graph = regraft.load(model(text, w=normal(2, 6)), ["2x6"])
    assert graph.input_nodes()[0].type.shape == (2, 6)
    assert any(note.startswith("the sizes are fixed") for note in graph.origin.notes)


def test_inputs_that_do_not_fit_are_refused() -> None:
    proto = model(RESHAPED)
    for inputs, message in (
        ({"x": "2x5x7", "z": "2x5x6"}, r"E103 expected f32\[batch,seq,6\] as `x`, got \[2, 5, 7\]"),
        ({"x": "2x5x6", "z": "3x5x6"}, "E103 expected one size for `batch`, got 2 and 3"),
        ({"xx": "2x5x6"}, "did you mean `x`"),
    ):
        with pytest.raises(ModelError, match=message):
            regraft.load(proto, inputs)


# -- files -------------------------------------------------------------------------------------------------


def test_external_data_are_read_where_they_belong(tmp_path: Path) -> None:
    text = f"{OPSET_17}\nnet (float[N, 40] x) => (float[N, 40] y) {{ y = MatMul (x, w) }}"
    proto, x = model(text, w=normal(40, 40)), normal(2, 40)
    expected = run(proto, x)[0]
    path = tmp_path / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data", size_threshold=0)
    graph = regraft.load(path)
    np.testing.assert_allclose(run(to_model(graph), x)[0], expected, rtol=1e-5)
    assert regraft.verify(graph, regraft.rewrite(graph).graph).passed
    (tmp_path / "inner").mkdir()
    stranger = onnx.load(path, load_external_data=False)
    for entry in stranger.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../net.data"
    (tmp_path / "inner" / "net.onnx").write_bytes(stranger.SerializeToString())
    with pytest.raises(ModelError, match="E101 cannot read the elements of `w`"):
        to_model(regraft.load(tmp_path / "inner" / "net.onnx"))


def test_everything_without_a_lowering_is_listed_at_once() -> None:
    proto = model(
        """
        <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "mine" : 1]>
        net (float[2, 3] x) => (float[2, 3] y) {
          a = ai.onnx.ml.Imputer (x)
          b = mine.Magic (a)
          y = mine.Magic (b)
        }
        """
    )
    with pytest.raises(UnsupportedError) as refusal:
        regraft.load(proto)
    assert "no lowering for 2 ONNX operators" in str(refusal.value)
    assert "mine.Magic: 2 uses" in str(refusal.value)
    assert "ai.onnx.ml.Imputer: 1 use" in str(refusal.value)


@pytest.mark.parametrize(
    ("domain", "operator", "advice"),
    [
        ("ai.onnx.ml", "TreeEnsembleClassifier", "trees"),
        ("ai.onnx.ml", "ZipMap", "'zipmap': False"),
        ("ai.onnx.preview.training", "Gradient", "as it infers"),
        ("com.microsoft", "QMoE", "export the experts"),
        ("com.microsoft", "Sampling", "a loop around it"),
        ("own.operators", "Sampling", "operators of ai.onnx"),
    ],
)
def test_what_is_refused_by_its_domain_comes_with_what_to_do(domain: str, operator: str, advice: str) -> None:
    proto = model(f"{OPSET_17} net (float[2, 3] x) => (float[2, 3] y) {{ y = Relu (x) }}")
    proto.graph.node[0].domain, proto.graph.node[0].op_type = domain, operator
    with pytest.raises(UnsupportedError, match=f"{domain}.{operator}") as error:
        regraft.load(proto)
    assert advice in error.value.hint


def test_the_bias_of_one_feature_is_a_weight() -> None:
    """A number is a setting elsewhere."""
    proto = model(
        f"""{OPSET_17} net (float[2, 3] x) => (float[2, 1] y) <float[3, 1] w, float[1] b, float[1] k>
        {{ h = Mul (x, k) m = MatMul (h, w) y = Add (m, b) }}"""
    )
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)
        for name, shape in {"w": (3, 1), "b": (1,), "k": (1,)}.items()
    )
    assert {p.declared for p in regraft.load(proto).parameters()} == {"w", "b"}


def test_a_name_that_two_nodes_give_is_refused_with_the_second() -> None:
    proto = model(
        f"{OPSET_17} net (float[2, 3] x) => (float[2, 3] y) {{ h = Relu (x) h = Abs (x) y = Neg (h) }}"
    )
    proto.graph.node[1].name = "again"
    with pytest.raises(ModelError, match="expected every name once, got `h` again - at node `again`"):
        regraft.load(proto)


def test_element_types_that_the_ir_lacks_are_refused_by_name() -> None:
    proto = model(
        '<ir_version: 10, opset_import: ["" : 21]>\nnet (float[2] x) => (float[2] y) { y = Neg (x) }'
    )
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT8E4M3FN
    with pytest.raises(UnsupportedError, match="got float8_e4m3fn"):
        regraft.load(proto)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT4E2M1
    with pytest.raises(UnsupportedError, match="got FLOAT4E2M1"):
        regraft.load(proto)


def test_the_file_itself_is_the_source_of_a_comparison(tmp_path: Path) -> None:
    weights = {
        f"{n}__{r}": normal(*s)
        for n in ("block__fc", "head")
        for r, s in (("weight", (4, 4)), ("bias", (4,)))
    }
    path = tmp_path / "net.onnx"
    onnx.save(model(SCOPED, **weights), path)
    graph = regraft.load(path)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    report = regraft.verify(graph, tmp_path / "out")
    assert report.passed
    assert "the file" in report.source
    broken = onnx.load(path)
    changed = numpy_helper.to_array(broken.graph.initializer[2]).copy()
    changed[0, 0] += 1e-3
    broken.graph.initializer[2].CopyFrom(numpy_helper.from_array(changed, broken.graph.initializer[2].name))
    onnx.save(broken, tmp_path / "broken.onnx")
    assert not regraft.verify(regraft.load(tmp_path / "broken.onnx"), tmp_path / "out").passed


def test_layers_that_share_a_tensor_of_an_exporter_by_chance_are_apart() -> None:
    proto = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Identity", ["onnx::Gemm_7"], ["onnx::Gemm_9"]),
                helper.make_node("Gemm", ["x", "a.weight", "onnx::Gemm_7"], ["h"]),
                helper.make_node("Gemm", ["h", "b.weight", "onnx::Gemm_9"], ["y"]),
            ],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
            [
                numpy_helper.from_array(normal(3, 3), "a.weight"),
                numpy_helper.from_array(normal(3, 3), "b.weight"),
                numpy_helper.from_array(np.zeros(3, np.float32), "onnx::Gemm_7"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    graph = require_equal(proto, normal(2, 3))
    assert len(graph.parameters()) == 4
