"""The fused RNN operator against torch, which computes the same from the same vector of parameters."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regraft.formats.params_file import write_params
from regraft.frontends.mxnet_symbol import read
from regraft.frontends.options import LoadOptions
from regraft.ir import ModelError, Parameter, TensorData, UnsupportedError, validate

from .test_mxnet_numbers import run

CLASSES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}
X = np.random.default_rng(0).standard_normal((6, 2, 4)).astype(np.float32)


def packed(layer: torch.nn.Module) -> np.ndarray:
    """MXNet's vector: all weights, then all biases, both in torch's order."""
    weights, biases = ([p for n, p in layer.named_parameters() if kind in n] for kind in ("weight", "bias"))
    return torch.cat([p.detach().flatten() for p in (*weights, *biases)]).numpy()


def symbol(folder: Path, mode: str, vector: np.ndarray, **attributes: object) -> Path:
    """A symbol of one RNN that starts from zeros of a batch that nothing states."""
    layers, directions = int(attributes.get("num_layers", 1)), 2 if attributes.get("bidirectional") else 1
    zeros = {"shape": f"({layers * directions}, 0, 5)", "dtype": "float32"}
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "net_parameters")]
    states = range(2, 4 if mode == "lstm" else 3)
    nodes += [{"op": "_zeros", "name": f"begin{i}", "attrs": zeros, "inputs": []} for i in states]
    attrs = {"mode": mode, "state_size": "5", "num_layers": "1"} | {k: str(v) for k, v in attributes.items()}
    inputs = [[i, 0, 0] for i in range(len(nodes))]
    nodes.append({"op": "RNN", "name": "net", "attrs": attrs, "inputs": inputs})
    document = {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[len(nodes) - 1, 0, 0]]}
    (folder / "net-symbol.json").write_text(json.dumps(document))
    write_params(folder / "net-0000.params", [("arg:net_parameters", TensorData.of(vector))])
    return folder / "net-symbol.json"


@pytest.mark.parametrize("attributes", [{}, {"num_layers": 2, "bidirectional": True, "p": 0.2}], ids=str)
@pytest.mark.parametrize("mode", CLASSES)
def test_a_stack_with_parameters_of_its_own(mode, attributes, tmp_path):
    options = {k: v for k, v in attributes.items() if k != "p"}
    layer = CLASSES[mode](4, 5, **options)
    path = symbol(tmp_path, mode, packed(layer), **attributes)
    graph = read(path, [("data", X)], LoadOptions(dynamic={"data": (1,)}))
    validate(graph)
    (found,) = run(graph)
    with torch.no_grad():
        np.testing.assert_allclose(found, layer(torch.from_numpy(X))[0].numpy(), rtol=1e-4, atol=1e-6)
    (node,) = graph.operators()
    parameters = [graph.node(v.node) for v in graph.operands(node.key)[1:] if v is not None]
    assert all(isinstance(p, Parameter) for p in parameters)
    assert parameters[0].name == "net_l0_i2h_weight"
    assert node.attributes.get("dropout") == attributes.get("p")


def test_as_many_layers_as_the_sequence_is_long_are_no_batch(tmp_path):
    layer = torch.nn.GRU(4, 5, 2, bidirectional=True)
    names = ["data", "net_parameters", "state"]
    attrs = {"mode": "gru", "state_size": "5", "num_layers": "2", "bidirectional": "True"}
    nodes = [{"op": "null", "name": n, "inputs": []} for n in names]
    nodes.append({"op": "RNN", "name": "net", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(3)]})
    document = {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[3, 0, 0]]}
    (tmp_path / "net-symbol.json").write_text(json.dumps(document))
    write_params(tmp_path / "net-0000.params", [("arg:net_parameters", TensorData.of(packed(layer)))])
    given = [("data", X[:4]), ("state", np.zeros((4, 2, 5), np.float32))]
    graph = read(tmp_path / "net-symbol.json", given, LoadOptions())
    assert [node.type.shape for node in graph.input_nodes()] == [("N", 2, 4), (4, 2, 5)]


def test_a_vector_of_another_size_is_refused(tmp_path):
    path = symbol(tmp_path, "gru", packed(torch.nn.GRU(4, 5)))
    with pytest.raises(ModelError, match=r"`net_parameters` of shape \[180\].*got \[165\]"):
        read(path, [("data", X[:, :, [0, 1, 2, 3, 3]])], LoadOptions())


@pytest.mark.parametrize("option", [{"projection_size": 3}, {"lstm_state_clip_min": -1.0}])
def test_options_without_a_counterpart_are_refused(option, tmp_path):
    path = symbol(tmp_path, "lstm", packed(torch.nn.LSTM(4, 5)), **option)
    with pytest.raises(UnsupportedError, match=next(iter(option))):
        read(path, [("data", X)], LoadOptions())
