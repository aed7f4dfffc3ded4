"""Weights that are larger than the memory that a process may use: written in shards, read back and proved."""

import json
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

from regraft.benchmarks import large
from regraft.checkpoints import read_checkpoint

WIDTH, LAYERS = 4096, 6
ALLOWED = 90_000_000
"""Bytes that a conversion of 201 MB of weights may use above what the libraries have taken."""

PROVED = ["equal True"] * 3
"""What is said of ONNX, MindSpore and PyTorch: the verdict, and whether there was a result in float64."""

PROVED_IN = 200_000_000
"""Bytes that the comparisons may allocate besides: less than the weights are, and half of them in float32."""

CODE = f"""
import resource
import sys
from pathlib import Path
import torch
from torch import nn
import regraft
from regraft.verification.conditioning import Cost, UnitsAlone
from regraft.verification.sides import Sides

# as where something is off: the source runs from its own values too, in float32 and float64
Sides.units_alone = lambda self: UnitsAlone(Cost(0), "exact")

class Net(nn.Module):
    def __init__(self, width={WIDTH}, layers={LAYERS}):
        super().__init__()
        made = [nn.Linear(width, width, bias=False, dtype=torch.bfloat16) for _ in range(layers)]
        self.layers = nn.Sequential(*made)

    def forward(self, x):
        return self.layers(x)

def write(graph, folder, **options):
    rewritten = regraft.rewrite(graph).graph
    regraft.save(rewritten, folder / "net.onnx", **options)
    for target in ("mindspore", "torch"):
        regraft.save(rewritten, folder / target, to=target, **options)

def verify(graph, folder):
    for target in (folder / "net.onnx", folder / "mindspore", folder / "torch"):
        report = regraft.verify(graph, target, pieces=True)
        print(report.verdict, not any("no float64" in note for note in report.notes), flush=True)

if __name__ == "__main__":
    folder = Path(__file__).parent
    small = regraft.load(Net(2, 2), ("1x2x2:bfloat16",))
    write(small, folder / "small")  # loads libraries
    verify(small, folder / "small")
    print("begins", flush=True)
    sys.stdin.readline()
    inputs = ("1x2x{WIDTH}:bfloat16",)  # of three axes: ONNX then has the weights transposed
    graph = regraft.load(f"{{__file__}}:Net", inputs, params=folder / "weights", meta=True)
    write(graph, folder / "out", max_shard_size="80MB")
    print("written", flush=True)
    sys.stdin.readline()
    lines = Path("/proc/self/status").read_text().splitlines()
    private = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
    held = private + {PROVED_IN}
    resource.setrlimit(resource.RLIMIT_DATA, (held, held))
    verify(graph, folder / "out")
"""

LARGE, LARGE_ALLOWED = 1_100_000_000, 800_000_000
"""Bytes of the weights of a decoder, and those that its conversion and its proof may allocate."""
SIZE = large.Size.of(LARGE / 1e9)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model and its weights in shards: one matrix a layer, of positive numbers below 1."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "convert.py").write_text(CODE)
    (folder / "weights").mkdir()
    drawn, places = np.random.default_rng(5), {}
    for layer in range(LAYERS):
        name, file = f"layers.{layer}.weight", f"model-{layer}.safetensors"
        entry = {"dtype": "BF16", "shape": [WIDTH, WIDTH], "data_offsets": [0, 2 * WIDTH * WIDTH]}
        head = json.dumps({name: entry}).encode()
        with (folder / "weights" / file).open("wb") as out:
            out.write(struct.pack("<Q", len(head)) + head)
            out.write(drawn.integers(0, 0x3F80, WIDTH * WIDTH, np.uint16).data)
        places[name] = file
    (folder / "weights" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):  # sooner than pytest would
        path.unlink() if path.is_file() else path.rmdir()


def own_memory(process: int) -> int:
    """Bytes of a process that are no pages of files, which the system takes back when it needs memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) * 1024


def assert_sampled(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare the bits of some rows, the first and the last of them too."""
    assert found.shape == expected.shape
    rows = [0, WIDTH - 1, *np.random.default_rng(1).integers(0, WIDTH, 20)]
    np.testing.assert_array_equal(found[rows].view(np.uint16), expected[rows].view(np.uint16))


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory is read from /proc")
def test_weights_are_written_in_less_memory_than_they_are(source: Path) -> None:
    """The process is killed when it uses more than it may."""
    command = [sys.executable, str(source / "convert.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(4)] == [*PROVED, "begins"]
        base, most = own_memory(process.pid), 0
        process.stdin.write("\n")
        process.stdin.flush()
        written, said = threading.Event(), list[str]()

        def listen() -> None:
            assert process.stdout is not None
            said.append(process.stdout.readline())
            written.set()

        threading.Thread(target=listen, daemon=True).start()
        while not written.is_set():
            with suppress(OSError):
                most = max(most, own_memory(process.pid) - base)
            if most > ALLOWED:
                process.kill()
            time.sleep(0.002)
        process.stdin.write("\n")
        process.stdin.flush()
        proofs = [line.strip() for line in process.stdout]
    assert most <= ALLOWED, f"used {most / 1e6:.0f} MB above its libraries"
    assert (said, process.returncode) == (["written\n"], 0)
    assert proofs == PROVED
    values = read_checkpoint(source / "weights")
    assert sum(data.nbytes for data in values.values()) > 2 * ALLOWED

    out = source / "out"
    assert len([*out.glob("net.onnx-*-of-00003.data")]) == 3
    onnx.checker.check_model(str(out / "net.onnx"))
    stored = onnx.load(out / "net.onnx", load_external_data=False).graph.initializer
    assert sorted(t.name for t in stored) == sorted(values)
    for tensor in stored:
        where = {entry.key: entry.value for entry in tensor.external_data}
        offset, dims = int(where["offset"]), tuple(tensor.dims)
        turned = np.memmap(out / where["location"], np.uint16, "r", offset, dims)
        assert_sampled(np.asarray(turned).T, values[tensor.name].numpy())

    for target in ("mindspore", "torch"):
        assert len([*(out / target).glob("model-*-of-00003.safetensors")]) == 3
        found = read_checkpoint(out / target)
        assert sorted(found) == sorted(values)
        for name, data in found.items():
            assert_sampled(data.numpy(), values[name].numpy())


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Weights of a Llama-like decoder, in bfloat16."""
    folder = tmp_path_factory.mktemp("decoder") / "weights"
    assert large.make_weights(SIZE, folder) > LARGE
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.xdist_group("larger_than_memory")
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts private memory on Linux alone")
@pytest.mark.parametrize("to", large.TARGETS)
def test_1100_mb_are_converted_and_proved_in_800_mb(decoder: Path, to: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    target = tmp_path / "out" / "llama.onnx" if to == "onnx" else tmp_path / "out"
    command = [*large.rewriting(SIZE, decoder, to, target), "--stream"]
    with said.open("w") as file:
        large.run(command, LARGE_ALLOWED, file)
    first, *_ = said.read_text().splitlines()
    count = 3 + 12 * SIZE.layers  # the model, its embedding, norm and head, and those of each layer
    wide = "" if to == "torch" else " in float32"  # of which alone the others have kernels
    assert first.startswith(f"equal{wide}: 3 outputs and ")
    assert f" {count} of {count} module calls compared" in first
    written = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    shutil.rmtree(tmp_path / "out")
    assert written > LARGE
