"""Faults in an emitted MindSpore folder: in ``model.py``, and in its checkpoint."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .mutants import Mutant, NotApplicableError
from .syntax_faults import functions_of, root_of, sites
from .values import exchanges, weight_faults


def mindspore_mutants(folder: Path) -> Iterator[Mutant]:
    """Every fault that can be planted in the source and in the checkpoint."""
    source = (folder / "model.py").read_text()
    for number, (kind, place, _, train) in enumerate(sites(ast.parse(source))):
        yield Mutant(kind, place, _rewritten(folder, source, number), train)
    checkpoint = folder / "model.ckpt"
    if checkpoint.exists() and checkpoint.stat().st_size:
        yield from _weights(folder, checkpoint)
        yield from _untied(folder, source, checkpoint)


def _rewritten(folder: Path, source: str, number: int) -> Callable[[Path], Path]:
    def build(scratch: Path) -> Path:
        tree = ast.parse(source)
        for at, (_, _, change, _) in enumerate(sites(tree)):
            if at == number:
                change()
                break
        new = _copied(folder, scratch)
        (new / "model.py").write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        return new

    return build


def _copied(folder: Path, scratch: Path) -> Path:
    new = scratch / "mutant"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(folder, new, ignore=shutil.ignore_patterns("__pycache__"))
    return new


def _weights(folder: Path, checkpoint: Path) -> Iterator[Mutant]:
    import mindspore as ms

    stored = {name: value.asnumpy() for name, value in ms.load_checkpoint(str(checkpoint)).items()}

    def mutant(kind: str, place: str, changed: dict[str, np.ndarray]) -> Mutant:
        def build(scratch: Path) -> Path:
            new = _copied(folder, scratch)
            arrays = {**stored, **changed}
            rows = [{"name": n, "data": ms.Tensor(np.ascontiguousarray(a))} for n, a in arrays.items()]
            ms.save_checkpoint(rows, str(new / "model.ckpt"))
            return new

        return Mutant(kind, place, build)

    for name, array in stored.items():
        for kind, change in weight_faults(name, array):
            yield mutant(kind, name, {name: change(array)})
        if array.dtype.kind == "i" and array.size:
            new = array.copy()
            new.flat[0] += 1
            yield mutant("integer constant + 1", name, {name: new})
    for kind, first, second in exchanges(stored):
        yield mutant(kind, f"{first}, {second}", {first: stored[second], second: stored[first]})


def _untied(folder: Path, source: str, checkpoint: Path) -> Iterator[Mutant]:
    """``self.head.weight = self.embedding.weight`` of the root left out: two parameters of equal values."""
    tree = ast.parse(source)
    root, _ = root_of(tree)
    lines = [s for scope, f in functions_of(tree) if scope == f"{root}.__init__" for s in f.body]
    for statement in lines:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute)):
            continue
        copied, kept = (ast.unparse(n).removeprefix("self.") for n in (statement.targets[0], statement.value))

        def build(
            scratch: Path, line: str = ast.unparse(statement), copied: str = copied, kept: str = kept
        ) -> Path:
            import mindspore as ms

            new = _copied(folder, scratch)
            text = "\n".join(t for t in ast.unparse(ast.parse(source)).splitlines() if t.strip() != line)
            (new / "model.py").write_text(text + "\n")
            stored = {n: v.asnumpy() for n, v in ms.load_checkpoint(str(checkpoint)).items()}
            if kept not in stored:
                raise NotApplicableError
            rows = [{"name": n, "data": ms.Tensor(a)} for n, a in {**stored, copied: stored[kept]}.items()]
            ms.save_checkpoint(rows, str(new / "model.ckpt"))
            return new

        yield Mutant("tied weight untied", f"{copied} and {kept}", build)
