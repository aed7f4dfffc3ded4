"""Files that are read while they are written: what is read is there, and what fails is not kept."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from regraft.formats import elements, written_behind
from regraft.formats.elements import ElementWriters
from regraft.formats.written_behind import WritingBehind, writing_behind
from regraft.ir import TensorData


@pytest.fixture(autouse=True)
def every_tensor_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "_SMALL", 0)


def tensors(count: int, size: int = 1000) -> list[TensorData]:
    arrays = [np.full(size, number + 1, np.uint8) for number in range(count)]
    return [TensorData.of(array) for array in arrays]


def write(path: Path, data: list[TensorData]) -> None:
    with ElementWriters() as writers, writers.open(path) as out:
        for each in data:
            out.write(b"head")
            out.write_elements(each)


def expected(data: list[TensorData]) -> bytes:
    return b"".join(b"head" + each.numpy().tobytes() for each in data)


def test_a_file_has_its_size_at_once_and_its_tensors_at_the_end(tmp_path: Path) -> None:
    data, go = tensors(3), threading.Event()

    def load() -> np.ndarray:
        assert go.wait(30)
        return np.full(1000, 1, np.uint8)

    data[0] = TensorData("uint8", (1000,), load)
    with writing_behind():
        write(tmp_path / "x", data)
        assert (tmp_path / "x").stat().st_size == len(expected(data[1:])) + 1004
        assert (tmp_path / "x").read_bytes().startswith(b"head\0")
        go.set()
    assert (tmp_path / "x").read_bytes() == b"head" + bytes([1]) * 1000 + expected(data[1:])


def test_what_is_read_before_its_turn_is_written_by_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_behind, "_AHEAD", 1)
    data, order = tensors(5), list[int]()

    def told(number: int) -> TensorData:
        def load() -> np.ndarray:
            order.append(number)
            return data[number].numpy()

        return TensorData("uint8", (1000,), load)

    with writing_behind() as behind:
        write(tmp_path / "x", [told(number) for number in range(5)])
        for number in (4, 2, 0, 1, 3):
            start = 1004 * number + 4
            behind.wait_for(tmp_path / "x", start, 1000)
            found = (tmp_path / "x").read_bytes()[start : start + 1000]
            assert found == bytes([number + 1]) * 1000
        behind.wait_for(tmp_path / "another file", 0, 1)
    assert sorted(order) == [0, 1, 2, 3, 4]  # each once
    assert order.index(4) < order.index(3)  # the bound held the rest back
    assert (tmp_path / "x").read_bytes() == expected(data)


def test_many_readers_and_writers_write_each_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_behind, "_AHEAD", 7)
    behind, count, written = WritingBehind(), 200, list[int]()
    with ThreadPoolExecutor(3) as threads, ThreadPoolExecutor(4) as readers:
        for number in range(count):
            behind.submit(threads, lambda number=number: written.append(number), Path("x"), number, 1)
        order = np.random.default_rng(0).permutation(count)
        for each in [readers.submit(behind.wait_for, Path("x"), int(number), 2) for number in order]:
            each.result(30)
        behind.finish()
    assert sorted(written) == list(range(count))


def broken(path: Path) -> TensorData:
    def load() -> np.ndarray:
        raise OSError(28, "No space left on device", str(path))

    return TensorData("uint8", (1000,), load)


def test_an_error_of_the_writing_is_raised_where_it_is_read_and_at_the_end(tmp_path: Path) -> None:
    data = tensors(3)
    data[1] = broken(tmp_path / "x")
    with pytest.raises(OSError, match="No space left"), writing_behind():
        write(tmp_path / "x", data)
    with pytest.raises(OSError, match="No space left"), writing_behind() as behind:  # noqa: PT012
        write(tmp_path / "y", data)
        with pytest.raises(OSError, match="No space left"):
            behind.wait_for(tmp_path / "y", 1008, 1)
        raise ValueError("which the reader makes of it")


def test_an_error_of_the_block_stops_the_writing_and_closes_the_files(tmp_path: Path) -> None:
    held = Path("/proc/self/fd")
    before = len(list(held.iterdir())) if held.is_dir() else None
    with pytest.raises(KeyError), writing_behind():  # noqa: PT012
        write(tmp_path / "x", tensors(50))
        raise KeyError("of the block")
    if before is not None:
        assert len(list(held.iterdir())) == before
    write(tmp_path / "y", tensors(2))  # outside the block all is there at once
    assert (tmp_path / "y").read_bytes() == expected(tensors(2))


class TestBytesThatLieInAFile:
    """The system copies them, and they never enter this process."""

    def data(self, path: Path, **more: object) -> TensorData:
        path.write_bytes(b"before" + bytes(range(200)) * 5)

        def load() -> np.ndarray:
            return np.frombuffer(path.read_bytes()[6:1006], np.uint8)

        return TensorData("uint8", (1000,), load, place=(path, 6), **more)  # type: ignore[arg-type]

    def test_are_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not hasattr(os, "copy_file_range"):
            pytest.skip("this system copies no ranges of files")
        data = self.data(tmp_path / "from")
        kept = TensorData("uint8", (1000,), lambda: pytest.fail("loaded"), place=data.place)
        monkeypatch.setattr(elements, "BAND", 300)
        write(tmp_path / "to", [kept])
        assert (tmp_path / "to").read_bytes() == b"head" + data.numpy().tobytes()

    @pytest.mark.parametrize("code", ["EXDEV", "EINVAL", "ENOSYS", "EOPNOTSUPP"])
    def test_are_written_where_the_system_does_not(
        self, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import errno

        def refuse(*_: object) -> int:
            raise OSError(getattr(errno, code), "refused")

        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
        data = self.data(tmp_path / "from")
        write(tmp_path / "to", [data])
        assert (tmp_path / "to").read_bytes() == b"head" + data.numpy().tobytes()

    def test_a_full_disk_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / "to", [self.data(tmp_path / "from")])

    def test_values_that_were_written_to_since_are_not_those_of_the_file(self, tmp_path: Path) -> None:
        data = self.data(tmp_path / "from", stays=lambda: False)
        assert data.find_place() is None
        changed = TensorData(
            "uint8", (1000,), lambda: np.ones(1000, np.uint8), None, "", data.place, data.stays
        )
        write(tmp_path / "to", [changed])
        assert (tmp_path / "to").read_bytes() == b"head" + bytes([1]) * 1000


def test_what_waits_for_the_disk_is_sent_there_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when the file is there, nobody holds it open any more."""
    flushed, sizes, really = threading.Event(), list[int](), os.fsync

    def flush(number: int) -> None:
        sizes.append(os.fstat(number).st_size)
        flushed.wait(0.2)
        really(number)

    monkeypatch.setattr(elements, "_FLUSHED", 2500)
    monkeypatch.setattr(os, "fsync", flush)
    data = tensors(8)
    write(tmp_path / "x", data)
    assert (tmp_path / "x").read_bytes() == expected(data)
    assert sizes
    assert all(size >= 2500 for size in sizes[:1])
    assert not any(thread.daemon and thread.is_alive() for thread in threading.enumerate()[1:])


def test_what_the_disk_refuses_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says it to one who flushes, and only once."""
    refusals = [OSError(errno.ENOSPC, "No space left on device")]

    def flush(_: int) -> None:
        if refusals:
            raise refusals.pop()

    monkeypatch.setattr(elements, "_FLUSHED", 2500)
    monkeypatch.setattr(os, "fsync", flush)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "x", tensors(8))
    assert not refusals
