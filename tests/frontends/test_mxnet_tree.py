"""The module tree and parameters of a symbol: sharing, names, roles, initial distributions, labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from regraft.frontends.mxnet_symbol import read, read_tree
from regraft.frontends.mxnet_symbol.initializers import stated_initializer
from regraft.frontends.options import LoadOptions
from regraft.ir import Graph, Initializer, Parameter

from ..corpora.mxnet.cases import cases, save_params


def load(folder: Path, name: str) -> Graph:
    case = cases("models")[name]
    return read(case.write(folder), list(case.inputs().items()), LoadOptions())


def by_name(graph: Graph) -> dict[str, list[Parameter]]:
    found: dict[str, list[Parameter]] = {}
    for parameter in graph.parameters():
        found.setdefault(parameter.declared, []).append(parameter)
    return found


def test_layers_are_modules_named_after_their_nodes(tmp_path: Path) -> None:
    graph = load(tmp_path, "net/lenet")
    root = graph.modules.module(0)
    assert root.class_name == "Lenet"
    layers = {n: graph.modules.module(k) for n, k in root.children.items()}
    operators = {n["name"]: n["op"] for n in cases("models")["net/lenet"].symbol()["nodes"]}
    assert layers
    for name, module in layers.items():
        assert module.class_name == operators[name]
        assert list(module.parameters) == ["weight", "bias"]
        assert len(graph.modules.calls(module.key)) == 1
    for node in graph.operators():
        assert node.call is not None
        assert operators[node.location]


def test_shared_variable_is_one_parameter_in_several_modules(tmp_path: Path) -> None:
    graph = load(tmp_path, "net/siamese")
    paths = graph.parameter_paths()
    shared = [p for p in graph.parameters() if len(paths[p.key]) == 2]
    symbol = cases("models")["net/siamese"].symbol()
    uses: dict[str, int] = {}
    for node in symbol["nodes"]:
        for index, *_ in node["inputs"]:
            if symbol["nodes"][index]["op"] == "null":
                name = symbol["nodes"][index]["name"]
                uses[name] = uses.get(name, 0) + 1
    assert {p.declared for p in shared} == {
        n for n, c in uses.items() if c == 2 and n not in ("data1", "data2", "sim")
    }
    assert len(graph.parameters()) == len({p.declared for p in graph.parameters()})


def test_two_variables_of_one_name_stay_two(tmp_path: Path) -> None:
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "FullyConnected",
            "name": "a",
            "attrs": {"num_hidden": "3", "no_bias": "True"},
            "inputs": [[0, 0, 0], [1, 0, 0]],
        },
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "FullyConnected",
            "name": "b",
            "attrs": {"num_hidden": "3", "no_bias": "True"},
            "inputs": [[2, 0, 0], [3, 0, 0]],
        },
    ]
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[4, 0, 0]]}))
    save_params(tmp_path / "x-0000.params", {"arg:w": np.eye(3, dtype=np.float32)})
    graph = read(path, [("", np.ones((1, 3), np.float32))], LoadOptions())
    first, second = by_name(graph)["w"]
    assert first.key != second.key
    assert first.data.storage != second.data.storage
    assert sorted(p[0] for p in graph.parameter_paths().values()) == ["a.weight", "b.weight"]


def test_fixed_gamma_counts_as_one_and_stays_in_the_tree(tmp_path: Path) -> None:
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "g", "b", "m", "v")]
    nodes.append({"op": "BatchNorm", "name": "bn", "inputs": [[i, 0, 0] for i in range(5)]})
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[5, 0, 0]]}))
    values = {"arg:g": 7.0, "arg:b": 0.0, "aux:m": 0.0, "aux:v": 1.0}
    save_params(tmp_path / "x-0000.params", {k: np.full(2, v, np.float32) for k, v in values.items()})
    graph = read(path, [("", np.ones((1, 2, 3, 3), np.float32))], LoadOptions())
    (norm,) = graph.operators()
    assert norm.float("epsilon") == pytest.approx(1e-3)
    scale = graph.operands(norm.key)[1]
    assert scale is not None
    np.testing.assert_array_equal(graph.node(scale.node).data.numpy(), np.ones(2, np.float32))  # type: ignore[union-attr]
    held = graph.modules.find("bn")
    assert held is not None
    assert list(held.parameters) == ["gamma", "beta", "moving_mean", "moving_var"]
    gamma = graph.parameter(held.parameters["gamma"])
    assert not gamma.trainable
    assert gamma.data.numpy()[0] == 7.0
    assert [graph.parameter(held.parameters[n]).is_buffer for n in ("beta", "moving_mean", "moving_var")] == [
        False,
        True,
        True,
    ]


def test_labels_of_loss_heads_are_no_inputs(tmp_path: Path) -> None:
    case = cases("models")["net/lenet"]
    graph = read(case.write(tmp_path), [("data", case.inputs()["data"])], LoadOptions())
    assert [n.name for n in graph.input_nodes()] == ["data"]
    assert any("`softmax_label`" in note for note in graph.origin.notes)
    assert graph.origin.framework == "mxnet"


def test_tree_alone_has_the_same_parameters(tmp_path: Path) -> None:
    case = cases("models")["zoo/mobilenet0.25"]
    path = case.write(tmp_path)
    tree = read_tree(path, LoadOptions())
    full = read(path, list(case.inputs().items()), LoadOptions())
    assert not tree.operators()
    assert not tree.modules.calls()
    assert {p.declared: p.data.shape for p in tree.parameters()} == {
        p.declared: p.data.shape for p in full.parameters()
    }
    assert sorted(n for v in tree.parameter_paths().values() for n in v) == sorted(
        n for v in full.parameter_paths().values() for n in v
    )


def test_gluon_files_state_their_defaults(tmp_path: Path) -> None:
    laws = {p.role: str(p.initializer) for p in load(tmp_path, "zoo/mobilenet0.25").parameters()}
    assert laws["weight"] == "uniform(low=-0.07, high=0.07)"
    assert (laws["gamma"], laws["beta"]) == ("ones()", "zeros()")
    for parameter in load(tmp_path, "net/lenet").parameters():  # weights of Module depend on its user
        assert str(parameter.initializer) == {"weight": "None", "bias": "zeros()"}[parameter.role]


def xavier(law: str, factor: str, magnitude: float) -> str:
    return json.dumps(["xavier", {"rnd_type": law, "factor_type": factor, "magnitude": magnitude}])


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("zeros", Initializer.of("zeros")),
        ('["one", {}]', Initializer.of("ones")),
        ('["constant", {"value": 2}]', Initializer.of("constant", value=2.0)),
        ('["uniform", {"scale": 0.5}]', Initializer.of("uniform", low=-0.5, high=0.5)),
        ('["normal", {"sigma": 0.2}]', Initializer.of("normal", mean=0.0, std=0.2)),
        # sqrt(magnitude / fan), the fan of (8, 4, 3, 3) being 36 in and 72 out
        (xavier("uniform", "in", 9), Initializer.of("uniform", low=-0.5, high=0.5)),
        (xavier("uniform", "avg", 3), Initializer.of("xavier_uniform", gain=1.0)),
        (xavier("uniform", "out", 6), Initializer.of("he_uniform", a=0.0, mode="fan_out")),
        (xavier("gaussian", "avg", 4), Initializer.of("xavier_normal", gain=2.0)),
        (xavier("gaussian", "in", 1), Initializer.of("he_normal", a=1.0, mode="fan_in")),
        (xavier("gaussian", "out", 18), Initializer.of("normal", mean=0.0, std=0.5)),
        (
            '["msraprelu", {"factor_type": "in", "slope": 0.0}]',
            Initializer.of("he_normal", a=0.0, mode="fan_in"),
        ),
        ('["msraprelu", {"slope": 1.0}]', Initializer.of("xavier_normal", gain=1.0)),
        ('["mixed", {"patterns": ["bias"], "initializers": ["zeros"]}]', None),
        ('["load", {"path": "x"}]', None),
        ("[[[", None),
    ],
)
def test_stated_initializers(text: str, law: Initializer | None) -> None:
    assert stated_initializer(text, (8, 4, 3, 3)) == law
