"""Pages of files that nobody reads again: which are let go of, and that nothing changes by it."""

import ctypes
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from regraft.ir.outside import page_cache
from regraft.ir.outside.page_cache import PageEvictor, forget_part, read_spots, unmap

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems take no advice")

SIZE = 4096 * mmap.PAGESIZE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    with path.open("wb") as out:
        out.write(bytes(range(256)) * (SIZE // 256))
        out.flush()
        os.fsync(out.fileno())
    return path


def pages_in_memory(path: Path) -> int:
    """Pages of a file that the system holds."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        held = (ctypes.c_ubyte * (SIZE // mmap.PAGESIZE))()
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(SIZE), held) == 0
        return sum(page & 1 for page in held)


def forget_all(path: Path) -> None:
    """Have the system forget the pages of a file, without the code under test; skip where it does not."""
    held = pages_in_memory(path)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if pages_in_memory(path) >= held:
        pytest.skip("this file system keeps its files in memory, or tells of no pages")


def test_what_lies_far_behind_is_let_go_of_in_order() -> None:
    gone: list[int] = []
    evictor = PageEvictor(100)
    for number, size in enumerate([60, 60, 10, 500, 1, 99]):
        evictor.add(size, lambda number=number: gone.append(number))
        left = sum([60, 60, 10, 500, 1, 99][len(gone) : number + 1])
        assert left - [60, 60, 10, 500, 1, 99][len(gone)] < 100 <= max(left, 100)
    assert gone == [0, 1, 2, 3]


def test_files_that_memory_holds_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "file_memory", lambda: 4000)
    gone: list[int] = []
    evictor = PageEvictor()
    for number in range(10):
        evictor.add(100, lambda number=number: gone.append(number))
    assert gone == []
    evictor.add(100, lambda: None)
    assert gone == [0]


@linux
def test_the_system_forgets_the_pages_of_a_part(file: Path) -> None:
    file.read_bytes()
    forget_all(file)
    file.read_bytes()
    assert pages_in_memory(file) == SIZE // mmap.PAGESIZE
    forget_part(file, 0, SIZE // 2)
    held = pages_in_memory(file)
    assert held <= SIZE // mmap.PAGESIZE * 3 // 4  # the system has pages in groups
    assert file.read_bytes() == bytes(range(256)) * (SIZE // 256)


@linux
def test_a_file_that_is_gone_is_no_error(tmp_path: Path) -> None:
    forget_part(tmp_path / "gone", 0, SIZE)


@linux
def test_unmapped_elements_are_read_again(file: Path) -> None:
    array = np.memmap(file, np.uint8, "r").view(np.ndarray)
    part = array[1000:60_000]
    before = part.copy()
    unmap(part)
    assert np.array_equal(part, before)


@linux
def test_what_was_written_to_a_private_mapping_stays(file: Path) -> None:
    array = np.memmap(file, np.uint8, "c").view(np.ndarray)
    array[:] = 7
    unmap(array)
    assert (array == 7).all()


def test_elements_that_lie_in_no_file_are_left_alone() -> None:
    array = np.arange(10)
    array.flags.writeable = False
    unmap(array)
    assert array.tolist() == list(range(10))


@linux
def test_the_values_of_a_module_stay_as_they_are(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import json
    import struct

    from regraft.checkpoints import read_checkpoint
    from regraft.frontends.torch_module.given_values import forget_values, with_values

    values = np.arange(2 * 1024 * 1024, dtype=np.float32)
    head = json.dumps({"weight": {"dtype": "F32", "shape": [1024, 2048], "data_offsets": [0, values.nbytes]}})
    path = tmp_path / "weights.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head.encode() + values.tobytes())
    linear = torch.nn.Linear(2048, 1024, bias=False, device="meta")
    module = with_values(linear, read_checkpoint(path), own=True)
    forget_values(module)
    assert np.array_equal(module.weight.detach().numpy().reshape(-1), values)
    with torch.no_grad():
        module.weight.add_(1)
    forget_values(module)
    assert np.array_equal(module.weight.detach().numpy().reshape(-1), values + 1)


@linux
def test_spots_are_read_without_what_lies_around_them(file: Path) -> None:
    places = [0, SIZE // 4 + 1, SIZE // 2, SIZE - 3]
    forget_all(file)
    found = read_spots(file, places, 4)
    assert pages_in_memory(file) <= SIZE // mmap.PAGESIZE // 8
    content = file.read_bytes()
    assert found == b"".join(content[place : place + 4] for place in places)  # three bytes of the last
