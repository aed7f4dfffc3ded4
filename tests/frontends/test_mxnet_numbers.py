"""What symbols compute: the lowered graph in ONNX Runtime against outputs recorded from MXNet 1.9.1."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from regraft.backends.onnx_model import to_model
from regraft.frontends.mxnet_symbol import read
from regraft.frontends.options import LoadOptions
from regraft.ir import Graph, validate

from ..corpora.mxnet.cases import Case, cases

LARGE = ("zoo/vgg11", "zoo/resnet18_v1", "zoo/gcv_resnest14", "zoo/gcv_googlenet")


def load(case: Case, folder: Path, *, dynamic: bool = True, batch: int | None = None) -> Graph:
    inputs = case.inputs()
    if batch is not None:
        inputs = {k: np.concatenate([v] * batch)[:batch] for k, v in inputs.items()}
    graph = read(case.write(folder), list(inputs.items()), LoadOptions(dynamic_batch=dynamic))
    validate(graph)
    return graph


def run(graph: Graph, inputs: dict[str, np.ndarray] | None = None) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString(), options)
    given = graph.origin.inputs if inputs is None else inputs
    return session.run(None, {i.name: given[i.name] for i in session.get_inputs()})


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=i, marks=[pytest.mark.slow] if i in LARGE else [])
        for i, c in cases("models").items()
    ],
)
def test_model(case: Case, tmp_path: Path) -> None:
    assert case.checksum() == case.record["checksum"]  # the parameters are those MXNet had
    graph = load(case, tmp_path)
    case.check(run(graph))


@pytest.mark.parametrize(
    "name", ["net/lenet", "net/siamese", "zoo/mobilenet0.25", "net/text_cnn", "net/wide_deep"]
)
def test_batch_is_dynamic(name: str, tmp_path: Path) -> None:
    case = cases("models")[name]
    graph = load(case, tmp_path)
    assert not [n for n in graph.origin.notes if "batch size is fixed" in n]
    whole = run(graph)
    for row in range(2):  # one row at a time gives the rows of the whole
        single = run(graph, {k: v[row : row + 1] for k, v in graph.origin.inputs.items()})
        for one, all_ in zip(single, whole, strict=True):
            np.testing.assert_allclose(one[0], all_[row], rtol=1e-4, atol=1e-5)


def test_batch_can_be_static(tmp_path: Path) -> None:
    graph = load(cases("models")["net/lenet"], tmp_path, dynamic=False)
    assert graph.input_nodes()[0].type.shape == (2, 1, 28, 28)


@pytest.mark.parametrize("case", [pytest.param(c, id=i) for i, c in cases("ops").items()])
def test_operator(case: Case, tmp_path: Path) -> None:
    case.check(run(load(case, tmp_path)))


@pytest.mark.parametrize("case", [pytest.param(c, id=i) for i, c in cases("legacy").items()])
def test_old_file(case: Case, tmp_path: Path) -> None:
    case.check(run(load(case, tmp_path)))


def test_a_symbol_without_parameters_computes_in_float64_and_one_with_narrows_and_says_so(
    tmp_path: Path,
) -> None:
    case = cases("models")["net/lenet"]
    path = case.write(tmp_path)
    given = [(k, v.astype(np.float64)) for k, v in case.inputs().items()]
    graph = read(path, given, LoadOptions())
    assert graph.origin.inputs["data"].dtype == np.float32
    assert (
        "`data`: float64 examples are converted to float32, the type of the parameters" in graph.origin.notes
    )
    assert not [n for n in load(case, tmp_path).origin.notes if "float64" in n]


def test_dropout_of_everything_is_no_dropout_in_inference(tmp_path: Path) -> None:
    path = tmp_path / "drop-symbol.json"
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "Dropout", "name": "y", "attrs": {"p": "1.0"}, "inputs": [[0, 0, 0]]},
    ]
    path.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]}))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(read(path, [("x", x)], LoadOptions()))[0], x)
