"""Writes an expression of the source's with the names of the target's values, in the target's framework."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from typing import Any

import numpy as np

from ...frontends.function_arguments import KIN
from .calls import given_to, rooms
from .changes import literal, subscript
from .hosts import Host
from .instrumenting import OPERATORS
from .replaying import Draw
from .tape import Record, Ref, Tape, leaves, mapped
from .translating import texts_of, translated
from .values import SAME, are_close

_CLOSE = 1e-5
_MOST_NODES = 12
_WRITTEN_OUT = 16
"""Numbers of a constant that are written out."""

_MOST_KEYWORDS = 16

_METHODS: dict[str, tuple[str, ...]] = {
    "transpose": ("swapaxes",),
    "view": ("reshape",),
    "mT": ("swapaxes",),
    "t": ("swapaxes",),
    "unsqueeze": ("expand_dims",),
}
"""Method of PyTorch's tensors -> methods of MindSpore's that do the same."""

_GIVEN: dict[str, tuple[int, ...]] = {"mT": (-1, -2), "t": (0, 1)}
"""Arguments that such a method has in one framework only."""


@dataclass(slots=True)
class Composing:
    """Writes values of the source's as a place of the target's code can compute them.

    Args:
        draw: the recorded calls.
        at: the target's call in whose place the expression stands.
        matches: the values of the target's that equal one of the source's.
    """

    draw: Draw
    at: int
    matches: Callable[[int, Ref], list[tuple[Ref, str]]]
    count: int = 0
    _names: dict[Ref, str] = field(default_factory=dict)
    _numbers: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = _names_at(self.draw.target, self.at)
        self._numbers = _numbers_in(self.draw.target, self.at)

    def expression(self, ref: Ref) -> str:
        """A value of the source's as source code; empty where nobody knows how to write it."""
        self.count = 0
        node = self._written(ref)
        return "" if node is None else ast.unparse(node).replace("'", '"')

    def _text(self, ref: Ref) -> ast.expr | None:
        known = [
            other
            for other, how in self.matches(0, ref)
            if how == SAME and other in self._names and self._is_of_one_kind(ref, other)
        ]
        if (
            known
        ):  # of equal values, as before and behind a fresh normalisation, one that has a name, the last
            best = max(known, key=lambda other: (self._names[other].isidentifier(), other.record))
            return ast.parse(self._names[best], mode="eval").body
        return self._written(ref)

    def _is_of_one_kind(self, ref: Ref, other: Ref) -> bool:
        """Whether both values are numbers, or both truth values."""
        mine, theirs = self.draw.source.value(ref), self.draw.target.value(other)
        return (mine.dtype.kind == "b") == (theirs.dtype.kind == "b")

    def _written(self, ref: Ref) -> ast.expr | None:
        """The call that gives a value, written in the target's framework."""
        record = self.draw.source.records[ref.record]
        self.count += 1
        if record.kind == "input" or self.count > _MOST_NODES or len(record.arrays) != 1:
            return None
        refs = list(dict.fromkeys(record.refs()))
        if not refs and record.arrays[0].size <= _WRITTEN_OUT:
            return _constant(record.arrays[0], self.draw.target.host)
        operands: dict[Any, ast.expr] = {}
        for each in refs:
            node = self._text(each)
            if node is None:
                return None
            operands[each] = node
        return _operator(record, operands, self._numbers) or self._called(record, operands)

    def _called(self, record: Record, operands: dict[Any, ast.expr]) -> ast.expr | None:
        """A call of a function, a method or a layer, with operands that are written."""
        source, host = self.draw.source, self.draw.target.host
        arrays = {ref: source.value(ref) for ref in operands}
        names = {ref: f"operand{at}_" for at, ref in enumerate(operands)}
        text = (
            _same(record, arrays, names, host, self._numbers)
            or self._layer(record, names)
            or (_attention(record, arrays, names, source.host) if host.name == "mindspore" else "")
        )
        if not text:
            texts = tuple(names.get(item, "") if isinstance(item, Ref) else "" for item in record.args)
            text = translated(
                replace(record, site=replace(record.site, operands=texts)), arrays, (source.host, host)
            )
        if not text:
            return None
        shown = {names[ref]: node for ref, node in operands.items()}
        plain = {name: ast.parse(t, mode="eval").body for t, (name, _) in self._numbers.items()}
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            return None
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if not used >= set(shown) or used & {"x", "y", "z"}:  # it names operands that are not these
            return None
        return _Substituting(shown | plain).visit(tree)

    def _layer(self, record: Record, names: dict[Any, str]) -> str:
        """A layer of the target's that computes what one of the source's does."""
        if record.kind != "layer" or record.kwargs or not record.site.text.startswith("self."):
            return ""
        target = self.draw.target
        for known in target.records:
            if known.kind == "layer" and known.site.text == record.site.text:
                args = mapped(record.args, self._theirs)
                arrays = target.run(replace(known, args=args, kwargs={}), {})
                if arrays is not None and _are_equal(arrays, record.arrays):
                    return f"{record.site.text}({', '.join(names.get(item, '') for item in record.args)})"
        return ""

    def _theirs(self, leaf: Any) -> Any:
        """A value of the source's as a tensor of the target's framework."""
        return self.draw.target.host.tensor(self.draw.source.value(leaf)) if isinstance(leaf, Ref) else leaf


def _are_equal(arrays: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return len(arrays) == len(others) and all(
        a.shape == b.shape and are_close(a, b, _CLOSE) for a, b in zip(arrays, others, strict=True)
    )


def _names_at(tape: Tape, at: int) -> dict[Ref, str]:
    """Return the expressions of the calling module's code for the values that are known at a call."""
    last = min(at, len(tape.records) - 1)
    site = tape.records[last].site
    while last + 1 < len(tape.records) and tape.records[last + 1].site.line == site.line:
        last += 1
    spelled: dict[str, Ref] = {}
    anywhere = at >= len(tape.records)  # what the net returns
    module = tape.records[last].module
    named = [
        (place, name, ref) for place, name, ref, m in tape.names if place <= at and (anywhere or m is module)
    ]
    inside = [
        (place, r) for place, r in enumerate(tape.records[: last + 1]) if anywhere or r.module is module
    ]
    for place, record in inside:
        while named and named[0][0] <= place:
            _, name, ref = named.pop(0)
            spelled[name] = ref
        for item, text in zip(record.args, record.site.operands, strict=False):
            for part, each in texts_of(text, item):
                if isinstance(each, Ref) and each.record < at and part.replace(".", "").isidentifier():
                    spelled[part] = each
    spelled |= {name: ref for _, name, ref in named}
    whole = {
        Ref(place, 0): record.site.source
        for place, record in inside
        if place < at and record.site.source and len(record.arrays) == 1
    }
    return whole | {ref: text for text, ref in spelled.items() if ref.record < at}


def _numbers_in(tape: Tape, at: int) -> dict[str, tuple[str, Any]]:
    """Return the expressions of a method, up to a call, for arguments that are no tensors (`self.heads`).

    Returns:
        Expression -> (a name that stands for it, the value).
    """
    last = tape.records[min(at, len(tape.records) - 1)]
    found = {
        text: item
        for record in tape.records[: at + 1]
        if record.module is last.module and record.site.owner == last.site.owner
        for item, text in zip(record.args, record.site.operands, strict=False)
        if not isinstance(item, Ref) and text.replace(".", "").replace("()", "").isidentifier()
    }
    return {text: (f"number{place}_", item) for place, (text, item) in enumerate(found.items())}


def _constant(array: np.ndarray, host: Host) -> ast.expr:
    """A tensor of few numbers."""
    if host.name == "torch":
        return ast.parse(f"torch.tensor({literal(array.tolist())})", mode="eval").body
    kind = {"f": "ms.float32", "i": "ms.int64", "b": "ms.bool_"}.get(array.dtype.kind)
    dtype = f", {kind}" if kind else ""
    return ast.parse(f"ms.Tensor({literal(array.tolist())}{dtype})", mode="eval").body


def _operator(
    record: Record, operands: dict[Any, ast.expr], numbers: Mapping[str, tuple[str, Any]]
) -> ast.expr | None:
    """An operator between operands that are written; None for anything else.

    Args:
        record: the call.
        operands: value -> how it is written.
        numbers: as of `_numbers_in`; one takes the place of an equal one that the source has a name for too.
    """
    if record.kind != "operator" or record.name not in OPERATORS:
        return None
    items = record.args[:1] if record.name == "[]" else record.args
    nodes: list[ast.expr] = []
    for at, item in enumerate(items):
        if isinstance(item, Ref):
            nodes.append(operands[item])
        elif isinstance(item, (bool, int, float)):
            has_name = any(text[:1].isalpha() for text in record.site.operands[at : at + 1])
            equal = (t for t, (_, n) in numbers.items() if has_name and type(n) is type(item) and n == item)
            nodes.append(ast.parse(next(equal, literal(item)), mode="eval").body)
        else:
            return None
    texts = [f"({ast.unparse(node)})" for node in nodes]
    if record.name == "[]":
        if not _is_written_as_numbers(record.args[1]):
            return None
        return ast.parse(f"{texts[0]}[{subscript(record.args[1])}]", mode="eval").body
    if len(texts) == 1:
        return ast.parse({"-x": "-", "~": "~"}.get(record.name, "") + texts[0], mode="eval").body
    return ast.parse(f" {record.name} ".join(texts), mode="eval").body


def _is_written_as_numbers(index: Any) -> bool:
    """Whether an index is made of numbers, slices of them, `None` and `...`."""
    parts = index if isinstance(index, tuple) else (index,)
    bounds = [
        b for part in parts for b in ((part.start, part.stop, part.step) if type(part) is slice else (part,))
    ]
    return all(bound is None or bound is ... or type(bound) is int for bound in bounds)


def _same(
    record: Record,
    arrays: dict[Ref, np.ndarray],
    names: dict[Any, str],
    host: Host,
    numbers: Mapping[str, tuple[str, Any]],
) -> str:
    """The method or the function of the same name, where it computes the same; empty where none does."""
    if record.kind not in ("call", "method"):
        return ""

    def filled(leaf: Any) -> Any:
        return host.tensor(arrays[leaf]) if isinstance(leaf, Ref) else leaf

    args, values = mapped(record.args, filled), mapped(list(record.kwargs.values()), filled)
    for text, function, further, keywords in _spellings(record, arrays, names, host, numbers):
        try:
            result = function(*args, *further, **dict(zip(keywords, values, strict=True)))
            found = [host.array(leaf) for leaf in leaves(result) if host.is_tensor(leaf)]
        except Exception:  # a function of the same name may take something else
            found = []
        if len(found) == 1 and _are_equal(found, record.arrays):
            return text
    return ""


def _spellings(
    record: Record,
    arrays: dict[Ref, np.ndarray],
    names: dict[Any, str],
    host: Host,
    numbers: Mapping[str, tuple[str, Any]],
) -> Iterator[tuple[str, Callable[..., Any], tuple[int, ...], tuple[str, ...]]]:
    """(source code, function, further arguments, keywords) of calls of the same name."""
    texts = (*record.site.operands, *("" for _ in record.args))
    given = [
        numbers[text][0] if text in numbers and _is_equal(numbers[text][1], item) else _argument(item, names)
        for item, text in zip(record.args, texts, strict=False)
    ]
    values = [_argument(item, names) for item in record.kwargs.values()]
    if None in given or None in values:
        return
    method = record.kind == "method" and isinstance(record.args[0], Ref)
    shown = [str(text) for text in given]
    further = _GIVEN.get(record.name, ())
    spelled = {
        keywords: [*map(str, further), *(f"{name}={v}" for name, v in zip(keywords, values, strict=True))]
        for keywords in _keywords(record)
    }
    sizes = _sizes(record, shown, names, arrays) if method else []
    for name in (record.name, *_METHODS.get(record.name, ())) if method else ():
        for keywords, last in spelled.items():
            text = f"{shown[0]}.{name}({', '.join([*sizes[1:], *last])})"
            yield text, _method_named(name), further, keywords
    for room, library in rooms(host.name).items():
        function = getattr(library, record.name, None)
        if not callable(function):
            continue
        for keywords, last in spelled.items():
            yield f"{room}.{record.name}({', '.join([*shown, *last])})", function, further, keywords


def _method_named(name: str) -> Callable[..., Any]:
    """A function that calls a method of its first argument."""
    return lambda value, *args, **kwargs: getattr(value, name)(*args, **kwargs)


def _keywords(record: Record) -> Iterator[tuple[str, ...]]:
    """The keywords of a call, and others that mean the same."""
    kin = [list(dict.fromkeys((name, *KIN.get(name, ())))) for name in record.kwargs]
    yield from islice(product(*kin), _MOST_KEYWORDS)


def _argument(item: Any, names: dict[Any, str]) -> str | None:
    """An argument as source code; None where it is nothing that can be written."""
    if isinstance(item, (list, tuple)):
        parts = [_argument(each, names) for each in item]
        if None in parts:
            return None
        inside = ", ".join(map(str, parts))
        return f"[{inside}]" if isinstance(item, list) else f"({inside}{',' * (len(parts) == 1)})"
    if isinstance(item, Ref):
        return names.get(item)
    if isinstance(item, str):
        return repr(item)
    return literal(item) if isinstance(item, (bool, int, float, type(None))) else None


def _sizes(
    record: Record, shown: list[str], names: dict[Any, str], arrays: dict[Ref, np.ndarray]
) -> list[str]:
    """The arguments of a method, with a size that the source computes computed as well."""
    shown, first = list(shown), record.args[0]
    shape = arrays[first].shape
    for at, (text, value) in enumerate(zip(record.site.operands, record.args, strict=False)):
        is_plain = text.lstrip("-").isdigit() or text.startswith("self.") or not shown[at].isdigit()
        if isinstance(value, int) and not is_plain and value in shape:
            axis = at - 1 if shape[at - 1 : at] == (value,) else shape.index(value)  # that in the same place
            shown[at] = f"{names[first]}.shape[{axis}]"
    return shown


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two arguments that are no tensors are one number, or one tuple of them."""
    parts = [list(leaves(value)) for value in (a, b)]
    return parts[0] == parts[1] if all(isinstance(p, (int, float)) for p in chain(*parts)) else False


def _attention(record: Record, arrays: dict[Ref, np.ndarray], names: dict[Any, str], source: Host) -> str:
    """Attention written out, which MindSpore has on other devices alone; empty for anything else."""
    given = given_to(record, source) if record.name == "scaled_dot_product_attention" else None
    if given is None:
        return ""
    operands = [given.values.get(name) for name in ("query", "key", "value")]
    refs = [item for item in operands if isinstance(item, Ref)]
    if len(refs) != len(operands):
        return ""
    (q, k, v), (query, key, value) = [names[ref] for ref in refs], [arrays[ref] for ref in refs]
    mask, scale = given.values.get("attn_mask"), given.values.get("scale") or query.shape[-1] ** -0.5
    text, scores = f"{q} @ {k}.swapaxes(-2, -1) * {literal(scale)}", query @ key.swapaxes(-2, -1) * scale
    if given.values.get("is_causal"):
        size = scores.shape[-2:]
        text = f"({text}).masked_fill(ops.triu(ops.ones({size}), 1).bool(), float('-inf'))"
        scores = np.where(np.triu(np.ones(size), 1) > 0, -1e9, scores)
    elif isinstance(mask, Ref) and arrays[mask].dtype.kind == "b":
        text = f"({text}).masked_fill(~{names[mask]}, float('-inf'))"
        scores = np.where(arrays[mask], scores, -1e9)
    elif isinstance(mask, Ref):
        text, scores = f"{text} + {names[mask]}", scores + arrays[mask]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares, text = shares / shares.sum(-1, keepdims=True), f"ops.softmax({text}, axis=-1)"
    kept = arrays[mask] if isinstance(mask, Ref) and arrays[mask].dtype.kind == "b" else None
    if kept is not None and not kept.any(-1).all():  # torch gives 0 where all is masked, and not NaN
        shares = np.where(kept, shares, 0)
        text = text.replace("float('-inf')", "-1e9")
        text = f"ops.where({names[mask]}, {text}, 0.0)"
    is_it = _are_equal([(shares @ value).astype(value.dtype)], record.arrays)
    return f"{text} @ {v}" if is_it else ""


class _Substituting(ast.NodeTransformer):
    """Puts expressions in place of names."""

    def __init__(self, nodes: dict[str, ast.expr]) -> None:
        self._nodes = nodes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._nodes.get(node.id, node)
