"""`params` gives a model the values of a file: by name, whole, mapped, and not into the caller's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import regraft
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.cli import main
from regraft.ir import ModelError, TensorData, UsageError

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.embed = nn.Embedding(7, width)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.full((width,), 2.0), persistent=False)

    def forward(self, ids):
        return self.head(self.norm(self.embed(ids) * self.scale))

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)
"""
CELL = """
import mindspore as ms
from mindspore import nn

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2)

    def construct(self, x):
        return self.fc(x)
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(3)
    return {
        "embed.weight": torch.randn(7, 4, generator=drawn),
        "norm.weight": torch.randn(4, generator=drawn),
        "norm.bias": torch.randn(4, generator=drawn),
        "norm.running_mean": torch.randn(4, generator=drawn),
        "norm.running_var": torch.rand(4, generator=drawn) + 0.5,
        "norm.num_batches_tracked": torch.tensor(9),
    }


def expected(state: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    found = nn.functional.batch_norm(
        state["embed.weight"][ids] * 2,
        state["norm.running_mean"],
        state["norm.running_var"],
        state["norm.weight"],
        state["norm.bias"],
    )
    return found @ state["embed.weight"].T


def outputs(graph: regraft.Graph, folder: Path, ids: torch.Tensor) -> np.ndarray:
    import onnxruntime

    regraft.save(graph, folder / "out.onnx", to="onnx")
    session = onnxruntime.InferenceSession(folder / "out.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0]


class TestTorch:
    @pytest.mark.parametrize("meta", [False, True])
    @pytest.mark.parametrize("form", ["safetensors", "pth", "both names", "shards"])
    def test_a_named_module_has_the_values_of_the_file(
        self, net: Path, state: dict[str, torch.Tensor], form: str, meta: bool
    ) -> None:
        """Of two names of one tensor a file may have either or both; a buffer that no file stores stays."""
        path = net.parent / ("w.pth" if form == "pth" else "w.safetensors")
        if form == "shards":
            path = net.parent / "shards"
            path.mkdir()
            names = list(state)
            for file, part in (("a", names[:2]), ("b", names[2:])):
                save_file({n: state[n] for n in part}, path / f"{file}.safetensors")
            places = {n: "a.safetensors" if n in names[:2] else "b.safetensors" for n in names}
            (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        elif form == "pth":
            torch.save(state, path)
        else:
            tied = {"head.weight": state["embed.weight"].clone()} if form == "both names" else {}
            save_file({**state, **tied}, path)
        ids = torch.tensor([1, 5])
        graph = regraft.load(f"{net}:Net", (ids,), params=path, meta=meta)
        np.testing.assert_allclose(outputs(graph, net.parent, ids), expected(state, ids), 1e-5, 1e-5)
        assert [p.name for p in graph.parameters() if p.data.shape == (7, 4)] == ["embed.weight"]

    def test_two_values_of_one_tensor_are_refused(self, net: Path, state: dict[str, torch.Tensor]) -> None:
        path = net.parent / "w.safetensors"
        save_file({**state, "head.weight": state["embed.weight"] + 1}, path)
        with pytest.raises(ModelError, match="one tensor in the model, got two"):
            regraft.load(f"{net}:Net", (torch.tensor([1, 5]),), params=path)

    def test_the_callers_module_is_not_changed(self, state: dict[str, torch.Tensor], tmp_path: Path) -> None:
        torch.save({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, tmp_path / "w.pth")
        module = nn.Linear(3, 2)
        before, held = {n: t.clone() for n, t in module.state_dict().items()}, module.weight
        graph = regraft.load(module, ("2x3",), params=tmp_path / "w.pth")
        assert {p.name: p.data.numpy().mean() for p in graph.parameters()} == {"weight": 1, "bias": 1}
        assert module.weight is held
        assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())

    def test_a_module_on_meta_is_filled_in_the_types_of_the_file(self, tmp_path: Path) -> None:
        save_file(
            {"weight": torch.ones(2, 3, dtype=torch.bfloat16), "bias": torch.ones(2, dtype=torch.bfloat16)},
            tmp_path / "w.safetensors",
        )
        with torch.device("meta"):
            module = nn.Linear(3, 2)
        graph = regraft.load(module, ("2x3:bfloat16",), params=tmp_path / "w.safetensors")
        assert {(p.data.dtype, float(p.data.numpy().mean())) for p in graph.parameters()} == {
            ("bfloat16", 1.0)
        }
        assert module.weight.is_meta
        real = regraft.load(nn.Linear(3, 2), ("2x3",), params=tmp_path / "w.safetensors")
        assert {p.data.dtype for p in real.parameters()} == {"float32"}

    def test_a_buffer_on_meta_that_no_file_has_is_named(
        self, net: Path, state: dict[str, torch.Tensor]
    ) -> None:
        save_file(state, net.parent / "w.safetensors")
        space: dict[str, type[nn.Module]] = {}
        exec(NET, space)
        with torch.device("meta"):
            module = space["Net"]()
        with pytest.raises(ModelError, match="`scale`"):
            regraft.load(module, (torch.tensor([1, 2]),), params=net.parent / "w.safetensors")

    def test_what_does_not_fit_is_one_error_with_the_near_names(
        self, net: Path, state: dict[str, torch.Tensor]
    ) -> None:
        state["norm.wieght"] = state.pop("norm.weight")
        state["norm.bias"] = torch.ones(5)
        save_file(state, net.parent / "w.safetensors")
        result = invoke(
            *("rewrite", f"{net}:Net", "--params", net.parent / "w.safetensors"),
            *("--input", "ids=2:int64[0,7)", "-o", net.parent / "out.onnx"),
        )
        assert result.exit_code == 2
        for words in (
            "E801",
            "`norm.bias` is [4] in the model and [5] in the file",
            "`norm.weight` is not in the file, which has `norm.wieght`",
            "`norm.wieght` is not in the model",
        ):
            assert words in result.output
        assert not (net.parent / "out.onnx").exists()

    def test_the_command_line_writes_and_proves_the_values(self, net: Path) -> None:
        torch.save({"fc.weight": torch.full((2, 3), 0.25), "fc.bias": torch.zeros(2)}, net.parent / "w.pth")
        options = ("--params", net.parent / "w.pth", "--meta", "--input", "2x3")
        result = invoke("rewrite", f"{net}:Plain", *options, "-o", net.parent / "out.onnx")
        assert result.exit_code == 0, result.output
        assert result.output.startswith("equal")
        stored = {
            i.name: numpy_helper.to_array(i) for i in onnx.load(net.parent / "out.onnx").graph.initializer
        }
        assert (stored["fc.weight"] == 0.25).all()
        again = invoke("verify", f"{net}:Plain", net.parent / "out.onnx", *options)
        assert again.output.startswith("equal")
        other = invoke("verify", f"{net}:Plain", net.parent / "out.onnx", "--input", "2x3")
        assert other.exit_code == 1

    def test_training_writes_nothing_into_the_file(self, net: Path, state: dict[str, torch.Tensor]) -> None:
        path = net.parent / "w.safetensors"
        save_file(state, path)
        before = path.read_bytes()
        options = ("--params", path, "--meta", "--input", "ids=4:int64[0,7)")
        done = invoke("rewrite", f"{net}:Net", *options, "--to", "mindspore", "-o", net.parent / "out")
        assert done.exit_code == 0, done.output
        result = invoke("verify", f"{net}:Net", net.parent / "out", *options, "--train")
        assert result.output.startswith("equal"), result.output
        assert path.read_bytes() == before

    def test_meta_without_params_is_an_error(self, net: Path) -> None:
        with pytest.raises(UsageError, match="params"):
            regraft.load(f"{net}:Plain", ("2x3",), meta=True)


class TestOthers:
    def test_a_named_cell_has_the_values_of_the_file(self, tmp_path: Path) -> None:
        from mindspore import nn as layers

        (tmp_path / "cell.py").write_text(CELL)
        values = {"fc.weight": np.full((2, 3), 0.5, np.float32), "fc.bias": np.ones(2, np.float32)}
        tensors = {n: TensorData.of(v) for n, v in values.items()}
        write_checkpoint(tmp_path / "w.ckpt", tensors)
        graph = regraft.load(f"{tmp_path / 'cell.py'}:Net", ("2x3",), params=tmp_path / "w.ckpt")
        assert {p.name: float(p.data.numpy().mean()) for p in graph.parameters()} == {
            "fc.weight": 0.5,
            "fc.bias": 1.0,
        }
        made: Any = layers.Dense
        with pytest.raises(UsageError, match="load_checkpoint"):
            regraft.load(made(3, 2), ("2x3",), params=tmp_path / "w.ckpt")

    def test_a_file_that_holds_its_own_takes_no_other(self, tmp_path: Path, net: Path) -> None:
        torch.save({"fc.weight": torch.ones(2, 3), "fc.bias": torch.ones(2)}, tmp_path / "w.pth")
        regraft.save(regraft.load(f"{net}:Plain", ("2x3",)), tmp_path / "m.onnx", to="onnx")
        with pytest.raises(UsageError, match="its own"):
            regraft.load(tmp_path / "m.onnx", params=tmp_path / "w.pth")


class TestShards:
    def write(self, folder: Path, index: object) -> Path:
        save_file({"a": torch.ones(2), "b": torch.zeros(3)}, folder / "one.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    def test_a_folder_and_its_index_are_read(self, tmp_path: Path) -> None:
        folder = self.write(tmp_path, {"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})
        for path in (folder, folder / "model.safetensors.index.json"):
            assert {n: d.shape for n, d in read_checkpoint(path).items()} == {"a": (2,), "b": (3,)}

    @pytest.mark.parametrize(
        ("index", "word"),
        [
            ([], "weight_map"),
            ({"weight_map": {"a": 3}}, "weight_map"),
            ({"weight_map": {"c": "one.safetensors"}}, "`c`"),
            ({"weight_map": {"a": "two.safetensors"}}, "two.safetensors"),
            ({"weight_map": {"a": "../one.safetensors"}}, "beside"),
            ({"weight_map": {"a": "/etc/passwd"}}, "beside"),
            ({"weight_map": {"a": "model.safetensors.index.json"}}, "beside"),
        ],
    )
    def test_an_index_that_is_not_right_is_an_error(self, tmp_path: Path, index: object, word: str) -> None:
        with pytest.raises(ModelError, match=word):
            read_checkpoint(self.write(tmp_path, index))

    def test_a_folder_without_an_index_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="index"):
            read_checkpoint(tmp_path)
