"""Modules, calls, registrations and parameters of torch models, and errors that name them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.init import dirac_ as dirac
from torch.nn.init import orthogonal_, sparse_

import regraft
from regraft.frontends.options import LoadOptions
from regraft.frontends.python_file import load_object
from regraft.frontends.torch_module import read, read_tree
from regraft.frontends.torch_module.modules.construction import laws_of, watch_construction
from regraft.ir import ModelError, UnsupportedError, Value, render, validate

from .comparison import session_of

EXAMPLES = Path(__file__).parents[3] / "examples"
OPTIONS = LoadOptions()


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def lowered(module, *arrays, options=OPTIONS):
    graph = read(module, [("", a) for a in arrays], options)
    validate(graph)
    return graph


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.idle = nn.Linear(4, 4)
        self.nothing = nn.Identity()

    def forward(self, x):
        return self.nothing(self.block(self.block(x)))


class TriesLengths(nn.Module):
    """Calls layers with an argument that some do not take, as containers of speech models do."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 3))])

    def forward(self, x):
        for block in self.blocks:
            try:
                x = block(x, lengths=None)
            except TypeError:
                x = block(x)
        return x


def test_a_call_that_raises_is_no_call(tmp_path):
    model = TriesLengths().eval()
    graph = regraft.load(model, (torch.randn(2, 4),))
    names = [graph.modules.call_name(o.call) for o in graph.operators()]
    assert list(dict.fromkeys(names)) == ["blocks.0#1", "blocks.1.0#1", "blocks.1.1#1"]
    regraft.save(graph, tmp_path / "model.onnx", to="onnx")
    report = regraft.verify(graph, tmp_path / "model.onnx")
    assert report.passed
    assert {row.call for row in report.modules} >= set(names)


def test_a_module_called_twice_is_one_module_with_two_calls():
    graph = lowered(Twice(), floats(2, 4))
    tree = graph.modules
    block = tree.find("block")
    assert len(tree.calls(block.key)) == 2
    assert len(tree.calls(tree.find("block.0").key)) == 2
    names = [tree.call_name(o.call) for o in graph.operators()]
    assert names == ["block.0#1", "block.1#1", "block.0#2", "block.1#2"]
    assert {o.op_type for o in graph.operators()} == {"Linear", "Relu"}
    assert block.container == "sequential"


def test_a_module_never_called_has_no_call_and_one_without_operators_has():
    tree = lowered(Twice(), floats(2, 4)).modules
    assert tree.calls(tree.find("idle").key) == []
    assert len(tree.calls(tree.find("nothing").key)) == 1


def test_the_reused_layer_is_registered_twice_and_counted_once():
    graph = lowered(load_object(f"{EXAMPLES / 'reused_layer.py'}:ReusedLayer"), floats(2, 3, 32, 32))
    tree = graph.modules
    layer0 = tree.find("layer0")
    keys = {key for child in layer0.children.values() for key in tree.module(child).parameters.values()}
    trainable = [graph.parameter(k) for k in keys if graph.parameter(k).trainable]
    assert sum(int(np.prod(p.data.shape)) for p in trainable) == 9536
    assert tree.find("base.conv1").key == tree.find("layer0.0").key
    assert tree.path(tree.find("base.conv1").key) == "layer0.0"
    assert tree.calls(tree.find("base").key) == []
    assert tree.calls(tree.find("base.fc").key) == []
    assert [tree.call_name(o.call) for o in graph.operators()] == ["layer0.0#1", "layer0.1#1", "layer0.2#1"]
    assert len(graph.parameters()) == 122


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


def test_a_tied_embedding_is_one_parameter_with_two_paths():
    graph = lowered(Tied(), np.arange(6).reshape(2, 3))
    (parameter,) = graph.parameters()
    assert parameter.declared == "embed.weight"
    assert graph.parameter_paths()[parameter.key] == ["embed.weight", "head.weight"]
    assert len(graph.users(type(graph.outputs[0][1])(parameter.key))) == 2


def test_views_of_one_memory_have_one_storage():
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = torch.randn(8, 4)
            self.a, self.b = nn.Parameter(whole[:4]), nn.Parameter(whole[4:])
            self.c = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            return x @ self.a @ self.b @ self.c

    a, b, c = read_tree(Views(), OPTIONS).parameters()
    assert a.data.storage == b.data.storage != c.data.storage
    assert not np.array_equal(a.data.numpy(), b.data.numpy())


def test_the_model_is_left_as_it_was():
    model = Twice()
    model.train()
    model.block[1].eval()
    model.block[0].weight.requires_grad_(False)
    before = {name: module.training for name, module in model.named_modules()}
    state = {name: (id(t), t.clone()) for name, t in model.state_dict(keep_vars=True).items()}
    fastpath = torch.backends.mha.get_fastpath_enabled()
    graph = lowered(model, floats(2, 4))
    assert {name: module.training for name, module in model.named_modules()} == before
    assert all(
        id(t) == state[n][0] and torch.equal(t, state[n][1])
        for n, t in model.state_dict(keep_vars=True).items()
    )
    assert torch.backends.mha.get_fastpath_enabled() == fastpath
    assert {p.declared for p in graph.parameters() if not p.trainable} == {"block.0.weight"}


def test_a_model_that_counts_its_calls_is_put_back():
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.last = 0, None

        def forward(self, x):
            self.calls += 1
            self.last = x + 1
            return self.last * 2

    model = Counts()
    lowered(model, floats(2, 4))
    assert model.calls == 0
    assert model.last is None


def test_batch_norm_buffers_and_initializers():
    graph = lowered(nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)), floats(2, 4, 5, 5))
    found = {p.declared: p for p in graph.parameters()}
    assert str(found["0.weight"].initializer) == 'he_uniform(a=2.23606797749979, mode="fan_in")'
    bound = 1 / np.sqrt(2 * 9)
    assert dict(found["0.bias"].initializer.arguments) == pytest.approx({"low": -bound, "high": bound})
    roles = {n: (p.role, p.is_buffer, p.trainable) for n, p in found.items() if n.startswith("1.")}
    assert roles == {
        "1.weight": ("weight", False, True),
        "1.bias": ("bias", False, True),
        "1.running_mean": ("running_mean", True, False),
        "1.running_var": ("running_var", True, False),
        "1.num_batches_tracked": ("num_batches_tracked", True, False),
    }
    (norm,) = [o for o in graph.operators() if o.op_type == "BatchNormalization"]
    assert norm.float("momentum") == pytest.approx(0.9)
    assert "training_mode" not in norm.attributes


def test_initial_distributions_are_those_that_torch_draws_from():
    """Each bounded law's bounds hold, and are nearly reached, by torch's own values."""
    torch.manual_seed(0)
    for module in (
        nn.Conv2d(8, 16, 3),
        nn.ConvTranspose2d(8, 16, 3),
        nn.Linear(50, 60),
        nn.MultiheadAttention(32, 4),
    ):
        for parameter in read_tree(module, OPTIONS).parameters():
            law, values = parameter.initializer, parameter.data.numpy()
            fan_out, fan_in = values.shape[0], int(np.prod(values.shape[1:]))
            if law.law == "zeros":
                assert not values.any()
                continue
            if law.law == "uniform":
                bound = law.argument("high", 0)
            elif law.law == "he_uniform":
                bound = np.sqrt(6 / ((1 + law.argument("a", 0) ** 2) * fan_in))
            else:
                assert law.law == "xavier_uniform"
                bound = np.sqrt(6 / (fan_in + fan_out))
            assert 0.8 * bound < np.abs(values).max() <= bound * (1 + 1e-6), parameter.declared


def test_initializers_of_unknown_classes_are_unknown():
    class Own(nn.Linear):
        def reset_parameters(self):
            nn.init.normal_(self.weight, 0.3)

    class Filled(nn.Linear):
        def reset_parameters(self):
            nn.init.constant_(self.weight, 3.0)

    class Plain(nn.Linear):
        pass

    assert read_tree(Own(2, 2), OPTIONS).parameters()[0].initializer is None
    assert str(read_tree(Filled(2, 2), OPTIONS).parameters()[0].initializer) == "constant(value=3.0)"
    assert read_tree(Plain(2, 2), OPTIONS).parameters()[0].initializer is not None


def test_the_row_of_padding_is_no_part_of_a_tables_law():
    padded = read_tree(nn.Embedding(5, 3, padding_idx=0), OPTIONS)
    assert str(padded.parameters()[0].initializer) == "normal(mean=0.0, std=1.0)"


class Imported(nn.Module):
    """Draws by functions whose names were imported before anybody watched."""

    def __init__(self):
        super().__init__()
        self.turned, self.sparse, self.conv = nn.Linear(4, 4), nn.Linear(4, 4), nn.Conv2d(4, 4, 3)
        self.changed = nn.Linear(4, 4)
        orthogonal_(self.turned.weight, gain=2.0)
        sparse_(self.sparse.weight, 0.25, std=0.02)
        dirac(self.conv.weight, groups=2)
        orthogonal_(self.changed.weight)
        self.changed.weight.data.add_(self.turned.weight.data)


def test_laws_of_functions_called_by_imported_names():
    with watch_construction() as keep:
        net = Imported()
        keep(net)
    laws = {name: str(laws_of(net)[id(p)]) for name, p in net.named_parameters() if "weight" in name}
    assert laws == {
        "turned.weight": "orthogonal(gain=2.0)",
        "sparse.weight": "sparse(sparsity=0.25, std=0.02)",
        "conv.weight": "dirac(groups=2)",
        "changed.weight": "unknown()",
    }


def test_the_static_tree_runs_no_code_and_has_the_same_modules():
    class Raises(Twice):
        def forward(self, x):
            raise RuntimeError("must not run")

    graph = read_tree(Raises(), OPTIONS)
    validate(graph)
    assert not graph.operators()
    assert not graph.modules.calls()
    assert [p.declared for p in graph.parameters()] == [
        "block.0.weight",
        "block.0.bias",
        "idle.weight",
        "idle.bias",
    ]


def test_all_missing_operators_in_one_error():
    class Missing(nn.Module):
        def forward(self, x):
            y = torch.linalg.ldl_factor_ex(x @ x.mT)[0]
            return torch.linalg.eigvals(x).abs().sum() + torch.special.airy_ai(y).sum()

    with pytest.raises(UnsupportedError) as found:
        lowered(Missing(), floats(2, 4, 4))
    assert found.value.code == "E201"
    names = {m.operator for m in found.value.missing}
    assert len(names) >= 3
    assert "aten.special_airy_ai.default" in names
    assert all("test_torch_structure.py:" in m.places[0] for m in found.value.missing)


def test_an_unread_argument_is_an_error(monkeypatch):
    from regraft.frontends.torch_module.operators import TABLE

    def forgetful(call):
        return call.op("Gelu", call.value("self"))

    monkeypatch.setitem(TABLE.functions, "aten.gelu.default", forgetful)
    with pytest.raises(
        UnsupportedError, match=r"E202 the lowering of `aten.gelu.default` does not read `approximate`"
    ):
        lowered(nn.GELU("tanh"), floats(2, 3))


def test_a_wrong_input_shape_names_the_models_line():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x)

    with pytest.raises(ModelError) as found:
        lowered(Net(), floats(2, 5))
    assert found.value.code == "E103"
    assert "test_torch_structure.py:" in found.value.place
    assert "\n" not in found.value.message


def test_missing_and_surplus_inputs():
    for arrays in ((), (floats(2, 4), floats(2, 4))):
        with pytest.raises(ModelError, match="E103 expected the inputs `x`"):
            lowered(Twice(), *arrays)


def test_control_flow_on_a_number_of_the_data_is_refused():
    class Branches(nn.Module):
        def forward(self, x):
            for _ in range(int(x.abs().sum())):  # what is asked of truth values only: test_torch_decided.py
                x = x + 1
            return x

    with pytest.raises(ModelError, match="E104") as found:
        lowered(Branches(), floats(2, 3))
    assert "test_torch_structure.py:" in found.value.place


def test_a_model_that_insists_on_its_batch_is_static_and_says_so():
    class Insists(nn.Module):
        def forward(self, x):
            return x.reshape(2, 12)[:, : 6 if x.shape[0] == 2 else 3]

    graph = lowered(Insists(), floats(2, 3, 4))
    assert graph.input_nodes()[0].type.shape == (2, 3, 4)
    assert any(note.startswith("static shapes") for note in graph.origin.notes)


def test_dynamic_batch_can_be_turned_off_or_put_elsewhere():
    static = lowered(Twice(), floats(1, 4), options=LoadOptions(dynamic_batch=False))
    assert static.input_nodes()[0].type.shape == (1, 4)
    other = lowered(nn.ReLU(), floats(2, 5, 4), options=LoadOptions(dynamic={"input": (1,)}))
    assert other.input_nodes()[0].type.shape == (2, "input_1", 4)


def test_inputs_that_share_the_batch_share_the_symbol():
    class Two(nn.Module):
        def forward(self, a, b, table):
            return a.sum(1) + b.sum(1), b * 2, table - 1

    graph = lowered(Two(), floats(1, 3), floats(1, 4), floats(6, 2))
    assert [n.type.shape for n in graph.input_nodes()] == [("N", 3), ("N", 4), (6, 2)]
    assert [name for name, _ in graph.outputs] == ["output_0", "output_1", "output_2"]


def test_two_sizes_that_are_one_in_the_example_alone_are_two():
    class Cross(nn.Module):
        def forward(self, x, memory):
            scores = x @ memory.mT
            spread = scores.sum(0).reshape(-1, 1).expand(memory.shape[0], x.shape[0])
            return scores, spread, x.new_ones(memory.shape[0], 2)

    graph = lowered(Cross(), floats(4, 3), floats(4, 3))
    assert [n.type.shape for n in graph.input_nodes()] == [("N", 3), ("memory_0", 3)]
    shapes = [graph.known_type(value).shape for _, value in graph.outputs]
    assert shapes == [("N", "memory_0"), ("memory_0", "N"), ("memory_0", 2)]
    session = session_of(graph)
    for rows, others in ((4, 4), (2, 5), (5, 1)):
        given = {"x": floats(rows, 3), "memory": floats(others, 3)}
        expected = Cross()(*map(torch.from_numpy, given.values()))
        for e, got in zip(expected, session.run(None, given), strict=True):
            np.testing.assert_allclose(got, e.numpy(), rtol=1e-5, atol=1e-6)


def test_optional_arguments_and_output_names():
    class Optional(nn.Module):
        def forward(self, x, mask=None, y=None):
            return {"sum": x + y if mask is None else x, "parts": [x, (y,)]}

    graph = read(Optional(), [("", floats(2, 3)), ("y", floats(2, 3))], OPTIONS)
    assert [n.name for n in graph.input_nodes()] == ["x", "y"]
    assert [name for name, _ in graph.outputs] == ["sum", "parts_0", "parts_1_0"]


def test_a_saved_program_keeps_modules_ties_and_values(tmp_path):
    model = Tied().eval()
    ids = torch.arange(6).reshape(2, 3)
    program = torch.export.export(model, (ids,), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False)
    torch.export.save(program, tmp_path / "tied.pt2")
    graph = read(tmp_path / "tied.pt2", [], OPTIONS)
    validate(graph)
    (parameter,) = graph.parameters()
    assert graph.modules.find("head").class_name == "Linear"
    assert graph.parameter_paths()[parameter.key] == ["embed.weight", "head.weight"]
    assert graph.input_nodes()[0].type.shape == ("N", 3)
    np.testing.assert_array_equal(graph.origin.inputs["ids"], ids.numpy())
    assert "Linear" in render(graph)


def test_a_damaged_program_and_a_pickle_are_refused(tmp_path):
    (tmp_path / "broken.pt2").write_bytes(b"PK\x03\x04 not a program")
    torch.save(Twice(), tmp_path / "pickle.pt2")
    for name in ("broken.pt2", "pickle.pt2", "absent.pt2"):
        with pytest.raises(ModelError, match="E101"):
            read(tmp_path / name, [], OPTIONS)


LAZY = """
import torch
from torch import nn

def net():
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5))
"""


def test_the_lazy_layers_of_a_model_that_is_named_learn_their_shapes(tmp_path: Path) -> None:
    """In a first run on the example, in which no statistics are counted."""
    (tmp_path / "lazy.py").write_text(LAZY)
    graph = regraft.load(f"{tmp_path}/lazy.py:net", {"input": "2x3x8x8"})
    held = {p.name: p.data for p in graph.parameters()}
    assert held["0.weight"].shape == (4, 3, 3, 3)
    assert held["3.weight"].shape == (5, 4 * 6 * 6)
    assert held["1.num_batches_tracked"].numpy() == 0
    assert [n for n in graph.origin.notes if "`0.weight`, `0.bias`, `1.weight`, …" in n]
    laws = [p.initializer.law for p in graph.parameters() if p.name in ("0.weight", "3.weight")]
    assert laws == ["he_uniform"] * 2


def test_lazy_layers_are_checked_once_they_have_run(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(LAZY)
    found = regraft.check(f"{tmp_path}/lazy.py:net", {"input": "2x3x8x8"})
    assert found.clean
    assert any("lazy layers" in note for note in found.notes)
    with pytest.raises(ModelError, match=r"(?s)E104 .*`0.weight`.*run the model once on an example"):
        regraft.check(f"{tmp_path}/lazy.py:net")


def test_the_lazy_layers_of_a_live_model_are_left_as_they_are() -> None:
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    for refuse in (
        lambda: read_tree(net, OPTIONS),
        lambda: regraft.load(net, "2x4"),
        lambda: regraft.check(net, "2x4"),
    ):
        with pytest.raises(ModelError, match=r"(?s)E104 .*`0.weight`.*run the model once on an example"):
            refuse()
    assert type(net[0]) is nn.LazyLinear


def test_attention_dropout_that_evaluation_hides_is_noted():
    class Own(nn.MultiheadAttention):
        def forward(self, x):
            parts = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return F.scaled_dot_product_attention(*parts, dropout_p=self.dropout if self.training else 0.0)

    graph = lowered(nn.Sequential(Own(8, 2, dropout=0.1)), floats(5, 2, 8))
    assert "attention dropout of `0` (0.1) is not in the graph" in graph.origin.notes
    whole = lowered(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), floats(5, 2, 8))
    assert not any("attention dropout" in note for note in whole.origin.notes)


def test_the_length_of_a_tensor_leaves_the_batch_symbolic(check):
    class Halves(nn.Module):
        def forward(self, x):
            return x.reshape(len(x) * 2, -1)[len(x) - 1 :]

    check(Halves(), floats(2, 4, 3))
    assert "len" not in globals()


class Keeps(nn.Module):
    """A table of biases that the first call in evaluation mode looks up and keeps, as LeViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.biases = nn.Parameter(torch.arange(6.0))
        self.kept = {}
        self.seen = []

    def forward(self, x):
        if "cpu" not in self.kept:
            self.kept["cpu"] = self.biases[torch.tensor([[0, 3], [5, 1]])]
        self.seen.append(x.shape)
        return x + self.kept["cpu"]


def test_what_a_forward_keeps_is_not_torch_exports():
    module = Keeps()
    graph = lowered(module, floats(3, 2, 2))
    assert module.kept == {}
    assert module.seen == []
    assert [p.name for p in graph.parameters()] == ["biases"]
    assert not module(torch.zeros(1, 2, 2)).isnan().any()


class ListsOfLayers(nn.Module):
    """Layers in a plain list, whose parameters are registered under a method's name."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [nn.Linear(3, 3), nn.Linear(3, 3)]
        held = [p for block in self.blocks for p in block.parameters()]
        self.parameters = nn.ParameterList(held)

    def forward(self, x):
        for block in self.blocks:
            x = x - torch.relu(block(x))
        return x


def test_a_list_called_parameters_holds_those_of_layers_in_another(check) -> None:
    """torch finds the method of that name, and makes constants of what it finds by no registered path."""
    graph = check(ListsOfLayers(), floats(2, 3))
    assert [p.name for p in graph.parameters() if p.trainable] == [f"parameters.{n}" for n in range(4)]
    assert all(graph.users(Value(p.key)) for p in graph.parameters())
    assert not [n for n in graph.origin.notes if "not trained" in n]


class Hidden(nn.Module):
    """A net with an attribute, by which it hides a method of its class."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        object.__setattr__(self, name, [1])

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    "name",
    ["parameters", "modules", "named_modules", "named_parameters", "named_buffers", "register_forward_hook"],
)
def test_an_attribute_that_hides_a_method_which_torch_needs_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=rf"E104 .*method `{name}`.*`Hidden` hides"):
        read(Hidden(name), [("", floats(2, 3))], OPTIONS)


def test_other_methods_may_be_hidden(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for name in ("modules", "register_forward_hook", "state_dict", "train"):
        graph = lowered(nn.Sequential(Hidden(name)), floats(2, 3))
        regraft.save(graph, path, to="onnx", force=True)
        assert regraft.verify(graph, path).passed
    regraft.save(graph, tmp_path / "net", to="torch")
    with pytest.raises(ModelError, match=r"E104 .*method `train`.*`0` hides"):
        regraft.verify(graph, tmp_path / "net", train=True)


def test_layers_of_a_model_that_assigns_a_buffer_are_found() -> None:
    """torch names the root twice in the stacks of such a program."""

    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.Sequential(nn.ModuleList([nn.GRUCell(5, 7)]))
            self.register_buffer("state", torch.zeros(2, 7))

        def forward(self, x):
            self.state = self.cells[0][0](x, self.state)
            return self.state * 2

    graph = read(Remembers(), [("", floats(2, 5))], OPTIONS)
    assert "@ cells.0.0#1" in next(s for s in render(graph).splitlines() if "GRUCell(%" in s).replace('"', "")
    assert len(graph.updates) == 1


def test_a_sparse_buffer_is_refused_by_name() -> None:
    class Adjacent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("edges", torch.eye(4).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.edges, x.t()).t()

    for refuse in (
        lambda: read_tree(Adjacent(), OPTIONS),
        lambda: read(Adjacent(), [("", floats(2, 4))], OPTIONS),
    ):
        with pytest.raises(ModelError, match=r"(?s)E104 .*torch.sparse_coo - at edges.*to_dense"):
            refuse()
