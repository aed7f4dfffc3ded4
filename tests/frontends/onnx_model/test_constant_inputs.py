"""Settings that a model takes as inputs, made constants by the caller."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main

NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[2,5,4] x, int64[1] starts, int64[1] ends, int64[1] axes) => (float[a,b,c] y) {
  s = Slice (x, starts, ends, axes)
  y = ReduceSum <keepdims = 1> (s, axes)
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_an_input_that_is_a_constant_is_written_as_one(path: Path) -> None:
    out = path.with_name("out")
    options = ["--constant", "starts=1", "--constant", "ends=[-1]", "--constant", "axes=1"]
    done = CliRunner().invoke(main, ["rewrite", str(path), "--to", "mindspore", "-o", str(out), *options])
    assert done.exit_code == 0, done.output
    assert "equal: " in done.output
    assert "def construct(self, x):" in (out / "model.py").read_text()


def test_it_has_the_value_in_onnx_too(path: Path) -> None:
    np.save(path.with_name("axes.npy"), np.array([1]))
    constants = {"starts": 1, "ends": np.array([-1]), "axes": [1]}
    graph = regraft.load(str(path), constants=constants)
    assert [node.name for node in graph.input_nodes()] == ["x"]
    out = path.with_name("out.onnx")
    regraft.save(regraft.rewrite(graph).graph, out)
    assert regraft.verify(graph, out).passed
    x = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
    import onnxruntime

    found = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, x[:, 1:-1].sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"axs": 1}, "expected an input among x, starts, ends, axes, got `axs`"),
        ({"axes": 1.5}, "expected i64[1] as `axes`, got 1.5"),
        ({"axes": "a"}, "expected i64[1] as `axes`, got a"),
        ({"axes": [[1], 2]}, "expected i64[1] as `axes`, got [[1], 2]"),
        ({"axes": [1, 2]}, "expected i64[1] as `axes`, got [2]"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(path: Path, constants: dict[str, object], said: str) -> None:
    with pytest.raises(regraft.RegraftError, match="E103") as raised:
        regraft.load(str(path), constants=constants)
    assert said in str(raised.value)


UNKNOWN_RANK = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[2,1,4] x, int64[n] axes) => (float[a] y) {
  s = Squeeze (x, axes)
  y = ReduceMax <keepdims = 0> (s)
}
"""


def test_the_refusal_names_the_option_to_type(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(UNKNOWN_RANK), path)
    done = CliRunner().invoke(
        main, ["rewrite", str(path), "--to", "mindspore", "-o", str(path.parent / "out")]
    )
    assert done.exit_code != 0
    assert "--constant axes=VALUE" in done.output
    with pytest.raises(regraft.RegraftError) as raised:
        regraft.save(regraft.rewrite(regraft.load(str(path))).graph, path.parent / "out", to="mindspore")
    assert 'constants={"axes": VALUE}' in str(raised.value)


@pytest.mark.parametrize("given", ["axes", "=1", "axes="])
def test_a_spelling_without_name_or_value_is_refused(path: Path, given: str) -> None:
    done = CliRunner().invoke(main, ["show", str(path), "--constant", given])
    assert "E001 expected --constant NAME=VALUE" in done.output


def test_models_of_other_frameworks_have_no_such_inputs() -> None:
    import torch

    with pytest.raises(regraft.UsageError, match="expected an ONNX model"):
        regraft.load(torch.nn.ReLU(), ("2x3",), constants={"x": 1})
