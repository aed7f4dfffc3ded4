"""The ONNX backend against ONNX Runtime, the ONNX reference evaluator and the ONNX checker."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from regraft.backends.onnx_model import CALLS, NODE_CALL, NODE_CLASS, to_model, write
from regraft.ir import (
    BackendError,
    Builder,
    Graph,
    Parameter,
    TensorData,
    TensorType,
    UnsupportedError,
    UsageError,
    Value,
    validate,
)
from regraft.ir.validation import verify_each

F32 = "float32"


def parameter(graph: Graph, module: int, name: str, array: np.ndarray, full: str = "") -> Value:
    path = graph.modules.path(module)
    full = full or (f"{path}.{name}" if path else name)
    value = graph.add_parameter(Parameter(full, full, TensorData.of(array)))
    graph.modules.module(module).parameters[name] = value.node
    return value


def small_net() -> Graph:
    """conv -> Relu -> mean -> fc, with a symbolic batch, and a parameter nobody uses."""
    random = np.random.default_rng(0)
    graph = Graph()
    tree = graph.modules
    root = tree.add("Net")
    outer = tree.add_call(root)
    conv, fc = tree.add("Conv2d", root, "conv"), tree.add("Linear", root, "fc")
    in_conv, in_fc = tree.add_call(conv, outer), tree.add_call(fc, outer)
    b = Builder(graph, call=outer)
    x = graph.add_input("x", TensorType(F32, ("N", 3, 8, 8)))
    weight = parameter(graph, conv, "weight", random.standard_normal((4, 3, 3, 3)).astype(F32))
    head = parameter(graph, fc, "weight", random.standard_normal((5, 4)).astype(F32))
    bias = parameter(graph, fc, "bias", random.standard_normal(5).astype(F32))
    parameter(graph, root, "unused", np.zeros(3, F32))
    with b.inside(in_conv, "net.py:7"):
        y = b.op("Conv", x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = b.op("Flatten", b.op("GlobalAveragePool", b.op("Relu", y)), axis=1)
    with b.inside(in_fc):
        y = b.op("regraft.Linear", y, head, bias)
    graph.outputs.append(("logits", y))
    graph.origin.framework, graph.origin.reference = "torch", "net.py:Net"
    validate(graph)
    return graph


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    """In ONNX Runtime, after the full check; equal to the reference evaluator."""
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, feeds)
    for ours, theirs in zip(found, ReferenceEvaluator(model).run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("batch", [1, 3])
def test_batch_is_symbolic_on_both_sides(batch: int) -> None:
    model = to_model(small_net())
    x = np.random.default_rng(1).standard_normal((batch, 3, 8, 8)).astype(F32)
    assert run(model, x=x)[0].shape == (batch, 5)
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "N"


def test_initializers_are_the_used_parameters_by_name() -> None:
    model = to_model(small_net())
    assert [t.name for t in model.graph.initializer] == ["conv.weight", "fc.weight", "fc.bias"]


def test_every_known_type_is_stated() -> None:
    model = to_model(small_net())
    stated = {i.name for i in (*model.graph.value_info, *model.graph.output)}
    assert {name for node in model.graph.node for name in node.output} == stated


def test_scopes_and_boundaries_are_in_the_metadata() -> None:
    model = to_model(small_net())
    conv = next(n for n in model.graph.node if n.op_type == "Conv")
    assert {e.key: e.value for e in conv.metadata_props} == {NODE_CALL: "conv#1", NODE_CLASS: "Conv2d"}
    assert conv.doc_string == "net.py:7"
    calls = json.loads(next(e.value for e in model.metadata_props if e.key == CALLS))
    assert calls["conv#1"] == {"class": "Conv2d", "inputs": ["x"], "outputs": ["conv/Conv"]}
    assert calls["fc#1"] == {"class": "Linear", "inputs": ["Flatten"], "outputs": ["logits"]}
    assert calls["#1"]["inputs"] == ["x"]
    assert model.producer_name == "regraft"
    assert "net.py:Net" in model.doc_string


def test_same_graph_same_bytes() -> None:
    assert to_model(small_net()).SerializeToString(deterministic=True) == to_model(
        small_net()
    ).SerializeToString(deterministic=True)


def test_tied_parameter_is_stored_once() -> None:
    graph = Graph()
    root = graph.modules.add("Tied")
    b = Builder(graph, call=graph.modules.add_call(root))
    ids = graph.add_input("ids", TensorType("int64", ("N", 4)))
    table = parameter(graph, root, "embed", np.arange(12, dtype=F32).reshape(6, 2))
    graph.modules.module(root).parameters["head"] = table.node
    graph.outputs.append(("y", b.op("regraft.Linear", b.op("Gather", table, ids, axis=0), table)))
    model = to_model(graph)
    assert [t.name for t in model.graph.initializer] == ["embed"]
    w = np.arange(12, dtype=F32).reshape(6, 2)
    picked = np.array([[0, 5, 2, 1]])
    np.testing.assert_array_equal(run(model, ids=picked)[0], w[picked] @ w.T)


def nested() -> Graph:
    """y = If(sum(x) > 0, x*w, x); z = y + 3*w by a Loop, whose iteration numbers are scanned out."""
    graph = Graph()
    root = graph.modules.add("Nested")
    call = graph.modules.add_call(root)
    b = Builder(graph, call=call)
    kind = TensorType(F32, ("N", 4))
    x = graph.add_input("x", kind)
    w = parameter(graph, root, "w", np.full(4, 2.0, F32))

    def branch(name: str, multiply: bool) -> Graph:
        body = Graph(name, graph.modules)
        inner_x, inner_w = body.add_capture(kind), body.add_capture(TensorType(F32, (4,)))
        product = Builder(body, call=call).op("Mul", inner_x, inner_w) if multiply else inner_x
        body.outputs.append(("r", product))
        return body

    condition = b.op("Greater", b.op("ReduceSum", x, keepdims=0), b.constant(0.0))
    y = b.ops(
        "If",
        condition,
        captures=[x, w],
        types=[kind],
        then_branch=branch("then", True),
        else_branch=branch("else", False),
    )[0]
    body = Graph("body", graph.modules)
    inner = Builder(body, call=call)
    i = body.add_input("i", TensorType("int64", ()))
    go = body.add_input("go", TensorType("bool", ()))
    state = body.add_input("x", kind)  # the name of an outer value
    inner_w = body.add_capture(TensorType(F32, (4,)))
    # of shape [1]: the reference evaluator stacks scanned values with np.vstack, right for rank 1 only
    step = inner.op("Reshape", inner.op("Cast", i, to=1), inner.constant([1]))
    body.outputs = [("go", go), ("state", inner.op("Add", state, inner_w)), ("step", step)]
    z, steps = b.ops(
        "Loop",
        b.constant(3),
        b.constant(np.array(True)),
        y,
        outputs=2,
        captures=[w],
        types=[kind, TensorType(F32, (3, 1))],
        body=body,
    )
    graph.outputs = [("z", z), ("again", z), ("x", x), ("steps", steps)]
    validate(graph)
    return graph


@pytest.mark.parametrize(("sign", "expected"), [(1.0, 8.0), (-1.0, 5.0)])
def test_if_and_loop_with_captures(sign: float, expected: float) -> None:
    x = np.full((3, 4), sign, F32)
    z, again, same, steps = run(to_model(nested()), x=x)
    np.testing.assert_array_equal(z, np.full((3, 4), expected, F32))
    np.testing.assert_array_equal(again, z)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(steps, [[0], [1], [2]])


def test_unused_optional_outputs_are_left_out() -> None:
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType(F32, ("N", 3, 8, 8)))
    pooled, _ = b.ops("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    graph.outputs.append(("y", pooled))
    model = to_model(graph)
    assert list(model.graph.node[0].output) == ["y"]
    run(model, x=np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(F32))


def test_constant_and_parameter_as_outputs() -> None:
    graph = Graph()
    root = graph.modules.add("Constants")
    graph.add_input("x", TensorType(F32, ("N",)))
    w = parameter(graph, root, "w", np.ones(2, F32))
    graph.outputs = [("c", graph.add_constant(np.arange(3))), ("p", w)]
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    c, p = session.run(None, {"x": np.zeros(1, F32)})
    np.testing.assert_array_equal(c, [0, 1, 2])
    np.testing.assert_array_equal(p, [1, 1])


def test_colliding_parameter_names_are_refused_with_advice() -> None:
    graph = small_net()
    for p in graph.parameters():
        p.name = "weight"
    with pytest.raises(BackendError, match=r"E602[\s\S]*`weight` \(3\)[\s\S]*rename-parameters"):
        to_model(graph)


def test_state_updates_are_refused() -> None:
    graph = small_net()
    weight = graph.parameters()[0]
    graph.updates[weight.key] = Value(weight.key)
    with pytest.raises(BackendError, match="state updates"):
        to_model(graph)


def test_all_operators_without_expansion_are_named_at_once() -> None:
    graph = small_net()
    for node in graph.operators():
        if node.op_type in ("Relu", "Flatten"):
            node.domain = "elsewhere"
    with pytest.raises(UnsupportedError, match=r"elsewhere\.Flatten: 1 use[\s\S]*elsewhere\.Relu: 1 use"):
        to_model(graph)


class TestWrite:
    @pytest.mark.parametrize("external", [False, True])
    def test_files_hold_the_model(self, tmp_path: Path, external: bool) -> None:
        files = write(small_net(), tmp_path / "net.onnx", external_data=external)
        names = ["net.onnx", "net.renames.json", *(["net.onnx.data"] if external else [])]
        assert [f.name for f in files] == names
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
        onnx.checker.check_model(str(files[0]), full_check=True)
        x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(F32)
        found = onnxruntime.InferenceSession(str(files[0])).run(None, {"x": x})[0]
        np.testing.assert_array_equal(found, run(to_model(small_net()), x=x)[0])
        rows = json.loads(files[1].read_text())["parameters"]
        assert {r["target"] for r in rows} == {"conv.weight", "fc.weight", "fc.bias", "unused"}

    def test_embedded_file_is_the_model_in_memory(self, tmp_path: Path) -> None:
        file = write(small_net(), tmp_path / "net.onnx")[0]
        read, made = onnx.load(file), to_model(small_net())
        for model in (read, made):
            tensors = sorted(model.graph.initializer, key=lambda t: t.name)
            del model.graph.initializer[:]
            model.graph.initializer.extend(tensors)
        assert read == made

    def test_existing_file_is_kept_unless_forced(self, tmp_path: Path) -> None:
        file = tmp_path / "net.onnx"
        file.write_bytes(b"mine")
        with pytest.raises(UsageError, match="exists already"):
            write(small_net(), file)
        assert file.read_bytes() == b"mine"
        write(small_net(), file, force=True)
        assert onnx.load(file).producer_name == "regraft"

    @pytest.mark.parametrize("external", [False, True])
    def test_nothing_is_left_when_the_checker_refuses(self, tmp_path: Path, external: bool) -> None:
        graph = small_net()
        relu = next(n for n in graph.operators() if n.op_type == "Relu")
        relu.types = [TensorType(F32, ("N", 7, 8, 8))]  # a type that contradicts the operator's rule
        verify_each(on=False)  # as for users, who would else be told before
        try:
            with pytest.raises(BackendError, match="checker"):
                write(graph, tmp_path / "new" / "net.onnx", external_data=external)
        finally:
            verify_each(on=True)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("external", [False, True])
    def test_data_of_another_size_than_stated_is_refused(self, tmp_path: Path, external: bool) -> None:
        graph = small_net()
        weight = graph.parameters()[0]
        weight.data = TensorData(F32, weight.data.shape, lambda: np.zeros(3, F32))
        with pytest.raises(BackendError, match="bytes of data"):
            write(graph, tmp_path / "net.onnx", external_data=external)
        assert list(tmp_path.iterdir()) == []

    def test_nothing_is_left_when_data_cannot_be_read(self, tmp_path: Path) -> None:
        graph = small_net()

        def gone() -> np.ndarray:
            raise OSError("the disk is gone")

        weight = graph.parameters()[0]
        weight.data = TensorData(F32, weight.data.shape, gone)
        with pytest.raises(OSError, match="the disk is gone"):
            write(graph, tmp_path / "net.onnx", external_data=True)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("axes", [[1, 2], [2, 1], [0, 3, 1, 2]])
def test_padding_between_transposes(axes: list[int]) -> None:
    """ONNX Runtime moves a transpose past a Pad as if its axes were not named."""
    graph = Graph()
    b = Builder(graph)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(F32)
    y = b.op("Transpose", graph.add_input("x", TensorType(F32, ("N", 3, 4, 5))), perm=[0, 2, 3, 1])
    pads = list(range(1, 2 * len(axes) + 1))
    y = b.op("Pad", y, b.constant(pads), None, b.constant(axes))
    graph.outputs.append(("y", b.op("Transpose", y, perm=[0, 3, 1, 2])))
    amounts = dict(zip(axes, zip(pads, pads[len(axes) :], strict=False), strict=True))
    want = np.pad(x.transpose(0, 2, 3, 1), [amounts.get(axis, (0, 0)) for axis in range(4)])
    (got,) = onnxruntime.InferenceSession(to_model(graph).SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(got, want.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(("start", "limit", "step"), [(2, -1, -1), (-3, 0, 1), (0, 3, 2), (2, 0, -1)])
def test_places_that_are_counted_down_or_from_the_end(start: int, limit: int, step: int) -> None:
    """ONNX Runtime makes a Slice of a Gather behind a Range, whose limit of -1 is the axis's end."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType(F32, ("N", 4)))
    given = [graph.add_input(name, TensorType("int64", ())) for name in ("start", "limit")]
    graph.outputs.append(("y", b.op("Gather", x, b.op("Range", *given, b.constant(step)))))
    array = np.random.default_rng(0).standard_normal((3, 4)).astype(F32)
    feeds = {"x": array, "start": np.array(start), "limit": np.array(limit)}
    (got,) = onnxruntime.InferenceSession(to_model(graph).SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(got, array[np.arange(start, limit, step)])


@pytest.mark.parametrize("own", [{}, {"ceil_mode": 1}, {"pads": [1, 0, 1, 0]}])
def test_a_maximum_pool_does_not_swallow_a_pad_with_zeros(own):
    """ONNX Runtime's own rewriting makes them the pool's own pads, which are less than any number."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType(F32, ("N", 2, 7, 7)))
    padded = b.op("Pad", x, b.constant([0, 0, 1, 1, 0, 0, 1, 1]), b.constant(0.0))
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 0, 0], **own}
    graph.outputs.append(("y", b.op("MaxPool", padded, **attributes)))
    array = np.random.default_rng(0).standard_normal((2, 2, 7, 7)).astype(F32) - 5
    model = to_model(graph)
    onnx.checker.check_model(model, full_check=True)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": array})[0]
    rows = sliding_maxima(np.pad(array, [(0, 0), (0, 0), (1, 1), (1, 1)]), attributes["pads"])
    np.testing.assert_array_equal(found, rows)


def sliding_maxima(x: np.ndarray, pads: list[int]) -> np.ndarray:
    """A 3x3 maximum pool with strides of 2."""
    top, left, bottom, right = pads
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)], constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2].max((-2, -1))
