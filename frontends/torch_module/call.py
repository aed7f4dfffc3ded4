"""One call of an operator of torch's: arguments by name, with torch's own fake tensors beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ...ir import Dim, TensorType, Value
from .. import call
from ..arguments import Key
from .context import Context, Result
from .environment import Environment
from .nodes import IGNORED, arguments_of, target_name
from .symbols import Size, as_dim, dtype_of, is_of_data

if TYPE_CHECKING:
    from torch.fx import Node


class Call(call.Call):
    """One operator call of the program.

    Args:
        context: what all lowerings share.
        operator: its name, e.g. ``aten.conv2d.default``.
        arguments: name -> value, defaults filled in.
        fakes: name -> fake tensor, of the arguments that are tensors.
        fake: torch's own result: a fake tensor, or a list of them.
        place: where, for messages.

    Attributes:
        reads: positions of the results that the program reads, where it has several.
        unsure: axes of the result whose size torch states for the example, and not for every open size.
    """

    framework = "torch"
    reads: Set[int]
    unsure: Set[int]

    def __init__(
        self,
        context: Context,
        operator: str,
        arguments: Mapping[str, Any],
        fakes: Mapping[Key, Any],
        fake: Any,
        place: str,
    ) -> None:
        super().__init__(context.b, operator, arguments, place)
        self.context, self.fakes, self.fake = context, fakes, fake
        self.reads = frozenset()
        self.unsure = frozenset()

    @property
    def first(self) -> Key:
        """The name of the first argument."""
        return next(iter(self._arguments))

    def operands(self) -> list[Value]:
        """Return all arguments, each of which must be a tensor."""
        return [self.value(name) for name in self._arguments]

    def operand(self, key: Key, dtype: str) -> Value:
        """Return a tensor, number or size argument as a value of one element type."""
        found = self.arg(key)
        if hasattr(found, "free_symbols"):
            return self.context.size_value(found, dtype)
        return super().operand(key, dtype)

    def as_value(self, found: Any, what: str = "an argument") -> Value:
        """Return an argument of any kind as a value.

        Raises:
            UnsupportedError: when it is not a tensor, such as a number that Python took out of one.
        """
        if hasattr(found, "free_symbols") or type(found).__name__ == "SymFloat":
            raise self.unsupported(
                f"expected {what} to be a tensor, got a number that Python takes out of one "
                "(`.item()`, `float()`, `.tolist()`)",
                hint="leave it a tensor: `x.max()` in place of `x.max().item()`",
            )
        return super().as_value(found, what)

    # -- sizes and types -----------------------------------------------------------------------

    def hint_for(self, found: object, /) -> str:
        """Return what to do about a number that a run takes out of a tensor."""
        if any(is_of_data(item) for item in self.items(found)):
            return "give a Python number that the module computes in `__init__`, in place of one of a tensor"
        return ""

    def shape(self, of: Key | Value | None = None) -> tuple[Size, ...]:
        """Return the shape of a tensor argument, or of a value."""
        if isinstance(of, Value):
            return super().shape(of)
        return tuple(self.context.symbols.sizes(self.fakes[self.first if of is None else of]))

    def rank(self, of: Key | Value | None = None) -> int:
        """Return the rank of a tensor argument, or of a value."""
        if isinstance(of, Value):
            return super().rank(of)
        return self.fakes[self.first if of is None else of].dim()

    @property
    def result_shape(self) -> tuple[Size, ...]:
        """The shape of the result."""
        return tuple(self.context.symbols.sizes(self.fake))

    @property
    def types(self) -> Sequence[TensorType | None]:
        """Torch's own types of the results; None for what is no tensor, and for sizes that are unsure."""
        fakes = self.fake if isinstance(self.fake, (list, tuple)) else [self.fake]
        return [self._type_of(fake) if hasattr(fake, "dtype") else None for fake in fakes]

    def _type_of(self, fake: Any) -> TensorType:
        stated = self.context.symbols.type(fake)
        if not self.unsure or stated.shape is None:
            return stated
        return stated.with_shape(tuple(None if a in self.unsure else d for a, d in enumerate(stated.shape)))

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return dtype_of(self.fake.dtype)

    def promoted(self, *names: str) -> str:
        """Return the element type in which torch computes on these arguments together."""
        import torch

        given = [self.fakes.get(n, self._arguments[n]) for n in names]
        numbers = [
            1 if not isinstance(g, (torch.Tensor, int, float)) else g for g in given
        ]  # a size is an integer
        found = (
            torch.result_type(numbers[0], numbers[1])
            if len(numbers) > 1
            else torch.result_type(numbers[0], 0)
        )
        return dtype_of(found)

    # -- building ------------------------------------------------------------------------------

    def as_dim(self, size: Size) -> Dim:
        """Return a size as a dimension of a type."""
        return as_dim(size)

    def shape_value(self, sizes: Sequence[Size]) -> Value:
        """Return sizes as an int64 vector, computed from values at hand where some are symbolic."""
        return self.context.shape_value(sizes)

    def result_shape_like(self, value: Value) -> Value:
        """Return the result's shape, which is that of `value`: taken from it where that is not sure."""
        unsure = None in (self.graph.known_type(value).shape or ())
        return self.op("Shape", value) if unsure else self.shape_value(self.result_shape)

    def size_value(self, size: Size, dtype: str = "int64") -> Value:
        """Return a size as a 0-d value."""
        return self.context.size_value(size, dtype)

    def reshape_codes(self, known: TensorType, shape: Sequence[Size]) -> list[int]:
        """Return the codes; -1 says of a sole symbolic size behind others what 0 would."""
        codes = super().reshape_codes(known, shape)
        if codes.count(0) == 1 and -1 not in codes and codes[0] != 0:
            return [-1 if code == 0 else code for code in codes]
        return codes

    def finish(self, result: Result) -> Result:
        """Check that every argument was read, give results torch's own types, and note their sizes."""
        super().finish(result)
        fakes = self.fake if isinstance(self.fake, (list, tuple)) else [self.fake]
        values = result if isinstance(result, (list, tuple)) and not isinstance(result, Value) else [result]
        for value, fake in zip(values, fakes, strict=False):
            if isinstance(value, Value) and hasattr(fake, "dtype"):
                self.context.note_sizes(value, fake)
        return result


def call_of(node: Node, name: str, context: Context, environment: Environment, place: str) -> Call:
    """Return the call that a node is: arguments by schema name, defaults filled in, with their fake tensors.

    Args:
        node: the node.
        name: the operator whose lowering is used: its own, or of an in-place operator the functional twin.
        context: of the graph that is built.
        environment: what fx nodes stand for.
        place: where it is, for messages.
    """
    values: dict[str, Any] = {}
    fakes: dict[Key, Any] = {}
    args, kwargs = node.args, node.kwargs
    for position, (key, own, default) in enumerate(arguments_of(node.target, name)):
        raw: Any = args[position] if position < len(args) else kwargs.get(own, default)
        values[key] = environment.resolve(raw)
        fake: Any = raw.meta.get("val") if hasattr(raw, "meta") else None
        if hasattr(fake, "dtype"):
            fakes[key] = fake
            if isinstance(values[key], Value):
                context.note_sizes(values[key], fake)
    call = Call(context, name, values, fakes, node.meta.get("val"), place)
    call.reads = {
        at
        for user in node.users
        if target_name(user.target) == "operator.getitem"
        and isinstance(at := user.args[1], int)
        and any(target_name(reader.target) not in IGNORED for reader in user.users)
    }
    return call
