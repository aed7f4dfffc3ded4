"""Checkpoints in shards: written whole or not at all, and refused where index and shards differ."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file

from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.cli import main
from regraft.ir import ModelError, TensorData, UsageError

VALUES = {
    "a.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b.weight": np.arange(30, dtype=np.float16),
    "c.bias": np.arange(5, dtype=np.float32),
    "d": np.asfortranarray(np.arange(20, dtype=np.float32).reshape(4, 5)),
}
INDEX, NAME_MAP = "model.safetensors.index.json", "param_name_map.json"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def handles() -> dict[str, TensorData]:
    return {name: TensorData.of(array) for name, array in VALUES.items()}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(folder: Path, files: dict[str, list[str]], index: object = None, name: str = INDEX) -> Path:
    """A folder of shards: what each file has, and an index, of all of that where none is given."""
    folder.mkdir()
    for file, names in files.items():
        save_file({n: np.ascontiguousarray(VALUES[n]) for n in names}, folder / file)
    places = {n: file for file, names in files.items() for n in names}
    (folder / name).write_text(json.dumps({"weight_map": places} if index is None else index))
    return folder


class TestWriting:
    def test_shards_hold_every_tensor_once_within_the_size(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path / "out", handles(), max_shard_size=100)
        assert listed(tmp_path / "out") == [
            *(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)),
            INDEX,
            NAME_MAP,
        ]
        index = json.loads((tmp_path / "out" / INDEX).read_text())
        assert index["metadata"]["total_size"] == sum(a.nbytes for a in VALUES.values())
        assert json.loads((tmp_path / "out" / NAME_MAP).read_text()) == index
        found: dict[str, np.ndarray] = {}
        for file in sorted(set(index["weight_map"].values())):
            held = load_file(tmp_path / "out" / file)
            assert sum(a.nbytes for a in held.values()) <= 100
            assert set(held) == {n for n, f in index["weight_map"].items() if f == file}
            found |= held
        assert found.keys() == VALUES.keys()
        for name, array in VALUES.items():
            np.testing.assert_array_equal(found[name], array)

    def test_a_tensor_above_the_size_has_a_file_of_its_own(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path / "out", handles(), max_shard_size=1)
        assert sum(name.endswith(".safetensors") for name in listed(tmp_path / "out")) == len(VALUES)

    def test_what_fits_one_file_has_no_index(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path / "out", handles())
        assert listed(tmp_path / "out") == ["model.safetensors"]
        assert read_checkpoint(tmp_path / "out").keys() == VALUES.keys()

    def test_a_smaller_output_leaves_no_shards_of_a_larger_one(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        write_checkpoint(out, handles(), max_shard_size=1)
        (out / "notes.txt").write_text("mine")
        with pytest.raises(UsageError, match="exists"):
            write_checkpoint(out, handles(), max_shard_size=1)
        write_checkpoint(out, handles(), max_shard_size=150, force=True)
        assert [n for n in listed(out) if n.endswith(".safetensors")] == [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ]
        write_checkpoint(out, handles(), force=True)
        assert listed(out) == ["model.safetensors", "notes.txt"]

    def test_shards_of_somebody_else_are_left(self, tmp_path: Path) -> None:
        """An index that regraft did not write names files that are not regraft's to delete."""
        names = list(VALUES)
        files = {f"model-0000{n}-of-00004.safetensors": [names[n - 1]] for n in (1, 2, 3, 4)}
        theirs = write(tmp_path / "out", files)
        write_checkpoint(theirs, handles(), force=True)
        assert files.keys() <= set(listed(theirs))

    def test_a_failure_leaves_the_old_shards(self, tmp_path: Path) -> None:
        def fail() -> np.ndarray:
            raise ModelError("E101", "gone")

        write_checkpoint(tmp_path / "out", handles(), max_shard_size=100)
        before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
        with pytest.raises(ModelError):
            write_checkpoint(
                tmp_path / "out",
                {**handles(), "z": TensorData("float32", (3,), fail)},
                max_shard_size=1,
                force=True,
            )
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before

    @pytest.mark.parametrize("size", ["two", "0", "-1", "1.5", "", "GB", "nan", 0, 2.5])
    def test_a_size_that_is_none(self, tmp_path: Path, size: object) -> None:
        if size == "1.5":  # a byte and a half is one
            write_checkpoint(tmp_path / "out", handles(), max_shard_size=size)
            return
        with pytest.raises(UsageError, match="expected a shard size"):
            write_checkpoint(tmp_path / "out", handles(), max_shard_size=size)

    def test_a_file_takes_no_shards(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="folder"):
            write_checkpoint(tmp_path / "out.ckpt", handles(), max_shard_size="1GB")


class TestReading:
    @pytest.mark.parametrize(
        ("index", "name"),
        [
            (None, NAME_MAP),
            ({"a.weight": "one.safetensors", "b.weight": "two.safetensors"}, NAME_MAP),
            (None, INDEX),
        ],
    )
    def test_every_form_of_index(self, tmp_path: Path, index: object, name: str) -> None:
        """MindSpore's own index may be the bare map, as its converters of older versions wrote it."""
        files = {"one.safetensors": ["a.weight"], "two.safetensors": ["b.weight"]}
        folder = write(tmp_path / "w", files, index, name)
        for path in (folder, folder / name):
            found = read_checkpoint(path)
            assert {n: d.numpy().tolist() for n, d in found.items()} == {
                n: VALUES[n].tolist() for n in ("a.weight", "b.weight")
            }

    def test_an_index_of_the_same_weights_as_torch_files_is_passed_over(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "w", {"one.safetensors": ["a.weight"]})
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "a.bin"}}))
        assert list(read_checkpoint(folder)) == ["a.weight"]

    def test_two_indexes_that_differ_are_refused(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "w", {"one.safetensors": ["a.weight"]})
        (folder / NAME_MAP).write_text(json.dumps({"weight_map": {"a.weight": "two.safetensors"}}))
        with pytest.raises(ModelError, match="got 2"):
            read_checkpoint(folder)

    @pytest.mark.parametrize(
        ("files", "index", "word"),
        [
            (["a", "b"], {"a.weight": "one.safetensors", "b.weight": "two.safetensors"}, "b.weight` in `two"),
            (["a"], {"a.weight": "one.safetensors", "b.weight": "two.safetensors"}, "`two.safetensors`"),
            (["ab", "b"], None, "`one.safetensors` to match the index, got `b.weight`"),
            (["ac", "b"], {"a.weight": "one.safetensors", "b.weight": "two.safetensors"}, "does not have"),
            (["a"], {"a.weight": "..\\one.safetensors"}, "beside the index"),
            (["a"], {"a.weight": NAME_MAP}, "beside the index"),
            (["a"], {"a.weight": "x" * 5000}, "got 0 and no"),
            (["a"], {"a.weight": "a\0b"}, "got 0 and no"),
        ],
    )
    def test_shards_that_are_not_what_the_index_says(
        self, tmp_path: Path, files: list[str], index: dict[str, str] | None, word: str
    ) -> None:
        short = {"a": "a.weight", "b": "b.weight", "c": "c.bias"}
        held = {
            name: [short[letter] for letter in letters]
            for name, letters in zip(("one.safetensors", "two.safetensors"), files, strict=False)
        }
        if "in `two" in word:
            held["two.safetensors"] = ["c.bias"]
        with pytest.raises(ModelError) as error:
            read_checkpoint(write(tmp_path / "w", held, None if index is None else {"weight_map": index}))
        assert word in str(error.value)

    @pytest.mark.parametrize("damage", ["header", "data", "length", "pipe", "folder"])
    def test_a_damaged_shard_is_named(self, tmp_path: Path, damage: str) -> None:
        folder = write(tmp_path / "w", {"one.safetensors": ["a.weight"], "two.safetensors": ["b.weight"]})
        shard = folder / "two.safetensors"
        raw = shard.read_bytes()
        shard.unlink()
        if damage == "pipe":
            os.mkfifo(shard)
        elif damage == "folder":
            shard.mkdir()
        else:
            cut = {"header": raw[:20], "data": raw[:-4], "length": (1 << 62).to_bytes(8, "little") + raw[8:]}
            shard.write_bytes(cut[damage])
        with pytest.raises(ModelError, match=r"two\.safetensors"):
            read_checkpoint(folder)


class TestCommands:
    def test_conversion_and_comparison_take_folders(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path / "torch", handles(), max_shard_size=100)
        (tmp_path / "map.json").write_text(json.dumps({"a": "x", "b": "y"}))
        made = invoke(
            *("convert-checkpoint", tmp_path / "torch", tmp_path / "out", "--map", tmp_path / "map.json"),
            *("--max-shard-size", "100B"),
        )
        assert made.exit_code == 0, made.output
        assert set(read_checkpoint(tmp_path / "out")) == {"x.weight", "y.weight", "c.bias", "d"}
        same = invoke("diff", tmp_path / "torch", tmp_path / "out", "--map", tmp_path / "map.json")
        assert same.output.startswith("equal: 4 tensors"), same.output
        write_checkpoint(tmp_path / "one.ckpt", {n: d for n, d in handles().items() if n != "d"})
        other = invoke("diff", tmp_path / "torch", tmp_path / "one.ckpt")
        assert other.exit_code == 1
        to_file = ("convert-checkpoint", tmp_path / "torch", tmp_path / "a.pth")
        wrong = invoke(*to_file, "--max-shard-size", "1GB")
        assert wrong.exit_code == 2
        assert "expected a folder" in wrong.output
