"""MindSpore Cells read, exported to ONNX and run in ONNX Runtime, against the Cell's own PyNative output."""

from functools import partial
from pathlib import Path

import mindspore as ms
import numpy as np
import onnxruntime
import pytest
from mindspore.common.initializer import HeNormal, initializer

from regraft import load_tree
from regraft.backends.onnx_model import to_model
from regraft.frontends.mindspore_cell import read, read_tree
from regraft.frontends.options import LoadOptions
from regraft.frontends.python_file import load_object
from regraft.ir import Graph, ModelError, UnsupportedError, validate

CORPUS = Path(__file__).parent.parent / "corpora" / "mindspore"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
STATIC = LoadOptions(dynamic_batch=False)


def cell(name: str, **arguments: object):
    file, _, attribute = name.partition(":")
    folder = EXAMPLES if file in ("duplicate_names.py", "mindspore_lenet.py") else CORPUS
    ms.set_seed(1)
    net = load_object(f"{folder / file}:{attribute}", arguments)
    spread(net)
    return net


def spread(net) -> None:
    """Statistics and scales that are not 0 and 1, so that a mix-up shows."""
    random = np.random.default_rng(0)
    for path, parameter in net.parameters_and_names():
        if path.endswith(("moving_mean", "beta", "bias")):
            parameter.set_data(ms.Tensor(random.normal(0, 0.3, parameter.shape).astype(np.float32)))
        elif path.endswith(("moving_variance", "gamma")):
            parameter.set_data(ms.Tensor(random.uniform(0.5, 1.5, parameter.shape).astype(np.float32)))


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def flat(found: object) -> list:
    return [v for f in found for v in flat(f)] if isinstance(found, (tuple, list)) else [found]


def pynative(net, *arrays: np.ndarray) -> list[np.ndarray]:
    net.set_train(False)
    return [v.asnumpy() for v in flat(net(*[ms.Tensor(a) for a in arrays]))]


def onnx_outputs(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    unique = graph.copy()
    for number, parameter in enumerate(unique.parameters()):
        parameter.name = f"p{number}"  # what the pass rename-parameters would see to
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(to_model(unique).SerializeToString(), options)
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays, strict=True)))


def equal(graph: Graph, net, *arrays: np.ndarray) -> None:
    expected, got = pynative(net, *arrays), onnx_outputs(graph, *arrays)
    assert [e.shape for e in expected] == [g.shape for g in got]
    for e, g in zip(expected, got, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


def check(net, *arrays: np.ndarray, options: LoadOptions | None = None) -> Graph:
    """Read, validate, and compare at the example's batch and at another."""
    graph = read(net, [("", a) for a in arrays], options or LoadOptions())
    validate(graph)
    equal(graph, net, *arrays)
    if options is None:
        assert not [n for n in graph.origin.notes if "static" in n], graph.origin.notes
        equal(graph, net, *(np.concatenate([a, a[:1], a]) for a in arrays))
    return graph


IDS = np.array([[1, 2, 10], [0, 4, 1]], np.int32)
NETS = [
    ("sharing.py:CalledTwice", [floats(2, 4)]),
    ("sharing.py:RegisteredTwice", [floats(2, 4)]),
    ("sharing.py:TiedEmbedding", [IDS]),
    ("sharing.py:Siamese", [floats(2, 5), floats(2, 5, seed=1)]),
    ("sharing.py:Lists", [floats(2, 3)]),
    ("sharing.py:Outputs", [floats(2, 4)]),
    ("sharing.py:Outputs", [floats(2, 4), floats(2, 4, seed=1)]),
    ("conflicts.py:inserted_into_sequential", [floats(2, 4)]),
    ("conflicts.py:InsertedIntoCell", [floats(2, 4)]),
    ("conflicts.py:PlainList", [floats(2, 4)]),
    ("conflicts.py:KeptList", [floats(2, 4)]),
    ("conflicts.py:NoPrefix", [floats(2, 4)]),
    ("conflicts.py:SameParameterName", [floats(2, 4)]),
    ("vision.py:Inverted", [floats(2, 4, 7, 6)]),
    ("vision.py:Growing", [floats(2, 4, 6, 6)]),
    ("attention.py:EncoderLayer", [floats(2, 3, 8)]),
    ("attention.py:EncoderLayer", [floats(3, 3, 8)]),  # the batch equals the length
    ("attention.py:Vision", [floats(2, 3, 8, 8)]),
    ("mindspore_lenet.py:LeNet", [floats(2, 1, 28, 28)]),
    ("duplicate_names.py:DuplicateNames", [floats(2, 3, 16, 16)]),
    ("duplicate_names.py:NeverRun", [floats(2, 3, 16, 16)]),
]


@pytest.mark.parametrize(("name", "arrays"), NETS, ids=[n for n, _ in NETS])
def test_equals_pynative(name: str, arrays: list[np.ndarray]) -> None:
    check(cell(name), *arrays)


LAYERS = [
    ("Norm", "BatchNorm2d", [4], {"eps": 1e-3}),
    ("Norm", "GroupNorm", [2, 4], {}),
    ("Norm", "LayerNorm", [[5, 6]], {"begin_norm_axis": 2, "begin_params_axis": 2}),
    ("Pool", "MaxPool2d", [], {"kernel_size": 3, "stride": 2, "pad_mode": "same"}),
    ("Pool", "MaxPool2d", [], {"kernel_size": 3, "stride": 2, "pad_mode": "pad", "padding": 1}),
    (
        "Pool",
        "MaxPool2d",
        [],
        {"kernel_size": 2, "stride": 2, "pad_mode": "pad", "padding": 0, "ceil_mode": True},
    ),
    ("Pool", "AvgPool2d", [], {"kernel_size": 3, "stride": 2, "pad_mode": "same"}),
    ("Pool", "AvgPool2d", [], {"kernel_size": 3, "stride": 2, "pad_mode": "pad", "padding": 1}),
    (
        "Pool",
        "AvgPool2d",
        [],
        {"kernel_size": 3, "pad_mode": "pad", "padding": 1, "count_include_pad": False},
    ),
    ("Pool", "AdaptiveAvgPool2d", [], {"output_size": (2, 3)}),
    ("Pool", "AdaptiveAvgPool2d", [], {"output_size": 1}),
    ("Pool", "AdaptiveMaxPool2d", [], {"output_size": 1}),
    ("Pool", "AdaptiveMaxPool2d", [], {"output_size": (2, None)}),
    ("Pool", "AdaptiveMaxPool2d", [], {"output_size": (3, 4)}),
    ("Activation", "GELU", [], {}),
    ("Activation", "GELU", [], {"approximate": False}),
    ("Activation", "LeakyReLU", [], {}),
    ("Activation", "ReLU6", [], {}),
    ("Activation", "HSwish", [], {}),
    ("Activation", "HSigmoid", [], {}),
    ("Activation", "SiLU", [], {}),
    ("Activation", "Softmax", [], {"axis": 1}),
    ("Activation", "PReLU", [], {"channel": 4}),
]


@pytest.mark.parametrize(("holder", "kind", "given", "named"), LAYERS)
def test_layer_equals_pynative(holder: str, kind: str, given: list, named: dict) -> None:
    net = getattr(load_module("vision.py"), holder)(kind, *given, **named)
    spread(net)
    check(net, floats(2, 4, 5, 6))


def load_module(file: str):
    import sys

    load_object(f"{CORPUS / file}:Inverted")
    return next(m for n, m in sys.modules.items() if n.startswith("regraft_model_vision_"))


@pytest.mark.parametrize("mode", ["same", "valid", "pad"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [2, (3, 4)])
def test_convolution_padding(kernel, stride, dilation, mode) -> None:
    """Odd and even sizes in one image; the oracle is MindSpore, by way of the ONNX reference evaluator.

    ONNX Runtime refuses auto_pad with dilation.
    """
    from onnx.reference import ReferenceEvaluator

    padding = (1, 0, 2, 1) if mode == "pad" else 0
    net = cell(
        "vision.py:Convolution",
        kernel_size=kernel,
        stride=stride,
        dilation=dilation,
        pad_mode=mode,
        padding=padding,
    )
    x = floats(1, 4, 7, 8)
    graph = read(net, [("", x)], STATIC)
    got = ReferenceEvaluator(to_model(graph)).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, pynative(net, x)[0], rtol=1e-4, atol=1e-5)


class Writing(ms.nn.Cell):
    """Writes Parameters, and keeps things, outside of what the compiler reads."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = ms.nn.Dense(3, 3)
        self.weight = ms.Parameter(ms.Tensor(np.zeros(3, np.float32)), name="weight")
        self.steps = ms.Parameter(ms.Tensor(np.zeros(1, np.float32)), name="steps")
        self.count, self.kept, self.nested = 0, [1], {"a": {}}
        self.keep = Keep(self)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        ms.ops.assign(self.weight, self.weight + 1)
        ms.ops.assign_add(self.steps, ms.ops.ones_like(self.steps))
        return self.keep(self.fc(x) + self.weight)


class Keep(ms.nn.Identity):
    """Its hook is Python code in a run, and nothing to the compiler."""

    def __init__(self, owner: ms.nn.Cell) -> None:
        super().__init__()
        self.register_forward_hook(partial(_keep, [owner]))


def _keep(owner: list[ms.nn.Cell], _cell: ms.nn.Cell, _given: object, result: ms.Tensor) -> ms.Tensor:
    (net,) = owner
    net.count += 1
    net.kept.append(result)
    net.nested["a"]["x"] = result
    net.late = result
    return result


class TestModules:
    def test_a_cell_called_twice_is_one_module_with_two_calls(self) -> None:
        graph = check(cell("sharing.py:CalledTwice"), floats(2, 4))
        tree = graph.modules
        module = tree.find("a")
        assert [tree.call_name(c.key) for c in tree.calls(module.key)] == ["a#1", "a#2"]
        linears = [n for n in graph.operators() if n.op_type == "Linear"]
        assert [tree.call_name(n.call) for n in linears] == ["a#1", "a#2"]

    def test_a_cell_registered_twice_is_one_module_with_two_paths(self) -> None:
        graph = check(cell("sharing.py:RegisteredTwice"), floats(2, 4))
        module = graph.modules.find("a")
        assert graph.modules.paths(module.key) == ("a", "b.0")
        parameter = graph.parameter(module.parameters["weight"])
        assert parameter.declared == "b.0.weight"  # MindSpore names it after the last registration

    def test_a_tied_parameter_is_one_node_with_two_paths(self) -> None:
        graph = read_tree(cell("sharing.py:TiedEmbedding"), LoadOptions())
        paths = [sorted(p) for p in graph.parameter_paths().values() if len(p) > 1]
        assert paths == [["embed.embedding_table", "head.weight"]]

    def test_operators_of_functions_are_in_the_call_that_made_them(self) -> None:
        graph = check(cell("sharing.py:Lists"), floats(2, 3))
        calls = [graph.modules.call_name(n.call) for n in graph.operators()]
        expected = ["row.0#1", "row.1#1", "items.0#1", "items.1#1", "items.1#2"]
        assert calls == [c for c in expected for _ in range(2)] + ["act#1"]

    def test_two_branches_of_one_module_keep_their_own_calls(self) -> None:
        graph = check(cell("sharing.py:Siamese"), floats(2, 5), floats(2, 5, seed=1))
        first = next(n for n in graph.operators() if n.op_type == "Linear")
        assert graph.operands(first.key)[0].node == graph.inputs[0]
        assert graph.modules.call_name(first.call) == "tower.0#1"

    def test_inserted_into_a_sequential_cell_is_never_called(self) -> None:
        graph = check(cell("duplicate_names.py:NeverRun"), floats(2, 3, 16, 16))
        tree = graph.modules
        assert tree.find("body.group1.0.conv1") is not None
        for path in ("body.group1", "body.group2.1.conv2"):
            assert tree.calls(tree.find(path).key) == []
        assert len(tree.calls(tree.find("body.0").key)) == 1

    def test_declared_names_collide_as_they_do_in_the_source(self) -> None:
        net = cell("duplicate_names.py:DuplicateNames")
        graph = read_tree(net, LoadOptions())
        declared = [p.declared for p in graph.parameters()]
        assert sorted(declared) == sorted(p.name for p in net.get_parameters())
        assert declared.count("0.conv1.weight") == 2

    def test_where_a_cell_was_inserted(self) -> None:
        graph = read_tree(cell("duplicate_names.py:DuplicateNames"), LoadOptions())
        source = (EXAMPLES / "duplicate_names.py").read_text().splitlines()
        for path, text in (
            ("group2", "insert_child_to_cell"),
            ("stem", "self.stem"),
            ("group1.0.conv1", "self.conv1"),
        ):
            file, _, line = graph.modules.find(path).location.partition(":")
            assert file == "duplicate_names.py"
            assert text in source[int(line) - 1]

    def test_cells_in_a_plain_list_are_in_the_tree_and_noted(self) -> None:
        net = cell("conflicts.py:PlainList")
        graph = check(net, floats(2, 4))
        assert graph.modules.find("blocks").arguments["unregistered"] is True
        assert len(graph.modules.calls(graph.modules.find("blocks.1").key)) == 1
        assert any("`blocks` is a plain list" in n for n in graph.origin.notes)
        kept = read_tree(cell("conflicts.py:KeptList"), LoadOptions())
        assert not kept.origin.notes

    def test_dropout_is_kept(self) -> None:
        graph = check(cell("attention.py:Vision"), floats(2, 3, 8, 8))
        dropout = next(n for n in graph.operators() if n.op_type == "Dropout")
        assert graph.constant_value(graph.operands(dropout.key)[1]) == np.float32(0.1)
        assert graph.modules.call_name(dropout.call) == "drop#1"


class TestState:
    """The caller's net is exactly as it was."""

    @pytest.mark.parametrize("mode", ["PYNATIVE_MODE", "GRAPH_MODE"])
    def test_everything_is_put_back(self, mode: str) -> None:
        net = cell("duplicate_names.py:DuplicateNames")
        net.set_train(True)
        net.head.set_train(False)
        x = floats(2, 3, 16, 16)
        before = self.picture(net)
        ms.set_context(mode=getattr(ms, mode))
        try:
            read(net, [("", x)], LoadOptions())
            assert ms.get_context("mode") == getattr(ms, mode)
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
        assert self.picture(net) == before
        names = [p.name for p in net.get_parameters()]
        assert len(set(names)) < len(names)

    def test_outputs_and_graph_mode_still_work(self) -> None:
        net = cell("attention.py:Vision")
        x = floats(2, 3, 8, 8)
        before = pynative(net, x)[0]
        ms.set_context(mode=ms.GRAPH_MODE)
        try:
            compiled = pynative(net, x)[0]
            read(net, [("", x)], LoadOptions())
            np.testing.assert_array_equal(pynative(net, x)[0], compiled)
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
        np.testing.assert_array_equal(pynative(net, x)[0], before)

    def test_what_a_construct_writes_and_keeps_is_put_back(self) -> None:
        """Assignments are refused, after a run that made them."""
        net = Writing()
        net.weight.requires_grad = False
        before = (
            {p.name: (id(p), p.asnumpy().tolist(), p.requires_grad) for p in net.get_parameters()},
            [net.count, net.kept, {k: dict(v) for k, v in net.nested.items()}, list(vars(net))],
        )
        with pytest.raises((ModelError, UnsupportedError)):
            read(net, [("", floats(2, 3))], LoadOptions())
        after = (
            {p.name: (id(p), p.asnumpy().tolist(), p.requires_grad) for p in net.get_parameters()},
            [net.count, net.kept, {k: dict(v) for k, v in net.nested.items()}, list(vars(net))],
        )
        assert after == before

    def test_put_back_after_a_failure(self, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        net = cell("refused.py:Uncompiled")
        before = self.picture(net)
        with pytest.raises(ModelError):
            read(net, [("", floats(2, 4))], LoadOptions())
        assert self.picture(net) == before
        assert list(tmp_path.iterdir()) == []  # MindSpore's own would leave rank_0/om/analyze_fail.ir

    @staticmethod
    def picture(net) -> list:
        """Names, flags, phases, hooks, caches and attributes of every Cell."""
        cells = [
            (n, {k: repr(v) for k, v in vars(c).items() if k != "_create_time"})
            for n, c in net.cells_and_names()
        ]
        return [[p.name for p in net.get_parameters()], cells]


class TestBatch:
    def test_static_on_request(self) -> None:
        graph = check(cell("sharing.py:CalledTwice"), floats(2, 4), options=STATIC)
        assert graph.input_nodes()[0].type.shape == (2, 4)

    def test_a_batch_that_is_computed_with_stays_static_and_is_noted(self) -> None:
        net, x = cell("refused.py:BatchBound"), floats(2, 4)
        graph = read(net, [("", x)], LoadOptions())
        equal(graph, net, x)
        assert graph.input_nodes()[0].type.shape == (2, 4)
        assert any(n.startswith("the batch is static: ") for n in graph.origin.notes)

    def test_a_batch_of_one_that_is_squeezed_away_stays_static_and_is_noted(self) -> None:
        net = cell("refused.py:Squeezed")
        graph = read(net, [("", floats(1, 1, 1, 3))], LoadOptions())
        equal(graph, net, floats(1, 1, 1, 3))
        assert graph.known_type(graph.outputs[0][1]).shape == (3,)
        assert any(n.startswith("the batch is static: `output` has shape [3]") for n in graph.origin.notes)
        graph = read(net, [("", floats(2, 1, 1, 3))], LoadOptions())
        assert graph.known_type(graph.outputs[0][1]).shape == ("N", 3)

    def test_steps_over_axis_0_are_as_many_as_in_the_example_and_noted(self) -> None:
        net, x = cell("refused.py:Alignment"), floats(4, 2, 5)
        graph = read(net, [("", x)], LoadOptions())
        equal(graph, net, x)
        assert graph.input_nodes()[0].type.shape == (4, 2, 5)
        assert any(n.startswith("the batch is static: `CTCLossV2`") for n in graph.origin.notes)

    def test_an_example_of_one_is_dynamic_too(self) -> None:
        net = cell("attention.py:Vision")
        graph = read(net, [("", floats(1, 3, 8, 8))], LoadOptions())
        equal(graph, net, floats(3, 3, 8, 8))

    def test_the_named_axis_is_dynamic(self) -> None:
        net = cell("sharing.py:CalledTwice")
        graph = read(net, [("", floats(2, 4))], LoadOptions(dynamic={"x": (0,)}))
        assert graph.input_nodes()[0].type.shape == ("N", 4)


class TestErrors:
    def test_every_missing_primitive_in_one_error(self) -> None:
        with pytest.raises(UnsupportedError) as caught:
            read(cell("refused.py:Unsupported"), [("", floats(2, 4))], LoadOptions())
        assert caught.value.code == "E201"
        assert {m.operator for m in caught.value.missing} == {"Igamma", "Igammac"}
        assert "refused.py:" in caught.value.missing[0].places[0]

    def test_a_result_that_only_training_reads(self) -> None:
        net = cell("refused.py:Alignment", every=True)
        with pytest.raises(UnsupportedError, match="expected result 1 of `CTCLossV2` to be unread") as caught:
            read(net, [("", floats(4, 2, 5))], STATIC)
        assert "refused.py:" in caught.value.place

    def test_a_net_that_raises_names_the_line(self) -> None:
        with pytest.raises(ModelError, match=r"E104 .* - at refused.py:\d+") as caught:
            read(cell("refused.py:Raises"), [("", floats(2, 4))], LoadOptions())
        assert "\n" not in str(caught.value)

    def test_a_net_that_does_not_compile(self) -> None:
        with pytest.raises(
            ModelError, match=r"E104 MindSpore could not compile the model: .*Match.*refused.py"
        ):
            read(cell("refused.py:Uncompiled"), [("", floats(2, 4))], LoadOptions())

    def test_inputs_that_do_not_fit(self, capsys) -> None:
        with pytest.raises(ModelError, match="E103"):
            read(cell("sharing.py:CalledTwice"), [("z", floats(2, 4))], LoadOptions())
        with pytest.raises(ModelError, match="E103"):
            read(cell("sharing.py:Siamese"), [("", floats(2, 5))], LoadOptions())
        assert capsys.readouterr().out == ""


def test_initial_distributions() -> None:
    found = {
        p.declared: str(p.initializer)
        for p in read_tree(cell("mindspore_lenet.py:LeNet"), LoadOptions()).parameters()
    }
    assert found["features.0.conv.weight"] == 'he_uniform(a=2.23606797749979, mode="fan_in")'
    assert found["features.0.norm.gamma"] == "ones()"
    assert found["features.0.norm.moving_mean"] == "zeros()"


REDRAWN = """
import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.common.initializer import HeNormal, HeUniform, Initializer, Normal, initializer

class Steps(Initializer):
    def _initialize(self, arr):
        arr[:] = np.arange(arr.size).reshape(arr.shape)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.half = nn.Dense(4, 4, dtype=ms.float16)
        self.plain = nn.Dense(4, 4, weight_init=Normal(0.3))
        self.loaded = nn.Dense(4, 4)
        self.odd = nn.Dense(4, 4, weight_init=Steps())
        self.table = ms.Parameter(initializer(Normal(0.02), (3, 5)), name="table")
        for name, values in (
            ("drawn", np.random.laplace(size=(30, 50))),
            ("u", np.random.normal(0, 0.02, (30, 50))),
        ):
            setattr(self, name, ms.Parameter(ms.Tensor(values.astype(np.float32)), name=name))
        for _, cell in self.cells_and_names():
            if isinstance(cell, nn.Conv2d):
                cell.weight.set_data(initializer(HeNormal(mode="fan_out"), cell.weight.shape))
        self.half.weight.set_data(initializer(HeUniform(), (4, 4), ms.float32))
        values = {"loaded.weight": ms.Parameter(ms.Tensor(np.eye(4, dtype=np.float32)))}
        ms.load_param_into_net(self, values)
"""


def test_every_way_to_draw_a_parameter_is_seen(tmp_path: Path) -> None:
    """What a constructor draws is known, however small; what no Initializer drew is told from its values."""
    file = tmp_path / "redrawn.py"
    file.write_text(REDRAWN)
    found = {p.declared: p.initializer for p in load_tree(f"{file}:Net").parameters()}
    laws = {name: "" if law is None else str(law) for name, law in found.items()}
    assert laws["conv.weight"] == 'he_normal(a=0.0, mode="fan_out")'
    assert laws["half.weight"] == 'he_uniform(a=0.0, mode="fan_in")'
    assert laws["plain.weight"] == "normal(mean=0.0, std=0.3)"
    assert laws["loaded.weight"] == 'he_uniform(a=2.23606797749979, mode="fan_in")'
    assert laws["table"] == "normal(mean=0.0, std=0.02)"
    assert laws["u"] == "normal(mean=0.0, std=0.02)"
    assert laws["odd.weight"] == "unknown()"
    assert laws["drawn"] == ""


def test_what_a_layer_states_is_held_to_its_values() -> None:
    """`set_data` leaves no trace in a net that was made before anybody watched: never another law."""
    ms.set_seed(0)
    net = ms.nn.SequentialCell(ms.nn.Conv2d(8, 16, 3), ms.nn.Conv2d(16, 16, 3), ms.nn.BatchNorm2d(16))

    def laws() -> list[str]:
        found = {p.declared: p.initializer for p in load_tree(net).parameters()}
        return [str(found[f"{at}.weight"]) for at in range(2)]

    assert laws() == ['he_uniform(a=2.23606797749979, mode="fan_in")'] * 2
    for conv in list(net)[:2]:
        conv.weight.set_data(initializer(HeNormal(), conv.weight.shape))
    assert laws() == ['he_normal(a=0.0, mode="fan_in")'] * 2
    values = np.random.default_rng(0).laplace(size=net[1].weight.shape).astype(np.float32)
    net[1].weight.set_data(ms.Tensor(values))
    assert laws()[1] == "unknown()"


def test_an_embedding_is_one_gather_whatever_the_rank_of_its_indices() -> None:
    table = ms.nn.Embedding(9, 4)
    for shape in [(3,), (2, 3), (2, 3, 5)]:
        indices = np.random.default_rng(0).integers(0, 9, shape)
        graph = read(table, [("", indices)], LoadOptions())
        assert [operator.op_type for operator in graph.operators()] == ["Gather"]
        np.testing.assert_array_equal(onnx_outputs(graph, indices)[0], pynative(table, indices)[0])


class DrawsNumbers(ms.nn.Cell):
    def construct(self, x):
        return ms.ops.rrelu(x)


def test_random_numbers_are_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedError, match="UniformReal") as refusal:
        read(DrawsNumbers(), [("", np.ones((2, 3), np.float32))], STATIC)
    assert "draws other random numbers" in str(refusal.value)
    assert "leaky_relu" in str(refusal.value)
