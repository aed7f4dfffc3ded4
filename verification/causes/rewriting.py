"""Writes a call in the user's method otherwise, as source code for the place where it stands."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from ...frontends.constructions import call_at, construction_of
from ..two_nets.attributes import Rewrite
from ..two_nets.remedies import Arguments
from .calls import given_to
from .hosts import Host
from .tape import Record, Site


def arguments_in(write: str) -> Arguments:
    """Return the arguments that a remedy says, ``axis=1, p=2``; none for any other remedy.

    Example:
        >>> arguments_in('axis=1, mode="same"')
        (('axis', '1'), ('mode', "'same'"))
        >>> arguments_in("no `relu`")
        ()
    """
    call = _parsed(f"f({write})")
    if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
        return ()
    return tuple((str(k.arg), ast.unparse(k.value)) for k in call.keywords)


def rewritten(record: Record, write: str, host: Host) -> Rewrite | None:
    """Return how a call is to be written where it stands; None where a remedy is none of one expression.

    Args:
        record: the target's call.
        write: the remedy.
        host: the target's framework.
    """
    site = record.site
    if not any(site.span):
        return None
    arguments = arguments_in(write)
    if arguments and not site.is_operator:
        given = given_to(record, host)
        names = [] if given is None else list(given.values)
        receiver = 1 if record.kind == "method" else 0
        places = tuple(names.index(n) - receiver if n in names else -1 for n, _ in arguments)
        return Rewrite(site.file, site.span, arguments, places)
    text = _expression(site, write)
    return Rewrite(site.file, site.span, text=text) if text else None


def _expression(site: Site, write: str) -> str:
    """The expression that a remedy says for one that stands in a file; empty where it says another thing."""
    segment = text_at(site.file, site.span)
    node = _parsed(segment)
    if node is None:
        return ""
    if found := re.fullmatch(r"no `[^`]*`", write):
        return site.operands[0] if site.operands else ""
    call = _parsed(write)
    if isinstance(node, ast.Call) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        is_same = isinstance(node.func, ast.Attribute) and node.func.attr == call.func.id
        return ast.unparse(ast.Call(node.func, call.args, call.keywords)) if is_same else ""
    if write == "the operands exchanged":
        return _exchanged(node)
    if found := re.fullmatch(r"`[^`]*` \* (\S+)", write):
        return f"{segment if isinstance(node, ast.Call) else f'({segment})'} * {found[1]}"
    if write.startswith("[") and isinstance(node, ast.Subscript):
        return f"{ast.unparse(node.value)}{write}"
    found = re.fullmatch(r"`([^`]+)` in place of `([^`]+)`", write) or re.fullmatch(
        r"(.+) in place of (\S+)", write
    )
    return "" if found is None else _replaced(node, segment, site, found[1], found[2])


def _replaced(node: ast.expr, segment: str, site: Site, new: str, old: str) -> str:
    """An expression with a part of it written otherwise: its function, its sign, an operand, or all of it."""
    if isinstance(node, ast.Call) and old == site.text and segment.startswith(old):
        return f"{new}{segment[len(old) :]}"
    if old in (segment, site.expression):
        return new
    signs = _parsed(f"a {new} b")
    if isinstance(node, ast.BinOp) and isinstance(signs, ast.BinOp) and old == site.text:
        return ast.unparse(ast.BinOp(node.left, signs.op, node.right))
    if isinstance(node, ast.Compare) and isinstance(signs, ast.Compare) and old == site.text:
        return ast.unparse(ast.Compare(node.left, signs.ops, node.comparators))
    part = _parsed(new)
    if part is None:
        return ""

    class Operand(ast.NodeTransformer):
        done = False

        def visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, ast.expr) and ast.unparse(node) == old and not self.done:
                self.done = True
                return part
            return self.generic_visit(node)

    change = Operand()
    made = change.visit(node)
    return ast.unparse(made) if change.done else ""


def _exchanged(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        return ast.unparse(ast.BinOp(node.right, node.op, node.left))
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return ast.unparse(ast.Call(node.func, node.args[::-1], node.keywords))
    return ""


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def text_at(file: str, span: tuple[int, int, int, int]) -> str:
    """Return what stands in a file; empty where it cannot be read."""
    first, begin, last, end = span
    try:
        lines = Path(file).read_bytes().splitlines(keepends=True)[first - 1 : last]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][begin:]
        return b"".join(lines).decode()
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def constructed_as(part: Any, class_name: str, arguments: str) -> Rewrite | None:
    """Return how the call that constructs a layer is written for another class of the same module.

    Args:
        part: the layer.
        class_name: the other class.
        arguments: its arguments as source code.
    """
    made = construction_of(part)
    if made is None or call_at(made, type(part).__name__) is None:
        return None
    span = (made.line, made.column, made.end_line, made.end_column)
    holder = text_at(made.file, span).partition("(")[0].rpartition(".")[0]
    return Rewrite(made.file, span, text=f"{holder}.{class_name}({arguments})") if holder else None
