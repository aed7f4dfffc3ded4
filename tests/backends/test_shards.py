"""Weights in several files: read by the target's own runtime, tied tensors once, as one change."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

import regraft
from regraft.checkpoints import read_checkpoint
from regraft.formats import elements
from regraft.formats.elements import ElementWriters, element_chunks
from regraft.formats.shard_index import parse_size
from regraft.ir import BackendError, TensorData, UsageError

SIZE = 20_000


class Tagger(nn.Module):
    """An embedding tied to the head, and layers whose weights ONNX has transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(8)))
        self.head = nn.Linear(32, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(ids)))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Tagger().eval()


@pytest.fixture(scope="module")
def graph(net: nn.Module) -> regraft.Graph:
    return regraft.load(net, (torch.arange(8).reshape(2, 4),))


@pytest.fixture(scope="module")
def rewritten(graph: regraft.Graph) -> regraft.Rewritten:
    return regraft.rewrite(graph)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def imported(folder: Path) -> Any:
    spec = spec_from_file_location("emitted_in_shards", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("emitted_in_shards", None)
    return module


class TestOnnx:
    def test_the_checker_and_the_runtime_read_all_files(
        self, net: nn.Module, graph: regraft.Graph, rewritten: regraft.Rewritten, tmp_path: Path
    ) -> None:
        path = tmp_path / "net.onnx"
        files, report = regraft.rewrite_file(graph, rewritten, path, max_shard_size=SIZE)
        assert report is not None
        assert report.passed
        shards = [f for f in files if f.suffix == ".data"]
        assert [f.name for f in shards] == [f"net.onnx-0000{n}-of-00005.data" for n in range(1, 6)]
        assert all(f.stat().st_size <= SIZE for f in shards)
        onnx.checker.check_model(path, full_check=True)
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        assert sum(a.shape in ((100, 32), (32, 100)) for a in stored.values()) == 1
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        ids = torch.tensor([[3, 1, 2, 99]])
        found = session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0]
        np.testing.assert_allclose(np.asarray(found), net(ids).detach().numpy(), 1e-5, 1e-5)
        again = regraft.load(path, {"ids": "1x4:int64[0,100)"})
        assert {d.data.nbytes for d in again.parameters()} >= {12_800, 4_096}

    def test_a_smaller_output_takes_the_place_of_a_larger_one(
        self, rewritten: regraft.Rewritten, tmp_path: Path
    ) -> None:
        path = tmp_path / "net.onnx"
        (tmp_path / "my.onnx-00001-of-00002.data").write_text("another model's")
        regraft.save(rewritten.graph, path, max_shard_size=1)
        assert len(listed(tmp_path)) > 10
        with pytest.raises(UsageError, match="exists"):
            regraft.save(rewritten.graph, path, max_shard_size="20KB")
        regraft.save(rewritten.graph, path, max_shard_size="20KB", force=True)
        assert sum("net.onnx-" in name for name in listed(tmp_path)) == 5
        regraft.save(rewritten.graph, path, max_shard_size="1GB", force=True)
        assert listed(tmp_path) == ["my.onnx-00001-of-00002.data", "net.onnx", "net.renames.json"]

    def test_weights_that_stay_in_the_model_have_no_shards(
        self, rewritten: regraft.Rewritten, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="stay in the model"):
            regraft.save(rewritten.graph, tmp_path / "net.onnx", external_data=False, max_shard_size=SIZE)


@pytest.fixture(scope="module")
def folder(
    graph: regraft.Graph, rewritten: regraft.Rewritten, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "out"
    files, report = regraft.rewrite_file(graph, rewritten, folder, "mindspore", max_shard_size=SIZE)
    assert report is not None
    assert report.passed
    assert sorted(f.name for f in files) == listed(folder)
    return folder


class TestMindSpore:
    def test_the_source_s_values_are_there_once(self, net: nn.Module, folder: Path) -> None:
        index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
        assert len(set(index.values())) == 3
        state = net.state_dict()
        found = {n: a for file in set(index.values()) for n, a in load_file(folder / file).items()}
        assert sum(a.shape == (100, 32) for a in found.values()) == 1
        for name, array in found.items():
            source = name.replace("embedding_table", "weight")
            np.testing.assert_array_equal(array, state[source].numpy())
        assert regraft.diff(folder, folder, None).equal

    def test_mindspore_s_own_reader_of_shards_reads_them(self, folder: Path) -> None:
        import mindspore as ms

        emitted = imported(folder)
        wanted, other = emitted.build(), emitted.build(None)
        left = ms.load_distributed_checkpoint(
            other, format="safetensors", unified_safetensors_dir=str(folder)
        )
        assert left == ([], [])
        for one, two in zip(wanted.get_parameters(), other.get_parameters(), strict=True):
            np.testing.assert_array_equal(one.asnumpy(), two.asnumpy())

    def test_build_names_what_is_left_over_on_either_side(self, folder: Path, tmp_path: Path) -> None:
        emitted = imported(folder)
        tensors = {n: d.numpy() for n, d in read_checkpoint(folder).items()}
        first, *rest = tensors
        changed = {n: tensors[n] for n in rest} | {"more": np.ones(2, np.float32)}
        changed[rest[0]] = tensors[rest[0]].astype(np.float16)
        save_file(changed, tmp_path / "a.safetensors")
        places = dict.fromkeys(changed, "a.safetensors")
        (tmp_path / "x.index.json").write_text(json.dumps({"weight_map": places}))
        with pytest.raises(ValueError, match="does not fit the net") as error:
            emitted.build(tmp_path / "x.index.json")
        lines = str(error.value).splitlines()[1:]
        assert [line.split(" Float")[0] for line in lines] == [
            *sorted(f"only in the checkpoint: {n}" for n in (rest[0], "more")),
            *sorted(f"only in the net: {n}" for n in (first, rest[0])),
        ]
        (tmp_path / "x.index.json").write_text(json.dumps({"weight_map": {"a": "../a.safetensors"}}))
        with pytest.raises(ValueError, match="Invalid name"):
            emitted.build(tmp_path / "x.index.json")
        save_file(tensors, tmp_path / "one.safetensors")
        emitted.build(tmp_path / "one.safetensors")

    def test_a_ckpt_has_no_shards(self, rewritten: regraft.Rewritten, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="safetensors"):
            regraft.save(
                rewritten.graph, tmp_path / "out", "mindspore", checkpoint_format="ckpt", max_shard_size=SIZE
            )
        assert not (tmp_path / "out").exists()


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "size"),
        [("2GB", 2 * 10**9), ("2 GiB", 2 * 2**30), ("1.5kb", 1500), ("7", 7), ("500M", 5 * 10**8), (9, 9)],
    )
    def test_a_size(self, text: str | int, size: int) -> None:
        assert parse_size(text) == size


class TestElements:
    @pytest.mark.parametrize("band", [1, 100, 1 << 20])
    @pytest.mark.parametrize(
        "array",
        [
            np.arange(24, dtype=np.float32).reshape(4, 6),
            np.arange(24 * 35, dtype=np.int16).reshape(24, 35).T,
            np.arange(24 * 35, dtype=">i4").reshape(24, 35).T,
            np.arange(200 * 600, dtype=np.uint32).reshape(200, 600).T,
            np.arange(600 * 200, dtype=np.uint8).reshape(600, 200).T,
            np.arange(7 * 9, dtype=np.complex128).reshape(7, 9).T,
            np.arange(2 * 20 * 9, dtype=np.float64).reshape(2, 20, 9).transpose(0, 2, 1),
            np.arange(2 * 20 * 9, dtype=np.float32).reshape(2, 20, 9).transpose(2, 0, 1),
            np.arange(60, dtype=np.uint8).reshape(6, 10)[::2, 1:7],
            np.zeros((0, 3), np.float32).T,
            np.float32(3).reshape(()),
        ],
    )
    def test_every_layout_is_written_in_order(
        self, array: np.ndarray, band: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(elements, "BAND", band)
        monkeypatch.setattr(elements, "_SMALL", 0)
        data = TensorData(array.dtype.name, array.shape, lambda: array)
        with ElementWriters() as writers, writers.open(tmp_path / "x") as out:
            out.write(b"head")
            out.write_elements(data)
            out.write(b"tail")
        expected = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        assert (tmp_path / "x").read_bytes() == b"head" + expected + b"tail"
        assert b"".join(element_chunks(data)) == expected

    def test_a_handle_that_states_another_type_is_an_error(self, tmp_path: Path) -> None:
        data = TensorData("float32", (3,), lambda: np.zeros(2, np.float32))
        writers, stated = ElementWriters(), pytest.raises(BackendError, match="12 bytes")
        with writers, stated, writers.open(tmp_path / "x") as out:
            out.write_elements(data)
