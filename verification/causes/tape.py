"""The calls of the user's own methods in one run: functions, operators and layers, with their values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .hosts import Host

MOST_BYTES = 512 * 2**20
"""Values that one tape may hold."""

MOST_RECORDS = 20_000

SHORT, _LONG = 40, 80
"""Letters of an operand and of an expression that a message repeats."""


class TapeFullError(Exception):
    """A run has more values than a tape may hold."""


def _with_sign(sign: str, left: str, right: str) -> str:
    """Return two operands with a sign between them, in the brackets that they need.

    Example:
        >>> _with_sign("/", "x - mean", "n"), _with_sign("+", "a * b", "c"), _with_sign("-", "a", "b - c")
        ('(x - mean) / n', 'a * b + c', 'a - (b - c)')
    """
    whole = f"({left}) {sign} ({right})"
    for text in (f"{left} {sign} {right}", f"({left}) {sign} {right}", f"{left} {sign} ({right})"):
        try:
            if ast.dump(ast.parse(text, mode="eval")) == ast.dump(ast.parse(whole, mode="eval")):
                return text
        except SyntaxError:  # "[]", or an operand that is shown in short
            return f"{left} {sign} {right}"
    return whole


@dataclass(frozen=True, slots=True)
class Site:
    """An expression in the user's file.

    Attributes:
        file: the file.
        line: its first line.
        text: what is called, as it is written: ``ops.softmax``; an operator's sign.
        owner: the class whose method it stands in; empty for a function.
        operands: what stands for each argument without keyword, a method's tensor first.
        span: first line, byte in it, last line and the byte behind; zeros where nobody knows.
        source: the whole expression as it is written.
        named: keyword -> what stands for it.
        node: of an operator of a graph: the name of its node.
    """

    file: str
    line: int
    text: str
    owner: str = ""
    operands: tuple[str, ...] = ()
    span: tuple[int, int, int, int] = (0, 0, 0, 0)
    source: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    node: str = ""

    def operand(self, at: int) -> str:
        """Return the expression of an argument, if it is short; "x" otherwise."""
        text = self.operands[at] if at < len(self.operands) else ""
        return text if text and len(text) <= SHORT else "x"

    @property
    def expression(self) -> str:
        """The call as it is written, where that is short; its text else."""
        if self.is_operator:
            sides = [self.operand(at) for at in range(len(self.operands))]
            if len(sides) == 1 and self.text != "[]":
                return self.text[0] + (sides[0] if sides[0].isidentifier() else f"({sides[0]})")
            return _with_sign(self.text, *sides) if len(sides) == 2 else self.text
        return self.text

    @property
    def whole(self) -> str:
        """The whole expression as it is written, where that is short; the call else."""
        text = self.source.replace("'", '"')
        return text if text and len(text) <= _LONG else self.expression

    @property
    def is_operator(self) -> bool:
        """Whether it is a sign between operands."""
        return not self.text.replace(".", "").isidentifier() and len(self.text) <= 2

    @property
    def place(self) -> str:
        """The line as findings name it, or the node of a graph; empty where nobody knows."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.line else self.node


@dataclass(frozen=True, slots=True)
class Ref:
    """A recorded value: a leaf of what a record gave."""

    record: int
    leaf: int


@dataclass(frozen=True, slots=True)
class Derived:
    """A value derived from a recorded value, on any draw.

    Attributes:
        ref: the value.
        change: makes the other one.
    """

    ref: Ref
    change: Callable[[np.ndarray], np.ndarray]


@dataclass(slots=True)
class Record:
    """One call.

    Attributes:
        site: where it stands; None for what enters the net.
        kind: "call", "method", "operator", "layer" or "input".
        function: what was called; an operator's function.
        name: the function's name: ``softmax``, ``+``.
        args: the arguments; tensors that a record gave are a `Ref`.
        kwargs: likewise.
        arrays: the tensors that it gave.
        module: the module whose method called it.
    """

    site: Site
    kind: str
    function: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: list[np.ndarray]
    module: Any = None

    def refs(self) -> list[Ref]:
        """The recorded values that entered it."""
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Ref)]


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of lists, tuples and dicts, from first to last."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item)
    else:
        yield tree


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with other leaves."""
    if isinstance(tree, tuple):
        items = [mapped(item, change) for item in tree]
        # past the constructor of a named tuple, as PackedSequence's takes nothing but tensors
        return tuple.__new__(type(tree), items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [mapped(item, change) for item in tree]
    if isinstance(tree, dict):
        return {key: mapped(item, change) for key, item in tree.items()}
    return change(tree)


@dataclass(slots=True)
class Tape:
    """The calls of one run, in order.

    Attributes:
        host: the framework.
        records: the calls.
        outputs: what the net gave: recorded values, None for what no record gave.
        names: (how many calls were made before, name, value, module) of values that a module's code names.
        end: the last return.
    """

    host: Host
    records: list[Record] = field(default_factory=list)
    outputs: list[Ref | None] = field(default_factory=list)
    names: list[tuple[int, str, Ref, Any]] = field(default_factory=list)
    end: Site | None = None
    _made: dict[int, Ref] = field(default_factory=dict)
    _held: list[Any] = field(default_factory=list)
    _bytes: int = 0

    def add(
        self,
        site: Site,
        kind: str,
        function: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        module: Any = None,
    ) -> None:
        """Record a call that was made.

        Raises:
            TapeFullError: when the tape holds too much.
        """
        known = self.known((args, kwargs))
        self.put(site, kind, function, name, known, result, module)

    def name(self, name: str, value: Any, module: Any = None) -> None:
        """Note the name that a module's code gives a value of a record."""
        ref = self._made.get(id(value))
        if ref is not None:
            self.names.append((len(self.records), name, ref, module))

    def known(self, arguments: Any) -> Any:
        """Arguments with a `Ref` for each tensor that a record gave; taken before a call changes them."""
        return mapped(arguments, lambda leaf: self._made.get(id(leaf), leaf))

    def put(
        self, site: Site, kind: str, function: Any, name: str, known: Any, result: Any, module: Any
    ) -> None:
        """Record a call whose arguments are known."""
        found = [leaf for leaf in leaves(result) if self.host.is_tensor(leaf)]
        arrays = [self.host.array(tensor) for tensor in found]
        self._bytes += sum(array.nbytes for array in arrays)
        if self._bytes > MOST_BYTES or len(self.records) >= MOST_RECORDS:
            raise TapeFullError
        args, kwargs = known
        at = len(self.records)
        self.records.append(Record(site, kind, function, name, args, kwargs, arrays, module))
        self._held += found  # an identity is one value as long as the value lives
        for leaf, tensor in enumerate(found):
            self._made[id(tensor)] = Ref(at, leaf)

    def finish(self, result: Any) -> None:
        """Note what the net gave."""
        self.outputs = [self._made.get(id(t)) for t in leaves(result) if self.host.is_tensor(t)]
        self._held.clear()
        self._made.clear()

    def value(self, ref: Ref) -> np.ndarray:
        """A recorded value."""
        return self.records[ref.record].arrays[ref.leaf]

    def array_of(self, item: Any) -> np.ndarray:
        """The numbers of a recorded value, or of a tensor."""
        return self.value(item) if isinstance(item, Ref) else self.host.array(item)

    def run(self, record: Record, values: dict[Ref, np.ndarray]) -> list[np.ndarray] | None:
        """Make a call again, with other values; None where it refuses them.

        Args:
            record: the call.
            values: what differs from what was recorded.
        """

        def filled(leaf: Any) -> Any:
            if isinstance(leaf, Derived):
                known = values[leaf.ref] if leaf.ref in values else self.value(leaf.ref)
                return self.host.tensor(leaf.change(known))
            if not isinstance(leaf, Ref):
                return leaf
            return self.host.tensor(values[leaf] if leaf in values else self.value(leaf))

        args, kwargs = mapped(record.args, filled), mapped(record.kwargs, filled)
        if self.host.aborts(record.function, leaves((args, kwargs))):
            return None
        try:
            result = record.function(*args, **kwargs)
            return [self.host.array(leaf) for leaf in leaves(result) if self.host.is_tensor(leaf)]
        except Exception:  # a library's function may refuse any argument in any way
            self.host.recover()
            return None


def behind(tape: Tape, start: Sequence[int]) -> list[int]:
    """The records that take what some records give, directly or through others, in order."""
    reached = set(start)
    out: list[int] = []
    for at in range(min(start, default=0), len(tape.records)):
        if at in reached:
            continue
        if any(ref.record in reached for ref in tape.records[at].refs()):
            reached.add(at)
            out.append(at)
    return out
