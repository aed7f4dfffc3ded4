"""Emitted source is printed from structure: nothing that makes it looks into what it printed.

Read from the syntax trees of the source backends, but for their passes, which meet no text at all.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import regraft

BACKENDS = Path(regraft.__file__).parent / "backends"
FILES = sorted(
    path
    for folder in BACKENDS.glob("*source")
    for path in folder.rglob("*.py")
    if "lowering" not in path.relative_to(BACKENDS).parts
)

NAMES = ("source/names.py", "source/text_emitters.py")
"""Where names are taken apart, the source's and the emitted file's, and the text of a user's own emitter."""

TAKE_APART = frozenset(
    ("startswith", "endswith", "removeprefix", "removesuffix", "find", "rfind", "rindex", "isidentifier")
) | frozenset(("split", "rsplit", "splitlines", "partition", "rpartition", "fullmatch", "match", "search"))
"""Methods that test what a string begins with, ends with or contains, or take it apart."""

ALLOWED = {
    ("source/borrowed_layers.py", "rpartition"): "paths of modules",
    ("source/borrowed_layers.py", "find"): "modules, by their paths",
    ("source/modules/contraction.py", "split"): "paths of modules",
    ("source/modules/module_plan.py", "removeprefix"): "paths of modules",
    ("source/regions.py", "rpartition"): "paths of modules",
    ("source/classes/shared_classes.py", "isidentifier"): "attributes, numbers in a list",
    ("source/classes/factories.py", "endswith"): "names of arguments",
    ("source/classes/factories.py", "removesuffix"): "names of arguments",
    ("source/tables.py", "split"): "names of arguments",
    ("source/writing.py", "rpartition"): "names of parameters",
    ("source/writing.py", "startswith"): "element types",
    ("mindspore_source/dialect.py", "endswith"): "names of arguments",
    ("mindspore_source/emitters/attention.py", "rpartition"): "names of parameters",
    ("mindspore_source/training/optimizers.py", "rpartition"): "names of optimizers",
    ("torch_source/training/optimizers.py", "removeprefix"): "names of optimizers",
    ("torch_source/training/optimizers.py", "rpartition"): "names of optimizers",
    ("source/training/groups.py", "partition"): "names of parameters",
    ("source/training/groups.py", "rpartition"): "names of parameters",
    ("mindspore_source/emitters/einsum.py", "partition"): "the equation of the operator",
    ("mindspore_source/emitters/einsum.py", "split"): "the equation of the operator",
    ("mindspore_source/emitters/math.py", "startswith"): "element types",
    ("mindspore_source/emitters/reduce.py", "isidentifier"): "names of sizes",
    ("mindspore_source/emitters/reduce.py", "startswith"): "element types",
    ("mindspore_source/emitters/recurrent.py", "split"): "names of the parameters of MindSpore's layers",
    ("mindspore_source/emitters/recurrent.py", "startswith"): "names of the parameters of MindSpore's layers",
    ("source/emitters/stubs.py", "split"): "the name of the source's operator",
    ("torch_source/emitters/activation.py", "startswith"): "element types",
    ("torch_source/emitters/initializers.py", "startswith"): "element types",
    ("torch_source/emitters/math.py", "endswith"): "names of functions that a row states",
    ("torch_source/emitters/math.py", "startswith"): "element types",
    ("torch_source/emitters/pool.py", "startswith"): "element types",
    ("torch_source/emitters/reduce.py", "startswith"): "element types",
    ("torch_source/emitters/resize.py", "startswith"): "element types",
    ("torch_source/emitters/shape.py", "startswith"): "element types",
    ("torch_source/templates/build_function.py", "rpartition"): "names of parameters",
}
"""(file, method) -> the strings that are no emitted text which it tests there."""


def looks_into_text(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what) of everything that asks what is inside a string, or compares it with a piece of source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name in ("re", "regex") for alias in node.names):
            yield node.lineno, "re"
        elif isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "fnmatch", "difflib"):
            yield node.lineno, node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            counts = method == "count" and node.args and is_text(node.args[0])
            if method in TAKE_APART or counts:
                yield node.lineno, method
        elif isinstance(node, ast.Compare):
            for side in [node.left, *node.comparators]:
                if is_text(side) and re.search(r"[^\w.+*/%<>=-]", side.value):
                    yield node.lineno, repr(side.value)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(BACKENDS)))
def test_nothing_looks_into_emitted_text(path: Path) -> None:
    name = str(path.relative_to(BACKENDS))
    found = [(line, what) for line, what in looks_into_text(ast.parse(path.read_text())) if name not in NAMES]
    assert [(line, what) for line, what in found if (name, what) not in ALLOWED] == []


def test_what_is_allowed_is_there() -> None:
    """An allowance that nothing needs any more would let a new test of text pass."""
    found = {
        (str(path.relative_to(BACKENDS)), what)
        for path in FILES
        for _, what in looks_into_text(ast.parse(path.read_text()))
    }
    assert set(ALLOWED) <= found


@pytest.mark.parametrize(
    "code",
    [
        "import re",
        "from re import match",
        "text.endswith(')')",
        "'nn.ReLU,nn.ELU'.split(',')",
        "text.count('(') == 1",
        "' + ' in parts",
        "part == '\"pad\"'",
        "parts[1] != ' + '",
    ],
)
def test_a_test_of_text_is_seen(code: str) -> None:
    assert list(looks_into_text(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["part.operator == '+'", "callee == 'ops.cat'", "names.count(name)", "a in b"]
)
def test_a_test_of_structure_is_none(code: str) -> None:
    assert not list(looks_into_text(ast.parse(code)))
