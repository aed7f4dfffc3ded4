"""Writes a call of the source's in the target's framework, with the target's operands."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...frontends.function_arguments import KIN
from .calls import EMPTY, given_to, has_tensor, rooms
from .changes import literal
from .documented import known_as, remedies, stated
from .hosts import Host
from .instrumenting import OPERATORS
from .tape import SHORT, Record, Ref, leaves
from .values import are_close

_CLOSE = 1e-5
_LETTERS = ("x", "y", "z", "u", "v", "w")
_TENSORS = {"torch": "torch.tensor", "mindspore": "ms.Tensor"}
_WRITTEN_OUT = 8
"""Numbers of a tensor of the source's that are repeated where the target has no such tensor."""


class Operand(NamedTuple):
    """A tensor that enters a call.

    Attributes:
        text: how the user's code writes it; empty where nobody knows.
        leaf: the value in the call: a recorded one, or a tensor.
        array: its numbers.
    """

    text: str
    leaf: Any
    array: np.ndarray


@dataclass(frozen=True, slots=True)
class Writing:
    """A call of the source's as the target's framework has it.

    Attributes:
        text: source code.
        tree: the same, with a name for each value.
        is_layer: whether the code constructs a layer, which the tree calls.
        values: name -> what stands for it: a recorded value of the target's, a tensor or anything else.
        framework: the target's.
    """

    text: str
    tree: ast.expr
    is_layer: bool
    values: Mapping[str, Any]
    framework: str = "mindspore"

    @property
    def __name__(self) -> str:
        """The function that it calls last."""
        function = self.tree.func if isinstance(self.tree, ast.Call) else self.tree
        return function.attr if isinstance(function, ast.Attribute) else ""

    def __call__(self, *values: Any) -> Any:
        """Compute the call of other values, in order."""
        expression = ast.fix_missing_locations(ast.Expression(self.tree))
        names = _names(self.framework) | dict(zip(self.values, values, strict=True))
        return eval(compile(expression, "<writing>", "eval"), names)  # noqa: S307 - of the table's own code


def operands_of(record: Record, arrays: Mapping[Ref, np.ndarray], host: Host) -> list[Operand]:
    """The tensors that enter a call, in order.

    Args:
        record: the call.
        arrays: the recorded values among them.
        host: the framework of the call.
    """
    texts: list[tuple[str, Any]] = []
    for at, item in enumerate(record.args):
        texts += texts_of(record.site.operands[at] if at < len(record.site.operands) else "", item)
    for name, item in record.kwargs.items():
        texts += texts_of(record.site.named.get(name, ""), item)
    out: list[Operand] = []
    for text, leaf in texts:
        if isinstance(leaf, Ref):
            out.append(Operand(text, leaf, arrays[leaf]))
        elif host.is_tensor(leaf):
            out.append(Operand(text, leaf, host.array(leaf)))
    return out


def texts_of(text: str, item: Any) -> Iterator[tuple[str, Any]]:
    """(how it is written, the value) of what an argument holds."""
    if not isinstance(item, (list, tuple)):
        yield text, item
        return
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        tree = None
    written = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) and len(tree.elts) == len(item) else None
    for at, each in enumerate(item):
        yield from texts_of("" if written is None else ast.unparse(written[at]), each)


def translated(record: Record, arrays: dict[Ref, np.ndarray], hosts: tuple[Host, Host]) -> str:
    """The source's call as it is written in another framework; empty where none gives the same values.

    Args:
        record: the call.
        arrays: the values that enter it.
        hosts: the source's framework, and the one to write it in.
    """
    own = operands_of(record, arrays, hosts[0])
    known = [Operand(o.text if o.text.isidentifier() else "", hosts[1].tensor(o.array), o.array) for o in own]
    for writing in writings(record, own, known, hosts):
        if _gives(writing, record.arrays, hosts[1]):
            return writing.text
    return ""


def writings(
    record: Record, own: Sequence[Operand], theirs: Sequence[Operand], hosts: tuple[Host, Host]
) -> Iterator[Writing]:
    """The ways to write a call of the source's in the target: those of the table first, then by its own name.

    Args:
        record: the call.
        own: the tensors that enter it.
        theirs: those that enter the target's call, which stand for the source's where they are equal.
        hosts: the source's framework and the target's.
    """
    if hosts[0].name != "torch":
        return
    naming = _Naming(own, theirs, hosts)
    seen: set[str] = set()
    for tree in _trees(record, naming):
        if tree is None:
            continue
        writing = naming.writing(tree)
        if writing.text not in seen:
            seen.add(writing.text)
            yield writing


def _gives(writing: Writing, wanted: Sequence[np.ndarray], host: Host) -> bool:
    """Whether a writing computes some values."""
    try:
        result = writing(*writing.values.values())
        arrays = [host.array(t) for t in leaves(result) if host.is_tensor(t)]  # which waits for its kernels
    except Exception:  # a function of the same name may take something else
        return False
    return len(arrays) == len(wanted) and all(map(are_equal, arrays, wanted))


def are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one value."""
    return a.shape == b.shape and are_close(a, b, _CLOSE)


class _Naming:
    """Names the values of a source's call by what the target writes for them.

    Args:
        own: the tensors of the source's call.
        theirs: those of the target's.
        hosts: the source's framework and the target's.
    """

    def __init__(self, own: Sequence[Operand], theirs: Sequence[Operand], hosts: tuple[Host, Host]) -> None:
        self._own, self._theirs, self.hosts = own, theirs, hosts
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def node(self, value: Any) -> ast.expr | None:
        """Return the counterpart of a source's argument; None if it cannot be written."""
        if isinstance(value, (list, tuple)) and has_tensor(value, self.hosts[0]):
            return self._list([self.node(each) for each in value])
        if isinstance(value, Ref) or self.hosts[0].is_tensor(value):
            known = self._tensor(value)
            return ast.Name(known, ast.Load()) if known else None
        if isinstance(value, float) and not math.isfinite(value):
            return ast.parse(f'float("{value}")', mode="eval").body
        if isinstance(value, (list, tuple)):
            return self._list([self.node(each) for each in value])
        plain = value.item() if isinstance(value, np.generic) else value
        return ast.Constant(plain) if plain is None or isinstance(plain, (bool, int, float, str)) else None

    @staticmethod
    def _list(parts: list[ast.expr | None]) -> ast.expr | None:
        return None if None in parts else ast.Tuple([p for p in parts if p is not None], ast.Load())

    def _tensor(self, value: Any) -> str:
        """The name of a tensor; empty where the target's code has nothing to write for it."""
        own = next(o for o in self._own if o.leaf is value or (isinstance(value, Ref) and o.leaf == value))
        other = next((o for o in self._theirs if are_equal(o.array, own.array)), None)
        key = f"_value{next(at for at, o in enumerate(self._own) if o is own)}"
        if key in self._texts:
            return key
        text = own.text if other is None else other.text
        if other is None and (text.startswith("torch.tensor(") or self._is_own_constant(own)):
            if own.array.size > _WRITTEN_OUT:
                return ""
            text = f"{_TENSORS[self.hosts[1].name]}({literal(own.array.tolist())})"
        elif other is None and not text.replace(".", "").isidentifier():
            return ""
        if not text or (other is not None and len(text) > SHORT):
            taken = {*self._texts.values(), *(o.text for o in self._theirs)}
            text = next((letter for letter in _LETTERS if letter not in taken), "x")
        leaf = self.hosts[1].tensor(own.array) if other is None else other.leaf
        self._texts[key], self._values[key] = text, leaf
        return key

    @staticmethod
    def _is_own_constant(own: Operand) -> bool:
        """Whether a tensor is a short one that a name of the source's file alone holds."""
        return not isinstance(own.leaf, Ref) and own.text.isidentifier() and own.array.size <= _WRITTEN_OUT

    def writing(self, tree: ast.expr) -> Writing:
        """A writing of a tree that has the names of this."""
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        values = {key: value for key, value in self._values.items() if key in used}
        texts = self._texts

        class Shown(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                return ast.parse(texts.get(node.id, node.id), mode="eval").body

        copied = ast.parse(ast.unparse(tree), mode="eval").body
        is_layer = isinstance(copied, ast.Call) and isinstance(copied.func, ast.Call)
        shown = copied.func if isinstance(copied, ast.Call) and is_layer else copied
        return Writing(
            ast.unparse(Shown().visit(shown)).replace("'", '"'), tree, is_layer, values, self.hosts[1].name
        )


def _trees(record: Record, naming: _Naming) -> Iterator[ast.expr | None]:
    """The expressions that may compute a source's call."""
    if record.kind == "operator":
        nodes = [naming.node(item) for item in record.args]
        if record.name in OPERATORS and record.name.isprintable() and len(nodes) == 2 and record.name != "[]":
            left, right = (node and ast.unparse(node) for node in nodes)
            if left and right:
                yield ast.parse(f"({left}) {record.name} ({right})", mode="eval").body
        return
    if naming.hosts[1].name == naming.hosts[0].name:
        yield from _same_layer(record, naming) if record.kind == "layer" else _as_it_is(record, naming)
        return
    given = stated(record) if record.kind != "layer" else {}
    nodes = {name: node for name, v in given.items() if (node := naming.node(v)) is not None}
    for remedy in remedies().get(known_as(record), ()) if record.kind != "layer" else ():
        if all(name in nodes for name in remedy.arguments):
            further = {k: v for k, v in nodes.items() if k not in remedy.arguments}
            yield _with_further(remedy.written(nodes), further)
            if further:
                yield remedy.written(nodes)
    yield from _same_layer(record, naming) if record.kind == "layer" else ()
    yield from _same_name(record, naming)


def _as_it_is(record: Record, naming: _Naming) -> Iterator[ast.expr]:
    """The call with the same function and arguments, in the same framework."""
    args = [naming.node(item) for item in record.args]
    kwargs = {name: naming.node(item) for name, item in record.kwargs.items()}
    if None in args or None in kwargs.values() or (record.kind == "method" and not args):
        return
    keywords = [ast.keyword(name, node) for name, node in kwargs.items() if node is not None]
    nodes = [node for node in args if node is not None]
    if record.kind == "method":
        yield ast.Call(ast.Attribute(nodes[0], record.name, ast.Load()), nodes[1:], keywords)
    for title, room in rooms(naming.hosts[1].name).items() if record.kind == "call" else ():
        if getattr(room, record.name, None) is record.function:
            function = ast.parse(f"{title}.{record.name}", mode="eval").body
            yield ast.Call(function, nodes, keywords)
            return


def _with_further(tree: ast.expr, further: Mapping[str, ast.expr]) -> ast.expr | None:
    """A call with arguments that the row does not have; None where it takes none of that name."""
    if not further:
        return tree
    call = tree
    while isinstance(call, ast.Subscript):
        call = call.value
    if not isinstance(call, ast.Call):
        return None
    try:
        parameters = inspect.signature(_function(call.func)).parameters
    except Exception:  # a method of an operand, whose arguments nobody knows
        return None
    taken = [*list(parameters)[: len(call.args)], *(k.arg for k in call.keywords)]
    for name, node in further.items():
        theirs = _kin(name, [p for p in parameters if p not in taken])
        if theirs is None:
            return None
        call.keywords.append(ast.keyword(theirs, node))
    return tree


def _function(name: ast.expr) -> Any:
    """The function of MindSpore that a name stands for."""
    if isinstance(name, ast.Attribute):
        return getattr(_function(name.value), name.attr)
    return _names("mindspore")[name.id] if isinstance(name, ast.Name) else None


def _kin(name: str, parameters: Sequence[str]) -> str | None:
    return next((p for p in parameters if p in (name, *KIN.get(name, ()))), None)


def _same_name(record: Record, naming: _Naming) -> Iterator[ast.expr]:
    """Calls of the functions of the source's name."""
    name = known_as(record) if record.kind != "layer" else _LAYERS.get(record.name, record.name.lower())
    host = naming.hosts[0]
    if record.kind == "layer":
        made = given_to(record, host)
        items = {"input": record.args[0] if record.args else None, **({} if made is None else made.values)}
    else:
        items = stated(record)
    tensors = {k: v for k, v in items.items() if has_tensor(v, host)}
    known = given_to(record, host)
    settings = {
        k: v
        for k, v in (items if known is None else known.values).items()
        if v is not EMPTY and v is not None and not has_tensor(v, host) and not hasattr(v, "shape")
    }
    for title, room in rooms(naming.hosts[1].name).items():
        function = getattr(room, name, None)
        try:
            parameters = inspect.signature(function).parameters  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            continue
        order = list(parameters)
        chosen: dict[str, Any] = {}
        for mine, value in tensors.items():
            free = [p for p in order if p not in chosen]
            theirs = _kin(mine, free) or next(iter(free), None)
            if theirs is not None:
                chosen[theirs] = value
        for theirs in order:
            mine = next((n for n in (theirs, *KIN.get(theirs, ())) if n in settings), None)
            if (
                theirs not in chosen
                and mine is not None
                and not _is(settings[mine], parameters[theirs].default)
            ):
                chosen[theirs] = settings[mine]
        nodes = {k: naming.node(v) for k, v in chosen.items()}
        if None in nodes.values():
            continue
        first = 0
        while first < len(order) and order[first] in tensors_of(chosen, host):
            first += 1
        yield ast.Call(
            ast.parse(f"{title}.{name}", mode="eval").body,
            [nodes[p] for p in order[:first]],  # pyright: ignore[reportArgumentType]
            [ast.keyword(p, nodes[p]) for p in order[first:] if p in nodes],  # pyright: ignore[reportArgumentType]
        )


def _same_layer(record: Record, naming: _Naming) -> Iterator[ast.expr]:
    """The layer of the source's class, constructed and called."""
    made, cls = (
        given_to(record, naming.hosts[0]),
        getattr(_names(naming.hosts[1].name)["nn"], record.name, None),
    )
    inputs = [naming.node(item) for item in record.args]
    if made is None or cls is None or None in inputs or record.kwargs:
        return
    keywords: list[ast.keyword] = []
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        mine = next((n for n in (name, *KIN.get(name, ())) if n in made.values), None)
        if mine is not None and not _is(made.values[mine], parameter.default):
            node = naming.node(made.values[mine])
            keywords += [] if node is None else [ast.keyword(name, node)]
    layer = ast.Call(ast.parse(f"nn.{record.name}", mode="eval").body, [], keywords)
    yield ast.Call(layer, inputs, [])  # pyright: ignore[reportArgumentType]


def _is(value: Any, default: Any) -> bool:
    """Whether a value is a default, or as many of it as there are axes."""
    if isinstance(value, (list, tuple)) and value and not isinstance(default, (list, tuple)):
        return all(each == default for each in value)
    return bool(value == default)


def tensors_of(chosen: Mapping[str, Any], host: Host) -> list[str]:
    """The arguments that hold tensors."""
    return [k for k, v in chosen.items() if has_tensor(v, host)]


def _names(framework: str) -> dict[str, Any]:
    """Return the names in a framework's source code."""
    if framework == "torch":
        import torch

        library = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}
        return {**library, "inf": math.inf, "nan": math.nan}
    import mindspore as ms
    import mindspore.numpy as mnp
    from mindspore import mint, nn, ops

    return {"ms": ms, "mnp": mnp, "mint": mint, "nn": nn, "ops": ops, "inf": math.inf, "nan": math.nan}


_LAYERS = {
    "LeakyReLU": "leaky_relu",
    "LogSoftmax": "log_softmax",
    "PReLU": "prelu",
    "PixelShuffle": "pixel_shuffle",
    "LogSigmoid": "logsigmoid",
}
