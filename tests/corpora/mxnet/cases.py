"""Symbols with what MXNet 1.9.1 computed for them in inference; parameters are made again from seeds, not stored."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent
WHOLE = 2048  # outputs of up to so many values are stored whole
SAMPLE = 1000  # of larger ones the first so many, and so many with a stride
FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}


@dataclass(frozen=True)
class Case:
    """One symbol: `group` is models, legacy or ops; `record` is its entry in ``<group>.json``."""

    group: str
    record: dict

    @property
    def id(self) -> str:
        return self.record["id"]

    @property
    def name(self) -> str:
        return self.id.split("/")[-1]

    def symbol(self) -> dict:
        if "symbol" in self.record:
            return self.record["symbol"]
        return json.loads((ROOT / self.group / f"{self.name}-symbol.json").read_text(encoding="utf-8"))

    def stored(self, key: str) -> np.ndarray:
        return arrays(self.group)[f"{self.id}/{key}"]

    def inputs(self) -> dict[str, np.ndarray]:
        return {i["name"]: self._input(i) for i in self.record["inputs"]}

    def _input(self, spec: dict) -> np.ndarray:
        if spec.get("stored"):
            return self.stored(f"in/{spec['name']}")
        name, shape, (low, high) = spec["name"], tuple(spec["shape"]), (spec["low"], spec["high"])
        out = uniform(self.record["seed"], f"input:{name}", shape, low, high)
        if spec["gen"] == "int":
            out = np.floor(out)
        elif spec["gen"] == "image":  # half noise, half patches: plain noise would average out in a deep net
            rows, columns = (shape[2] + 15) // 16, (shape[3] + 15) // 16
            patch = uniform(self.record["seed"], f"patch:{name}", (*shape[:2], rows, columns), low, high)
            patch = patch.repeat(16, axis=2).repeat(16, axis=3)
            out = 0.5 * out + 0.5 * patch[:, :, : shape[2], : shape[3]]
        return out.astype(spec["dtype"])

    def params(self) -> dict[str, np.ndarray]:
        """By name with its prefix, ``arg:`` or ``aux:``."""
        return {f"{'aux' if p.get('aux') else 'arg'}:{p['name']}": self._param(p) for p in self.record["params"]}

    def _param(self, spec: dict) -> np.ndarray:
        if spec.get("stored"):
            return self.stored(f"param/{spec['name']}")
        name, shape, gain = spec["name"], tuple(spec["shape"]), self.record.get("gain", 1.0)
        end = name.lower()
        if end.endswith("var"):
            low, high = 0.5, 1.5
        elif end.endswith("gamma"):
            low, high = 0.8, 1.2
        elif end.endswith(("mean", "beta", "bias")):
            low, high = -0.1, 0.1
        elif len(shape) < 2:
            low, high = -0.3 * gain, 0.3 * gain
        else:
            high = gain * math.sqrt(6.0 / max(math.prod(shape[1:]), 1))
            low = -high
        return uniform(self.record["seed"], name, shape, low, high).astype(spec["dtype"])

    def write(self, folder: Path) -> Path:
        """Write the files as MXNet would; returns the symbol's path."""
        path = folder / f"{self.name}-symbol.json"
        path.write_text(json.dumps(self.symbol()), encoding="utf-8")
        save_params(folder / f"{self.name}-0000.params", self.params())
        return path

    def checksum(self) -> str:
        """sha256 of the parameters and inputs, to compare with the record's."""
        named = {f"param/{k.partition(':')[2]}": v for k, v in self.params().items()}
        named |= {f"in/{k}": v for k, v in self.inputs().items()}
        digest = hashlib.sha256()
        for name in sorted(named):
            array = np.ascontiguousarray(named[name])
            digest.update(f"{name}|{array.dtype.name}|{np.shape(named[name])}|".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def check(self, got: list[np.ndarray]) -> None:
        """Assert that outputs are MXNet's, within the tolerance recorded with them."""
        assert len(got) == len(self.record["outputs"])
        for number, (array, spec) in enumerate(zip(got, self.record["outputs"], strict=True)):
            assert list(array.shape) == list(spec["shape"]), f"output {number}"
            if self.record.get("compare") == "shape" or spec.get("undefined"):
                continue
            want, size = self.stored(f"out/{number}").ravel(), array.size
            assert array.dtype == want.dtype, f"output {number}"
            at = np.arange(size)
            if size > WHOLE:
                at = np.concatenate([np.arange(SAMPLE), np.arange(SAMPLE) * (size // SAMPLE)])
            mine = array.ravel()[at]
            if want.dtype.kind == "f":
                rtol, atol = self.record.get("rtol", 1e-4), self.record.get("atol", 1e-5)
                np.testing.assert_allclose(mine.astype("f8"), want.astype("f8"), rtol, atol)
            else:
                np.testing.assert_array_equal(mine, want)


def uniform(seed: int, name: str, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    """Uniform numbers from a stream that NumPy never changes."""
    state = np.random.RandomState(zlib.crc32(f"{seed}:{name}".encode()))
    return state.random_sample(shape) * (high - low) + low


def save_params(path: Path, named: dict[str, np.ndarray]) -> None:
    """A ``.params`` file as MXNet 1.9.1 writes it."""
    out = [struct.pack("<QQQ", 0x112, 0, len(named))]
    for array in named.values():
        out.append(struct.pack("<Ii", 0xF993FAC9 if array.ndim else 0xF993FACA, 0))
        out.append(struct.pack(f"<i{array.ndim}q", array.ndim, *array.shape))
        out.append(struct.pack("<iii", 1, 0, FLAGS[array.dtype.name]))
        out.append(np.ascontiguousarray(array).tobytes())
    out.append(struct.pack("<Q", len(named)))
    for name in named:
        out.append(struct.pack("<Q", len(name.encode())) + name.encode())
    path.write_bytes(b"".join(out))


@lru_cache(maxsize=None)
def arrays(group: str) -> dict[str, np.ndarray]:
    with np.load(ROOT / f"{group}.npz") as file:
        return dict(file)


@lru_cache(maxsize=None)
def cases(group: str) -> dict[str, Case]:
    """The cases of a group by id."""
    records = json.loads((ROOT / f"{group}.json").read_text(encoding="utf-8"))
    return {r["id"]: Case(group, r) for r in records}
