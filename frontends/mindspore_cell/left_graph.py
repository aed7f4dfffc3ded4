"""Finds the places where a construct leaves MindSpore for NumPy or Python, which a graph cannot hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...ir.outside.own_folders import temporary_folder
from ..class_source import class_source

_STEP = re.compile(r'= PyExecute\((".*?"),')
_LINE = re.compile(r"# In file (\S+?\.py):(\d+)(?:~\d+)?, \d+~\d+/(.*)/$")
_ADVICE = (
    (r"asnumpy|\bnp\.|numpy", "NumPy leaves the graph: use `ops`, or call it outside of the Cell"),
    (r"\b(max|min|abs|round|math\.\w+)\(", "use its twin in `ops` on tensors, as `ops.maximum`"),
    (r"\bNone\b", "give every branch a tensor, and choose with a Python value whether there is one"),
    (r"\bprint\(|f[\"']", "give `print` the tensor itself, not a text made of it"),
    (r"\{.*:", "return a tuple"),
    (r"\bTensor\(", "make a tensor of a tensor with `ops.stack` or `astype`"),
)
"""Text in a line that only Python can run -> advice."""


def steps_in_python(compile_: Callable[[], object], is_users: Callable[[str], bool]) -> tuple[list[str], str]:
    """Return the lines of the user's that compile to calls of Python, and what to write instead.

    MindSpore refuses such a graph without a line; the lines are in what it writes down while it compiles.

    Args:
        compile_: compiles the net once more.
        is_users: whether a source file is the user's.
    """
    import mindspore
    from mindspore import context
    from mindspore._c_expression import ms_ctx_param

    before = [mindspore.get_context(n) for n in ("save_graphs", "save_graphs_path")]
    folder = temporary_folder()
    try:
        mindspore.set_context(save_graphs=1, save_graphs_path=str(folder.path))
        with suppress(Exception):  # the refusal that is already known
            compile_()
        written = sorted(folder.path.rglob("*.ir"), key=lambda path: path.stem.rpartition("_")[2])
        texts = (path.read_text("utf-8", "replace") for path in written)
        return _steps(next((t for t in texts if _STEP.search(t)), ""), is_users)
    finally:
        mindspore.set_context(save_graphs=before[0])
        # `set_context` would make the folder, and the path absolute
        context._context().set_param(ms_ctx_param.save_graphs_path, before[1])
        folder.remove()


def _steps(text: str, is_users: Callable[[str], bool]) -> tuple[list[str], str]:
    """Return the lines behind each Python call in a listing, mere readers of results last."""
    first: dict[str, str] = {}
    later: dict[str, str] = {}
    chosen: dict[str, str] | None = None
    line: tuple[str, str] | None = None
    for each in [*text.splitlines(), "  %"]:
        found = _LINE.search(each)
        if found is not None and is_users(found[1]) and not found[3].lstrip().startswith("def "):
            line = (f"{Path(found[1]).name}:{found[2]}", found[3])
        elif each.startswith("  %"):
            if chosen is not None and line is not None:
                chosen.setdefault(*line)
            step = _STEP.search(each)
            chosen = None if step is None else later if "__input_key_" in step[1] else first
            line = None
    lines = {**first, **{k: v for k, v in later.items() if k not in first}}
    advice = (hint for source in lines.values() for pattern, hint in _ADVICE if re.search(pattern, source))
    return list(lines)[:3], next(advice, "use `ops` on tensors, or compute it outside of the Cell")


def lines_to_numpy(cls: Any) -> list[str]:
    """Return file and line of every ``.asnumpy()`` in a class's construct or functions called there."""
    for each in cls.__mro__:
        found = class_source(each) if "construct" in vars(each) else None
        if found is not None:
            functions = {n.name: n for n in ast.walk(found.tree) if isinstance(n, ast.FunctionDef)}
            return [f"{found.file}:{line}" for line in _lines(functions, "construct", set())]
    return []


def _lines(functions: dict[str, ast.FunctionDef], name: str, seen: set[str]) -> list[int]:
    """Return lines in a function of a class, and in those of the same class that it calls."""
    seen.add(name)
    lines: list[int] = []
    for node in ast.walk(functions[name]) if name in functions else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "asnumpy":
            lines.append(node.func.end_lineno or node.lineno)
        elif isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
            lines += [] if node.func.attr in seen else _lines(functions, node.func.attr, seen)
    return list(dict.fromkeys(lines))
