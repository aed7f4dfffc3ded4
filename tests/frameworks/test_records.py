"""The records of layers against the frameworks' own classes; and no other file states what they state."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from regraft.frameworks import MINDSPORE, TORCH
from regraft.frameworks.record import Framework

ROOT = Path(__file__).resolve().parents[2]


def signature(cls: type) -> dict[str, Any]:
    """Keyword -> default of the constructor of a class, of the first one that lists its arguments."""
    for base in cls.__mro__:
        found = (
            inspect.signature(inspect.unwrap(vars(base)["__init__"])) if "__init__" in vars(base) else None
        )
        if found is not None and not any(p.kind == p.VAR_POSITIONAL for p in found.parameters.values()):
            return {p.name: p.default for p in found.parameters.values()}
    raise AssertionError(cls)


def wrong(records: Framework, library: Any) -> list[str]:
    """Arguments of layers that a framework's classes lack, or have with another default."""
    found = []
    for layer in records.layers.values():
        if not hasattr(library, layer.name) or not layer.defaults:
            continue
        taken = signature(getattr(library, layer.name))
        for keyword, default in layer.defaults.items():
            if (layer.name, keyword) == ("RNN", "nonlinearity"):
                continue  # taken out of its keywords
            own = taken.get(keyword, "nothing")
            if own != default and not (default is ... and own is inspect.Parameter.empty):
                found.append(f"{layer.name}({keyword}={default}): {own}")
    return found


def test_torch() -> None:
    from torch import nn

    assert wrong(TORCH, nn) == []
    assert all(hasattr(nn, name) for name in TORCH.layers.keys() - {"NonDynamicallyQuantizableLinear"})


def test_mindspore() -> None:
    from mindspore import nn

    assert wrong(MINDSPORE, nn) == []
    assert all(hasattr(nn, name) for name in MINDSPORE.layers.keys() - {"RMSNorm", "InstanceNorm3d"})


TEXTS = ("frontends/differences/", "api/explanations/")
"""Folders whose strings are code that tests run, and answers that users read."""
OTHERS = {
    "has_bias": {  # the IR's own; a live Cell's; a primitive's
        "ir/composites/recurrent.py",
        "backends/torch_source/lowering/restore_recurrent.py",
        "diagnosis/porting/layers.py",
        "frontends/mindspore_cell/operators/recurrent.py",
    },
    "eps=1e-": {"backends/torch_source/training/optimizers.py"},  # an optimizer's
    r"momentum=0\.9": {"verification/certificate/recheck.py"},  # ONNX's own default
    "HeUniform": {"backends/mindspore_source/recorded_names.py"},  # of what a file must not call its own
    "negative_slope": {"frontends/torch_module/operators/activation.py", "frontends/function_arguments.py"},
}
"""Keyword of a layer, or pattern of a number -> files that mean another thing by it."""


def code_of(path: Path) -> tuple[str, set[str]]:
    """A file without its comments and docstrings, and the strings in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            texts = [
                each for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            ]
            node.body = [each for each in body if each not in texts] or [ast.Pass()]
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return ast.unparse(tree), strings


def test_no_other_file_states_them() -> None:
    """What a layer's argument is called, its default, and what its parameters are drawn from."""
    words = {s.argument for layer in MINDSPORE.layers.values() for s in layer.states} - {
        "",
        "embedding_table",
    }
    assert {"weight_init", "bias_init", "gamma_init", "moving_var_init"} <= words
    words |= {"has_bias", "negative_slope", "elementwise_affine", "init_tensor"}
    numbers = (r"sqrt\(5\)", "HeUniform", r"XavierUniform\(", r"0\.07(?!\d)", "eps=1e-", r"momentum=0\.9")
    found: dict[str, set[str]] = {}
    for part in ("ir", "frontends", "passes", "backends", "checkpoints", "verification", "diagnosis", "api"):
        for path in (ROOT / part).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            text, strings = ("", set[str]()) if name.startswith(TEXTS) else code_of(path)
            for word in (words & strings) | {number for number in numbers if re.search(number, text)}:
                found.setdefault(word, set()).add(name)
    others = {word: files - OTHERS.get(word, set()) for word, files in found.items()}
    assert {word: files for word, files in others.items() if files} == {}
