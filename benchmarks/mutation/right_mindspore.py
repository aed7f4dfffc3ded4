"""Other ways to write the same emitted folder."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

_IMPORT = "import mindspore as ms\n"
"""After it `ops` is imported too, which a rewrite may be the first to need."""


def mindspore_rewrites(folder: Path) -> Iterator[tuple[str, Callable[[Path], Path]]]:
    """(what is done, what does it in an empty folder) of every rewrite that keeps the meaning."""
    source = (folder / "model.py").read_text()
    changes: list[tuple[str, ast.NodeTransformer]] = [
        ("formatted by ast", ast.NodeTransformer()),
        ("keywords reversed", _Keywords()),
        ("ReLU as a maximum", _Relu()),
        ("sums and products of dense layers written out", _Dense()),
        ("variables renamed", _Variables()),
        ("commutative operands swapped", _Commuted()),
    ]
    for name, transformer in changes:
        tree = ast.fix_missing_locations(transformer.visit(ast.parse(source)))
        text = ast.unparse(tree) + "\n"
        if name == "formatted by ast" or text != ast.unparse(ast.parse(source)) + "\n":
            yield name, lambda scratch, text=text: _with_source(folder, scratch, text)
    checkpoint = folder / "model.ckpt"
    if checkpoint.exists() and checkpoint.stat().st_size:
        yield "checkpoint in another order", lambda scratch: _reordered(folder, scratch)


def _with_source(folder: Path, scratch: Path, text: str) -> Path:
    new = _copied(folder, scratch)
    (new / "model.py").write_text(text.replace(_IMPORT, f"{_IMPORT}from mindspore import ops\n"))
    return new


def _reordered(folder: Path, scratch: Path) -> Path:
    import mindspore as ms

    new = _copied(folder, scratch)
    stored = ms.load_checkpoint(str(folder / "model.ckpt"))
    rows = [{"name": n, "data": ms.Tensor(np.array(v.asnumpy()))} for n, v in reversed(list(stored.items()))]
    ms.save_checkpoint(rows, str(new / "model.ckpt"))
    return new


def _copied(folder: Path, scratch: Path) -> Path:
    new = scratch / "right-copy"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(folder, new, ignore=shutil.ignore_patterns("__pycache__"))
    return new


class _Keywords(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func).startswith("nn.") and all(k.arg for k in node.keywords):
            node.keywords.reverse()
        return node


class _Relu(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) == "ops.relu":
            return ast.parse(f"ops.maximum({ast.unparse(node.args[0])}, 0.0)", mode="eval").body
        return node


class _Dense(ast.NodeTransformer):
    """``self.fc(x)`` of a layer that the same class makes as ``nn.Dense`` with bias."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        made = [n for n in ast.walk(node) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        self._layers = {
            ast.unparse(n.targets[0])
            for n in made
            if ast.unparse(n.value).startswith("nn.Dense(") and "has_bias=True" in ast.unparse(n.value)
        }
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in getattr(self, "_layers", ()) and len(node.args) == 1:
            text = f"ops.matmul({ast.unparse(node.args[0])}, {name}.weight.swapaxes(0, 1)) + {name}.bias"
            return ast.parse(f"({text})", mode="eval").body
        return node


class _Variables(ast.NodeTransformer):
    """Local variables of ``construct`` that are not its parameters get other names."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name == "construct":
            given = {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
            made = {
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            } - given
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and name.id in made:
                    name.id = f"{name.id}_renamed"
        return node


class _Commuted(ast.NodeTransformer):
    """``a + b`` as ``b + a`` in ``construct``, where both are no literals, lists or strings."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name == "construct":
            for found in ast.walk(node):
                plain = isinstance(found, ast.BinOp) and isinstance(found.op, ast.Mult)
                if plain and not any(
                    isinstance(s, (ast.List, ast.Tuple, ast.Constant)) for s in (found.left, found.right)
                ):
                    found.left, found.right = found.right, found.left
        return node
