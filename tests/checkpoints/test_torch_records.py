"""A .pth is read from where its tensors lie: every form of a view, and files that claim too much."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from regraft.checkpoints import read_checkpoint
from regraft.ir import ModelError


def rewritten(path: Path, change: dict[bytes, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """The same archive with other bytes in its pickle."""
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, raw in records.items():
            for old, new in change.items() if name.endswith("data.pkl") else ():
                assert raw.count(old) == 1
                raw = raw.replace(old, new)
            archive.writestr(name, raw)
    return path


def test_every_form_of_a_view_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    both = torch.complex(base, base + 1)
    state = {
        "whole": base,
        "rows": base[1:3],
        "turned": base.T,
        "apart": base[:, ::2],
        "repeated": base[0].expand(3, 6),
        "conjugate": both.conj(),
        "negative": torch._neg_view(base),
        "brain": base.to(torch.bfloat16),
        "scalar": torch.tensor(3),
        "none": base[:0],
    }
    torch.save(state, tmp_path / "x.pth")
    found = read_checkpoint(tmp_path / "x.pth")
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        expected = tensor.resolve_conj().resolve_neg()
        expected = expected.float() if tensor.dtype == torch.bfloat16 else expected
        np.testing.assert_array_equal(found[name].numpy().astype(expected.numpy().dtype), expected.numpy())
        assert found[name].shape == tuple(tensor.shape)
    assert {n for n, d in found.items() if d.place} == {"whole", "rows", "brain", "scalar"}
    for name in ("whole", "rows", "scalar"):
        path, start = found[name].place or (tmp_path, 0)
        raw = path.read_bytes()[start : start + found[name].nbytes]
        assert raw == state[name].contiguous().numpy().tobytes()
    assert found["whole"].storage == found["turned"].storage


def test_an_archive_that_is_compressed_is_inflated(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(50.0)[3:]}, tmp_path / "x.pth")
    found = read_checkpoint(rewritten(tmp_path / "x.pth", {}, zipfile.ZIP_DEFLATED))["w"]
    assert found.place is None
    np.testing.assert_array_equal(found.numpy(), np.arange(3, 50, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "complex64", "bool"])
def test_the_other_order_of_bytes_is_turned(tmp_path: Path, dtype: str) -> None:
    tensor = torch.arange(6).to(getattr(torch, dtype))
    torch.save({"w": tensor}, tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.pth") as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        size = tensor.element_size() // (2 if tensor.is_complex() else 1)
        for name, raw in records.items():
            if "/data/" in name:
                raw = b"".join(raw[at : at + size][::-1] for at in range(0, len(raw), size))
            archive.writestr(name, b"big" if name.endswith("byteorder") else raw)
    expected = torch.load(tmp_path / "x.pth", weights_only=True)["w"]
    assert torch.equal(expected, tensor)
    found = read_checkpoint(tmp_path / "x.pth")["w"].numpy()
    assert found.astype(np.complex64).tolist() == tensor.to(torch.complex64).tolist()


def test_views_of_one_storage_in_a_file_from_before_torch_1_6(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state = {"whole": base, "turned": base.T, "apart": base[:, ::2], "u16": torch.ones(3, dtype=torch.uint16)}
    state["last"] = torch.arange(5)[2:]
    torch.save(state, tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    found = read_checkpoint(tmp_path / "x.pth")
    for name, tensor in state.items():
        assert found[name].numpy().tolist() == tensor.tolist(), name
    assert found["whole"].storage == found["turned"].storage
    raw = (tmp_path / "x.pth").read_bytes()
    (tmp_path / "x.pth").write_bytes(raw[:-8])
    with pytest.raises(ModelError, match=r"E101 expected the elements of `.*a storage of .* bytes"):
        read_checkpoint(tmp_path / "x.pth")["last"].numpy()


@pytest.mark.parametrize("part", ["size", "offset", "key"])
def test_a_pickle_that_claims_more_than_the_file_has_is_one_error(tmp_path: Path, part: str) -> None:
    """Numbers in the pickle: 201 elements of the storage, a tensor of 200 from the first on."""
    torch.save({"w": torch.arange(201, dtype=torch.float32)[1:]}, tmp_path / "x.pth")
    change = {
        "size": {b"K\x01K\xc8\x85": b"K\x01K\xff\x85"},
        "offset": {b"K\x01K\xc8\x85": b"K\x02K\xc8\x85"},
        "key": {b"X\x01\x00\x00\x000": b"X\x01\x00\x00\x007"},
    }[part]
    path = rewritten(tmp_path / "x.pth", change)
    with pytest.raises(ModelError) as error:
        read_checkpoint(path)
    assert error.value.code == "E101"
    assert "x.pth" in str(error.value)


def test_a_storage_that_is_shorter_than_the_pickle_says_is_one_error(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(200, dtype=torch.float32)}, tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.pth") as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        for name, raw in records.items():
            archive.writestr(name, raw[:100] if name.endswith("data/0") else raw)
    with pytest.raises(ModelError, match=r"elements of `w`, float32 \[200\], got a storage of 100 bytes"):
        read_checkpoint(tmp_path / "x.pth")


def test_a_view_that_repeats_its_storage_without_end_is_one_error(tmp_path: Path) -> None:
    torch.save({"mask": torch.ones(1, 8).expand(64, 8)}, tmp_path / "x.pth")
    assert read_checkpoint(tmp_path / "x.pth")["mask"].numpy().shape == (64, 8)
    torch.save({"w": torch.ones(1).as_strided((10**6, 10**6), (0, 0))}, tmp_path / "x.pth")
    with pytest.raises(ModelError, match="a storage of 4 bytes, repeated"):
        read_checkpoint(tmp_path / "x.pth")
