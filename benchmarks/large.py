"""Converts and proves a Llama-like decoder larger than the memory it may use, beside a copy of its files.

    python benchmarks/large.py --gigabytes 30 --held 4 [--to onnx --to torch] [--folder FOLDER]

The weights are made at random in bfloat16, on disk in shards. Each command is held to its memory by
``RLIMIT_DATA``, which counts all that is private to a process and none of the files that it maps. Everything
is deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

MODEL = Path(__file__).with_name("llama.py")
SHARD = 5_000_000_000
"""Bytes of a file of weights."""

VOCABULARY = 32_000

TARGETS = ("onnx", "mindspore", "torch")


@dataclass(frozen=True, slots=True)
class Size:
    """Widths and number of layers of a decoder."""

    width: int
    inner: int
    layers: int

    @staticmethod
    def of(gigabytes: float) -> Size:
        """Return sizes of at least so many bytes of weights, in units of 1e9."""
        width = 5120 if gigabytes > 10 else 2048 if gigabytes > 0.5 else 512
        inner = width * 27 // 10 // 128 * 128
        layer = 2 * (4 * width * width + 3 * width * inner)
        rest = gigabytes * 1e9 - 4 * VOCABULARY * width
        return Size(width, inner, max(1, -int(-rest // layer)))

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Return names and shapes, in the order of their use."""
        width, inner = self.width, self.inner
        yield "embed_tokens.weight", (VOCABULARY, width)
        for layer in range(self.layers):
            at = f"layers.{layer}"
            yield f"{at}.input_layernorm.weight", (width,)
            for name in "qkvo":
                yield f"{at}.self_attn.{name}_proj.weight", (width, width)
            yield f"{at}.post_attention_layernorm.weight", (width,)
            for name in ("gate", "up"):
                yield f"{at}.mlp.{name}_proj.weight", (inner, width)
            yield f"{at}.mlp.down_proj.weight", (width, inner)
        yield "norm.weight", (width,)
        yield "lm_head.weight", (VOCABULARY, width)


def make_weights(size: Size, folder: Path, shard: int = SHARD) -> int:
    """Write random weights in shards with their index; return their bytes.

    Matrices have magnitudes of 1/128 to 1/32 and either sign, so that values neither vanish nor grow through
    the layers; the weights of normalisations are 1 to 2.
    """
    files, held = [list[tuple[str, tuple[int, ...]]]()], 0
    for name, shape in size.tensors():
        nbytes = 2 * int(np.prod(shape))
        if held and held + nbytes > shard:
            files.append([])
            held = 0
        files[-1].append((name, shape))
        held += nbytes
    folder.mkdir(parents=True)
    random, places, total = np.random.default_rng(18), dict[str, str](), 0
    for number, tensors in enumerate(files, 1):
        path = folder / f"model-{number:05}-of-{len(files):05}.safetensors"
        head, end = dict[str, object](), 0
        for name, shape in tensors:
            start, end = end, end + 2 * int(np.prod(shape))
            head[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
            places[name] = path.name
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for _, shape in tensors:
                kept, added = (0x80FF, 0x3C00) if len(shape) > 1 else (0x7F, 0x3F80)
                left = int(np.prod(shape))
                while left:
                    bits = np.frombuffer(random.bytes(2 * min(left, 1 << 23)), np.uint16)
                    out.write(((bits & np.uint16(kept)) | np.uint16(added)).data)
                    left -= len(bits)
        total += end
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: seconds of the clock and of the processor, and bytes of private memory at most."""

    clock: float
    user: float
    system: float
    private: int

    @property
    def cpu(self) -> float:
        """Seconds of the processor."""
        return self.user + self.system


def run(command: Sequence[str], held: int | None = None, out: IO[str] | None = None) -> Cost:
    """Run a command, held to so many bytes of private memory; its standard output goes to `out`.

    Raises:
        SystemExit: when it fails.
    """

    def hold() -> None:
        if held is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (held, held))

    start, before, most = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN), 0
    with subprocess.Popen(command, preexec_fn=hold, stdout=out) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                lines = [line.split() for line in status.read_text().splitlines()]
                most = max([most, *(int(line[1]) * 1024 for line in lines if line[0] == "RssAnon:")])
            except OSError:
                break
            time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    cpu = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Cost(time.monotonic() - start, *cpu, most)


def main() -> None:
    """Print a table of what each step takes, and its ratio to the copy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=3, help="weights, in units of 1e9 bytes")
    parser.add_argument("--held", type=float, default=1, help="private memory, in units of 1e9 bytes")
    parser.add_argument("--to", action="append", choices=TARGETS, help="default: each")
    parser.add_argument("--apart", action="store_true", help="verify by a command of its own")
    parser.add_argument("--folder", type=Path, help="where there is room; default: the system's")
    options = parser.parse_args()
    size, held = Size.of(options.gigabytes), int(options.held * 1e9)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        needed, free = int(2.1e9 * options.gigabytes), shutil.disk_usage(folder).free
        if free < needed:
            raise SystemExit(
                f"expected {needed / 1e9:.0f} GB free for the model and a copy, got {free / 1e9:.0f}"
            )
        measure(size, held, options.to or TARGETS, Path(folder), apart=options.apart)


def measure(size: Size, held: int, targets: Sequence[str], folder: Path, *, apart: bool = False) -> None:
    """Make, copy, convert and prove in a folder."""
    weights, out = folder / "weights", folder / "out"
    total = make_weights(size, weights)
    print(f"{total / 1e9:.2f} GB of weights: {size}", flush=True)
    copied = run(["cp", "-r", str(weights), str(out)])
    report("copy", copied, copied)
    shutil.rmtree(out)
    on_disk = run(["sh", "-c", 'cp -r "$1" "$2" && sync "$2"/*', "copy", str(weights), str(out)])
    report("copy, on the disk", on_disk, copied)  # as what regraft writes is
    shutil.rmtree(out)
    for to in targets:
        target = out / "llama.onnx" if to == "onnx" else out
        command = [*rewriting(size, weights, to, target), "--max-shard-size", str(SHARD)]
        report(f"to {to}", run([*command, "--no-verify"], held), copied)
        if apart:
            report("verified alone", run(verifying(size, weights, target), held), copied)
        shutil.rmtree(out)
        if not apart:
            report("and verified", run([*command, "--stream"], held), copied)
            shutil.rmtree(out)


def rewriting(size: Size, weights: Path, to: str, target: Path) -> list[str]:
    """Return the command that rewrites a decoder of a size for a target."""
    return [*_PYTHON, "rewrite", f"{MODEL}:Llama", *_options(size, weights), "--to", to, "-o", str(target)]


def verifying(size: Size, weights: Path, target: Path) -> list[str]:
    """Return the command that verifies what was written of it, in pieces."""
    return [*_PYTHON, "verify", f"{MODEL}:Llama", str(target), *_options(size, weights), "--stream"]


_PYTHON = [sys.executable, "-m", "regraft"]


def _options(size: Size, weights: Path) -> list[str]:
    sizes = [f"--arg={name}={getattr(size, name)}" for name in ("width", "inner", "layers")]
    return ["--meta", "--params", str(weights), "--input", "ids=1x8:int64[0,32000)", *sizes]


def report(name: str, cost: Cost, copied: Cost) -> None:
    """Print one line of the table."""
    print(
        f"{name:18} clock {cost.clock:7.1f} s {cost.clock / copied.clock:6.2f} x"
        f"   cpu {cost.cpu:7.1f} s {cost.cpu / copied.cpu:6.2f} x (system {cost.system:.1f} s)"
        f"   private {cost.private / 1e6:6.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
