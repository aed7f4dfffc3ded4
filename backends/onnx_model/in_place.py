"""Weights that an ONNX model reads from the safetensors files that hold them already: nothing is copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from ...ir import Graph, TensorData, UsageError

_SUFFIX = ".safetensors"


@dataclass(slots=True)
class InPlace:
    """The weights that stay in their files, and the weights that are copied.

    Attributes:
        folder: the folder in which the model will lie; None for the folder to which it is written.
        kept: initializer's name -> the file that holds it, as the model names it.
        copied: initializer's name -> why it is written anew.
    """

    folder: Path | None = None
    kept: dict[str, str] = field(default_factory=dict[str, str])
    copied: dict[str, str] = field(default_factory=dict[str, str])

    def names(self, graph: Graph, file: Path) -> frozenset[str]:
        """Return the parameters whose elements lie in a file that the model may name."""
        home = self._home(file)
        return frozenset(p.name for p in graph.parameters() if isinstance(_find(p.data, home), tuple))

    def apply(self, model: onnx.ModelProto, weights: Mapping[str, TensorData], file: Path) -> None:
        """State the places of a model's weights in it; a weight that has to be copied gets none.

        Args:
            model: one whose initializers are external, without data.
            weights: initializer's name -> data.
            file: the model's file, as it is written.
        """
        home = self._home(file)
        self.kept.clear()
        self.copied.clear()
        tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for name, data in weights.items():
            found = _find(data, home)
            if isinstance(found, str):
                self.copied[name] = found
                continue
            location, start = found
            for key, value in (("location", location), ("offset", start), ("length", data.nbytes)):
                tensors[name].external_data.add(key=key, value=str(value))
            self.kept[name] = location

    def _home(self, file: Path) -> Path:
        return (file.parent if self.folder is None else self.folder).resolve()


def _find(data: TensorData, home: Path) -> tuple[str, int] | str:
    """Return the file below a folder, and the byte, at which a tensor lies; or why it lies in none."""
    place = data.find_place()
    if place is None:
        return "its values are computed or are the model's own"
    path, start = place
    if path.suffix != _SUFFIX:
        return f"it lies in `{path.name}`, which is no safetensors file"
    real = path.resolve()
    if (
        not real.is_relative_to(home) or real.suffix != _SUFFIX
    ):  # ONNX follows no path or link out of its folder
        return f"`{path.name}` lies outside the model's folder"
    return real.relative_to(home).as_posix(), start


@contextmanager
def lying_beside(written: Path, home: Path) -> Iterator[Path]:
    """Put a model beside the weights that it names, for the time of a with block, and return where it is.

    ONNX and its runtime read no weights by a link, so that the model cannot be compared where it is staged.

    Args:
        written: the model, elsewhere.
        home: the folder that it names weights in.

    Raises:
        UsageError: when it cannot be put there (E002).
    """
    there = home / f".regraft-{written.stem}-{os.getpid()}{written.suffix}"
    try:
        shutil.copyfile(written, there)
        yield there
    except OSError as error:
        raise UsageError("E002", f"cannot write to `{home}`: {error.strerror}") from error
    finally:
        there.unlink(missing_ok=True)
