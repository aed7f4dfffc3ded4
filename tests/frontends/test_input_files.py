"""Example inputs with meaning: values from files, ranges."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.frontends import InputSpec
from regraft.frontends.input_files import read_array, read_arrays
from regraft.ir import ModelError, UsageError

BAG = """
from torch import nn

class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 4)

    def forward(self, words, offsets):
        return self.bag(words, offsets)
"""


def test_values_of_several_inputs_or_of_one(tmp_path: Path) -> None:
    """The offsets of a bag start at 0 and rise: drawn ones do so too."""
    (tmp_path / "bag.py").write_text(BAG)
    given = {"words": np.arange(6), "offsets": np.array([0, 2, 5])}
    np.save(tmp_path / "offsets.npy", given["offsets"])
    np.savez(tmp_path / "batch.npz", **given)
    one = ["--input", "words=6:int64[0,10)", "--input", f"offsets=@{tmp_path}/offsets.npy"]
    for number, options in enumerate((one, ["--data", f"{tmp_path}/batch.npz"])):
        out = f"{tmp_path}/{number}.onnx"
        result = CliRunner().invoke(main, ["rewrite", f"{tmp_path}/bag.py:Bag", *options, "-o", out])
        assert result.exit_code == 0, result.output
        assert "drawn in order, as the example is:" in result.output
        assert ("`words` in [0,10)" in result.output) == (options is one)


def test_a_range_is_that_of_the_library_too() -> None:
    class Labels(torch.nn.Module):
        def forward(self, labels):
            return torch.nn.functional.one_hot(labels, 7)

    graph = regraft.load(Labels(), {"labels": "40:int64[2,7)"})
    assert set(np.unique(graph.origin.inputs["labels"])) == {2, 3, 4, 5, 6}
    assert graph.origin.ranges == {"labels": (2, 7)}


@pytest.mark.parametrize(
    "spec", ["2:int64[3,3)", "2:bool[0,1)", "2:uint8[0,300)", "2:int64[0,1]", "2:int64[0.5,1)"]
)
def test_a_range_without_values_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="E001"):
        InputSpec.parse(spec)


def test_files_that_hold_no_numbers_are_refused(tmp_path: Path) -> None:
    """Nothing is unpickled, and nothing is allocated for what a header promises."""
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "texts.npy", np.array(["a"]))
    np.save(tmp_path / "large.npy", np.zeros(3))
    text = (tmp_path / "large.npy").read_bytes()
    (tmp_path / "large.npy").write_bytes(text.replace(b"(3,), }   ", b"(3000000,)}"[:10]))
    (tmp_path / "none.npy").write_bytes(b"no array")
    for name in ("objects", "texts", "large", "none"):
        with pytest.raises(UsageError, match=r"E001|E106"):
            read_array(tmp_path / f"{name}.npy")
    with zipfile.ZipFile(tmp_path / "objects.npz", "w") as archive:
        archive.write(tmp_path / "objects.npy", "objects.npy")
    for name in ("objects.npz", "none.npy"):
        with pytest.raises(UsageError, match="E001"):
            read_arrays(tmp_path / name)
    for read, name in ((read_array, "absent.npy"), (read_arrays, "absent.npz")):
        with pytest.raises(ModelError, match="E101 no such file"):
            read(tmp_path / name)
