"""Every format against the library that owns it, damaged files, and how much memory it takes."""

import json
import os
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.ir import BackendError, ModelError, TensorData, UsageError

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1 << 20


def arrays():
    generator = np.random.default_rng(3)
    found = {f"a.{d}": (10 * generator.standard_normal((2, 3, 4))).astype(d) for d in ("f2", "f4", "f8")}
    found |= {f"i.{d}": generator.integers(0, 100, (5,)).astype(d) for d in ("i1", "i2", "i4", "i8", "u1")}
    found["flag"] = np.array([[True], [False]])
    found["scalar"] = np.array(2.5, np.float32)
    found["größe.0"] = generator.standard_normal((1, 1)).astype(np.float32)
    return found


def handles(given=None):
    return {name: TensorData.of(array) for name, array in (given or arrays()).items()}


def assert_same(got, expected):
    assert set(got) == set(expected)
    for name, array in expected.items():
        value = got[name]
        assert (value.dtype, value.shape) == (array.dtype, array.shape), name
        assert np.array_equal(value, array), name


def read(path):
    tensors = read_checkpoint(path)
    for data in tensors.values():
        array = data.numpy()
        assert (array.dtype.name, array.shape) == (data.dtype, data.shape)
    return {name: data.numpy() for name, data in tensors.items()}


def attempted(path):
    """(arrays, None) of a file that can be read, or (None, the error); anything else raised is a defect."""
    try:
        return read(path), None
    except ModelError as error:
        return None, error


class TestWriting:
    def test_mindspore_reads_ckpt(self, tmp_path):
        write_checkpoint(tmp_path / "x.ckpt", handles())
        assert_same(
            {n: p.asnumpy() for n, p in ms.load_checkpoint(str(tmp_path / "x.ckpt")).items()}, arrays()
        )

    @pytest.mark.parametrize("mmap", [True, False])
    @pytest.mark.parametrize("suffix", ["pth", "pt"])
    def test_torch_reads_pth(self, tmp_path, mmap, suffix):
        path = tmp_path / f"x.{suffix}"
        write_checkpoint(path, handles())
        state = torch.load(path, weights_only=True, mmap=mmap)
        assert list(state) == list(arrays())
        assert_same({n: t.numpy() for n, t in state.items()}, arrays())
        assert all(t.data_ptr() % 8 == 0 for t in state.values())

    def test_shared_handles_are_one_storage_in_pth(self, tmp_path):
        data = TensorData.of(np.ones((64, 64), np.float32))
        write_checkpoint(tmp_path / "x.pth", {"a": data, "b": data})
        state = torch.load(tmp_path / "x.pth", weights_only=True)
        assert state["a"].data_ptr() == state["b"].data_ptr()
        assert (tmp_path / "x.pth").stat().st_size < 2 * 64 * 64 * 4

    def test_safetensors_reads_safetensors(self, tmp_path):
        write_checkpoint(tmp_path / "x.safetensors", handles())
        state = safetensors.torch.load_file(tmp_path / "x.safetensors")
        assert_same({n: t.numpy() for n, t in state.items()}, arrays())
        loaded = ms.load_checkpoint(str(tmp_path / "x.safetensors"), format="safetensors")
        assert_same({n: p.asnumpy() for n, p in loaded.items()}, arrays())

    def test_bfloat16_everywhere_it_exists(self, tmp_path):
        tensor = torch.randn(7, 3).bfloat16()
        torch.save({"w": tensor}, tmp_path / "a.pth")
        for path in (tmp_path / "b.safetensors", tmp_path / "c.ckpt", tmp_path / "d.pth"):
            write_checkpoint(path, read_checkpoint(tmp_path / "a.pth"))
            assert read_checkpoint(path)["w"].dtype == "bfloat16"
        assert torch.equal(torch.load(tmp_path / "d.pth", weights_only=True)["w"], tensor)
        assert torch.equal(safetensors.torch.load_file(tmp_path / "b.safetensors")["w"], tensor)
        with pytest.raises(BackendError, match="bfloat16"):
            write_checkpoint(tmp_path / "e.params", read_checkpoint(tmp_path / "a.pth"))
        assert not (tmp_path / "e.params").exists()

    def test_params(self, tmp_path):
        wanted = {n: a for n, a in arrays().items() if a.dtype != np.int16}
        write_checkpoint(tmp_path / "x.params", handles(wanted))
        assert_same(read(tmp_path / "x.params"), wanted)
        source = EXAMPLES / "shared_weight-0000.params"
        assert all(":" not in name for name in read(source))

    def test_what_is_not_written(self, tmp_path):
        for name in ("x.onnx", "x.bin"):
            with pytest.raises(UsageError, match="E001"):
                write_checkpoint(tmp_path / name, handles())

    def test_a_failure_leaves_nothing(self, tmp_path):
        def fail():
            raise ModelError("E101", "gone")

        for suffix in ("ckpt", "safetensors", "params", "pth"):
            tensors = {**handles({"a": np.ones(3, np.float32)}), "b": TensorData("float32", (3,), fail)}
            with pytest.raises(ModelError):
                write_checkpoint(tmp_path / "new" / f"x.{suffix}", tensors)
            assert not (tmp_path / "new").exists()


class TestReading:
    def test_ckpt_of_mindspore(self, tmp_path):
        parameters = [{"name": n, "data": ms.Tensor(a)} for n, a in arrays().items()]
        ms.save_checkpoint(parameters, str(tmp_path / "x.ckpt"))
        assert_same(read(tmp_path / "x.ckpt"), arrays())

    def test_ckpt_with_a_checksum(self, tmp_path):
        parameters = [{"name": n, "data": ms.Tensor(a)} for n, a in arrays().items()]
        ms.save_checkpoint(parameters, str(tmp_path / "x.ckpt"), crc_check=True)
        assert_same(read(tmp_path / "x.ckpt"), arrays())
        raw = bytearray((tmp_path / "x.ckpt").read_bytes())
        raw[raw.index(arrays()["a.f4"].tobytes())] ^= 1
        (tmp_path / "y.ckpt").write_bytes(raw)
        with pytest.raises(ModelError, match="expected the checksum"):
            read_checkpoint(tmp_path / "y.ckpt")

    def test_ckpt_in_slices(self, tmp_path):
        """MindSpore splits what is larger than 512 MiB into several values of one name."""
        whole = np.arange(12, dtype=np.float32).reshape(3, 4)
        write_checkpoint(tmp_path / "a.ckpt", handles({"w": whole[:1]}))
        write_checkpoint(tmp_path / "b.ckpt", handles({"w": whole[1:]}))
        raw = (tmp_path / "a.ckpt").read_bytes().replace(b"\x08\x01", b"\x08\x03", 1)
        rest = (tmp_path / "b.ckpt").read_bytes().replace(b"\x08\x02", b"\x08\x03", 1)
        (tmp_path / "c.ckpt").write_bytes(raw + rest)
        assert np.array_equal(ms.load_checkpoint(str(tmp_path / "c.ckpt"))["w"].asnumpy(), whole)
        assert_same(read(tmp_path / "c.ckpt"), {"w": whole})

    def test_pth_of_torch_in_both_formats(self, tmp_path):
        state = {n: torch.tensor(a) for n, a in arrays().items()}
        state["view"] = torch.arange(12.0).reshape(3, 4).T[1:]
        for legacy in (False, True):
            torch.save(state, tmp_path / "x.pth", _use_new_zipfile_serialization=not legacy)
            assert_same(read(tmp_path / "x.pth"), {n: t.numpy() for n, t in state.items()})

    def test_a_ckpt_that_is_torchs(self, tmp_path):
        notes = []
        torch.save({"state_dict": {"w": torch.ones(2)}, "epoch": 4}, tmp_path / "last.ckpt")
        assert list(read_checkpoint(tmp_path / "last.ckpt", notes)) == ["w"]
        assert "state_dict" in notes[0]

    @pytest.mark.parametrize("typed", [False, True])
    @pytest.mark.parametrize("external", [False, True])
    def test_onnx(self, tmp_path, typed, external):
        wanted = arrays()
        tensors = [onnx.numpy_helper.from_array(a, n) for n, a in wanted.items()]
        if typed:  # elements in typed fields instead of bytes
            tensors = [
                onnx.helper.make_tensor(
                    n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.flatten()
                )
                for n, a in wanted.items()
            ]
        node = onnx.helper.make_node("Identity", ["scalar"], ["y"])
        y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [y], tensors))
        onnx.save(model, tmp_path / "x.onnx", save_as_external_data=external and not typed, size_threshold=0)
        assert_same(read(tmp_path / "x.onnx"), wanted)

    def test_external_data_outside_the_folder(self, tmp_path):
        (tmp_path / "secret").write_bytes(b"\0" * 8)
        (tmp_path / "in").mkdir()
        tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="../secret")
        graph = onnx.GraphProto(name="g", initializer=[tensor])
        onnx.save(onnx.ModelProto(graph=graph), tmp_path / "in/x.onnx")
        with pytest.raises(ModelError, match="E101"):
            read_checkpoint(tmp_path / "in/x.onnx")["w"].numpy()


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class TestHostile:
    def test_pickles_do_not_run(self, tmp_path):
        trap = Trap(tmp_path / "ran")
        torch.save({"w": torch.ones(2), "x": trap}, tmp_path / "x.pth")
        (tmp_path / "y.pth").write_bytes(pickle.dumps(trap))
        for name in ("x.pth", "y.pth"):
            with pytest.raises(ModelError, match="E101"):
                read_checkpoint(tmp_path / name)
        assert not trap.path.exists()

    @pytest.mark.parametrize(
        "content", [[torch.ones(2)], {"a": 1}, {1: torch.ones(2)}, torch.ones(2)], ids=str
    )
    def test_pth_without_names(self, tmp_path, content):
        torch.save(content, tmp_path / "x.pth")
        with pytest.raises(ModelError, match="E101 expected tensors by name"):
            read_checkpoint(tmp_path / "x.pth")

    def test_sparse_and_quantised(self, tmp_path):
        torch.save({"w": torch.eye(3).to_sparse()}, tmp_path / "x.pth")
        with pytest.raises(
            ModelError, match=r"a plain tensor under `w`, got `torch\._utils\._rebuild_sparse_tensor`"
        ):
            read_checkpoint(tmp_path / "x.pth")

    @pytest.mark.parametrize("suffix", ["ckpt", "safetensors", "params", "pth", "onnx"])
    def test_missing_and_directory(self, tmp_path, suffix):
        with pytest.raises(ModelError, match="E101 no such file"):
            read_checkpoint(tmp_path / f"x.{suffix}")
        (tmp_path / f"x.{suffix}").mkdir()
        with pytest.raises(ModelError, match="E101 cannot read"):
            read_checkpoint(tmp_path / f"x.{suffix}")

    @pytest.mark.parametrize("suffix", ["safetensors", "params", "pth", "onnx"])
    def test_empty(self, tmp_path, suffix):
        (tmp_path / f"x.{suffix}").write_bytes(b"")
        with pytest.raises(ModelError, match="E101"):
            read_checkpoint(tmp_path / f"x.{suffix}")

    def test_an_empty_ckpt_holds_nothing(self, tmp_path):  # as a net without parameters saves it
        (tmp_path / "x.ckpt").write_bytes(b"")
        assert read_checkpoint(tmp_path / "x.ckpt") == {}

    @pytest.mark.parametrize("suffix", ["ckpt", "safetensors"])
    def test_every_truncation(self, tmp_path, suffix):
        whole = {"first": np.ones((2, 3), np.float32), "second": np.arange(5)}
        write_checkpoint(tmp_path / f"x.{suffix}", handles(whole))
        raw = (tmp_path / f"x.{suffix}").read_bytes()
        at_a_boundary = 0
        for size in range(1, len(raw)):
            (tmp_path / f"y.{suffix}").write_bytes(raw[:size])
            got, error = attempted(tmp_path / f"y.{suffix}")
            if error is not None:
                assert error.code == "E101"
                assert "byte" in error.place
            else:  # between two values a .ckpt is whole: that is the format
                at_a_boundary += 1
                assert list(got) == ["first"]
        assert at_a_boundary == (suffix == "ckpt")

    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            (b"\x0a\xff\xff\xff\xff\x0f", "4294967295 bytes"),
            (b"\x0a" + b"\xff" * 11, "64 bits"),
            (b"\x0b", "wire type"),
            (b"\x12\x00", "field 2"),
            (b"\x0a\x03\x0a\x01w", "only one of them"),
            (b"\x0a\x05\x0a\x01\xff\x12\x00", "UTF-8"),
            (b"\x0a\x10\x0a\x01w\x12\x0b\x08\x02\x12\x07Float99", "Float99"),
            (b"\x0a\x10\x0a\x01w\x12\x0b\x08\x02\x12\x07Float32", "no elements"),
            (b"\x0a\x15\x0a\x01w\x12\x10\x08\x02\x12\x07Float32\x1a\x03abc", "expected 8 bytes"),
            (b"PK\x05\x06", "E101"),
        ],
    )
    def test_ckpt(self, tmp_path, raw, words):
        (tmp_path / "x.ckpt").write_bytes(raw)
        with pytest.raises(ModelError, match="E101") as error:
            read_checkpoint(tmp_path / "x.ckpt")
        assert words in str(error.value)
        assert ", byte " in error.value.place

    def test_a_shape_that_no_file_holds(self, tmp_path):
        huge = b"\x08" + b"\xff" * 8 + b"\x7f"
        tensor = huge * 4 + b"\x12\x07Float32\x1a\x04abcd"
        value = b"\x0a\x01w\x12" + bytes([len(tensor)]) + tensor
        (tmp_path / "x.ckpt").write_bytes(b"\x0a" + bytes([len(value)]) + value)
        with pytest.raises(ModelError, match="E101"):
            read_checkpoint(tmp_path / "x.ckpt")

    def test_safetensors_types_of_other_worlds(self, tmp_path):
        header = json.dumps({"w": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}).encode()
        header += b" " * (-len(header) % 8)
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"ab")
        with pytest.raises(ModelError, match="F8_E4M3"):
            read_checkpoint(tmp_path / "x.safetensors")

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def test_any_damage_is_one_error_or_a_checkpoint(self, tmp_path, data):
        suffix = data.draw(st.sampled_from(["ckpt", "onnx", "safetensors", "params"]))
        if suffix == "onnx":
            tensor = onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w")
            raw = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor])).SerializeToString()
        else:
            path = tmp_path / f"whole.{suffix}"
            write_checkpoint(path, handles({"w": np.ones((2, 2), np.float32)}), force=True)
            raw = path.read_bytes()
        damaged = bytearray(raw)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        (tmp_path / f"x.{suffix}").write_bytes(damaged)
        got, error = attempted(tmp_path / f"x.{suffix}")
        assert error.code == "E101" if error else got is not None


@pytest.mark.parametrize("suffix", ["ckpt", "safetensors", "params", "pth"])
@pytest.mark.parametrize("source", ["ckpt", "safetensors", "pth"])
def test_memory_is_a_few_tensors_not_the_file(tmp_path, source, suffix):
    """64 tensors of 1 MiB: writing holds about one of them, reading none."""
    count = 64
    many = {
        f"layer{i}.w": TensorData("float32", (256, 1024), lambda i=i: np.full((256, 1024), i, np.float32))
        for i in range(count)
    }
    write_checkpoint(tmp_path / f"a.{source}", many)
    turned = lambda d: TensorData(d.dtype, d.shape[::-1], lambda: d.numpy().T)  # noqa: E731 - needs a copy
    read_checkpoint(tmp_path / f"a.{source}")  # imports stay out of the measurement
    tracemalloc.start()
    try:
        tensors = read_checkpoint(tmp_path / f"a.{source}")
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
        write_checkpoint(tmp_path / f"b.{suffix}", {n: turned(d) for n, d in tensors.items()})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEGABYTE, peak
    assert (tmp_path / f"b.{suffix}").stat().st_size > count * MEGABYTE
    last = read_checkpoint(tmp_path / f"b.{suffix}")[f"layer{count - 1}.w"]
    assert (last.numpy() == count - 1).all()
    assert last.shape == (1024, 256)


class _Large:
    """What unpickles to as many bytes as it says."""

    def __reduce__(self):
        return bytearray, (8 << 30,)


def test_a_torch_file_cannot_ask_for_memory(tmp_path: Path) -> None:

    torch.save({"w": _Large()}, tmp_path / "large.pth")
    with pytest.raises(ModelError, match=r"E101 .*got `bytearray`.*large.pth"):
        read_checkpoint(tmp_path / "large.pth")
    torch.save({"w": torch.ones(2)}, tmp_path / "small.pth")
    assert list(read_checkpoint(tmp_path / "small.pth")) == ["w"]


@pytest.mark.parametrize("name", ["nothere", "nothere.pth", "nothere.safetensors"])
def test_a_file_or_folder_that_is_not_there_is_told_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"E101 no such file: .*{name}`"):
        read_checkpoint(tmp_path / name)


class _Command:
    """What unpickles to a command that is run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_what_a_torch_file_would_run_is_named_and_no_advice_to_run_it(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "x": _Command(tmp_path / "ran")}, tmp_path / "evil.pth")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pth")
    for name, what in (("evil", "posix.system"), ("whole", "torch.nn.modules.linear.Linear")):
        with pytest.raises(ModelError, match=f"E101 expected .* got `{what}`, which was not run"):
            read_checkpoint(tmp_path / f"{name}.pth")
    body = pickle.PROTO + b"\x02" + b"\xff" + pickle.STOP
    with zipfile.ZipFile(tmp_path / "odd.pth", "w") as archive:
        for name, content in (("data.pkl", body), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(f"odd/{name}", content)
    with pytest.raises(
        ModelError, match=r"E101 expected a pickle of torch.save, .* - at .*odd.pth"
    ) as raised:
        read_checkpoint(tmp_path / "odd.pth")
    assert "arbitrary" not in str(raised.value)
    assert not (tmp_path / "ran").exists()


def test_a_long_name_in_a_torch_file_is_refused_at_once(tmp_path: Path) -> None:
    """A message shows its beginning."""
    body = pickle.PROTO + b"\x02" + pickle.GLOBAL + b"os\n" + b"a" * 200_000 + b"\n" + pickle.STOP
    with zipfile.ZipFile(tmp_path / "long.pth", "w") as archive:
        for name, content in (("data.pkl", body), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(f"long/{name}", content)
    began = time.process_time()
    with pytest.raises(ModelError, match=r"E101 .*got `os.aaa.*long.pth") as raised:
        read_checkpoint(tmp_path / "long.pth")
    assert time.process_time() - began < 5
    assert len(str(raised.value)) < 5000
