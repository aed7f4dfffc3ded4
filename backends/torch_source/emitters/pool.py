"""Pooling; uneven padding is a padding of its own before the window."""

from __future__ import annotations

from ....ir import Operator, Value
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    View,
    optional,
    same,
)
from ...source.expressions import call, method
from .conv import pad_before

TABLE = EmitterTable()


class _Window:
    """Attributes of a pooling operator, in torch's terms."""

    def __init__(self, view: View) -> None:
        operator = view.operator
        self.kernel = operator.ints("kernel_shape")
        self.rank = len(self.kernel)
        if self.rank not in (1, 2, 3) or (operator.op_type == "MaxPool" and operator.int("storage_order")):
            raise Refused
        self.strides = operator.spatial("strides", self.rank)
        self.dilations = operator.spatial("dilations", self.rank)
        self.ceil = bool(operator.int("ceil_mode"))
        self.pads = self._pads(view)
        self.begins, self.ends = self.pads[: self.rank], self.pads[self.rank :]
        if not self.ceil and self._is_rounded_up(view):
            self.ceil, self.ends = True, self.begins
            self.pads = [*self.begins, *self.ends]
        if self.ceil and any(self.ends) and not self.is_even:
            self.ends, self.ceil = self._needed_ends(view), False
            self.pads = [*self.begins, *self.ends]

    def _needed_ends(self, view: View) -> list[int]:
        """Return padding with which the last windows end, so that none starts in the padding.

        Raises:
            Refused: where padding counts in an average, and where sizes are not known.
        """
        to, known = view.output_type(), view.type(0)
        if view.operator.op_type != "MaxPool" or to is None or to.shape is None or known.shape is None:
            raise Refused
        found: list[int] = []
        for axis, (size, out) in enumerate(zip(known.shape[2:], to.shape[2:], strict=True)):
            if not isinstance(size, int) or not isinstance(out, int):
                raise Refused
            reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            found.append((out - 1) * self.strides[axis] + reach - size - self.begins[axis])
        return found

    def _pads(self, view: View) -> list[int]:
        mode = view.operator.str("auto_pad")
        if mode == "NOTSET":
            return view.operator.spatial("pads", self.rank)
        if mode == "VALID":
            return [0] * 2 * self.rank
        begins, ends = [], []
        for axis, size in enumerate(view.shape()[2:]):
            if not isinstance(size, int):
                raise Refused
            stride, reach = self.strides[axis], self.dilations[axis] * (self.kernel[axis] - 1) + 1
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            first = total - total // 2 if mode == "SAME_LOWER" else total // 2
            begins.append(first)
            ends.append(total - first)
        return begins + ends

    def _is_rounded_up(self, view: View) -> bool:
        """Whether what the ends are padded by more than the beginnings is what torch's `ceil_mode` adds."""
        if self.begins == self.ends or _counts(view):  # padding that counts would change averages
            return False
        for axis, size in enumerate(view.shape()[2:]):
            begin, end, stride = self.begins[axis], self.ends[axis], self.strides[axis]
            reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            if not isinstance(size, int) or end < begin or 2 * begin > self.kernel[axis]:
                return False
            last = -(-(size + 2 * begin - reach) // stride)
            if (size + begin + end - reach) // stride != last or last * stride >= size + begin:
                return False
        return True

    @property
    def is_even(self) -> bool:
        """Whether torch's padding can say it: the same at both ends, half of the window at most."""
        return self.begins == self.ends and all(
            2 * pad <= size for pad, size in zip(self.begins, self.kernel, strict=True)
        )

    def arguments(self, *more: Argument) -> tuple[Argument, ...]:
        """Return a layer's arguments; its stride defaults to the window."""
        return (
            Argument("", Literal(same(self.kernel), "kernel_size")),
            optional("stride", same(self.strides), same(self.kernel)),
            optional("padding", same(self.begins), 0),
            *more,
            optional("ceil_mode", self.ceil, False),
        )

    def keywords(self, *, padded: bool) -> dict[str, object]:
        """Return a function's arguments behind the window."""
        return {
            "stride": same(self.strides) if self.strides != list(self.kernel) else None,
            "padding": same(self.begins) if any(self.begins) and not padded else None,
            "ceil_mode": True if self.ceil else None,
        }


@TABLE.layer("MaxPool")
def max_pool(view: View) -> NnLayer:
    """Emit nn.MaxPool1d, 2d, 3d."""
    window = _Window(view)
    if not window.is_even or view.used_outputs() > 1:
        raise Refused
    more = optional("dilation", same(window.dilations), 1)
    return NnLayer(Call(NnClass(f"MaxPool{window.rank}d"), window.arguments(more)))


@TABLE.call("MaxPool")
def functional_max_pool(view: View) -> Expression:
    """Emit F.max_pool1d, 2d, 3d, after a padding with -inf where torch's own cannot say it."""
    window, several = _Window(view), view.used_outputs() > 1
    padded = not window.is_even
    if several and (padded or not _are_within_planes(view)):
        raise Refused
    if padded and not view.type(0).dtype.startswith("float"):
        raise Refused
    found = call(
        f"F.max_pool{window.rank}d",
        pad_before(view, window.pads, float("-inf")) if padded else view.use(0),
        same(window.kernel),
        **window.keywords(padded=padded),
        dilation=same(window.dilations) if set(window.dilations) != {1} else None,
        return_indices=True if several else None,
    )
    return Expression(found.parts, outputs=2) if several else found


def _are_within_planes(view: View) -> bool:
    """Whether everything that reads the places reduces them to those within their plane, as torch's are."""
    places = Value(view.operator.key, 1)
    readers = [view.graph.node(key) for key, _ in view.graph.users(places)]
    return not view.graph.is_output(places) and all(
        isinstance(node, Operator) and node.op_type == "Mod" and not node.int("fmod") for node in readers
    )


def _counts(view: View) -> bool:
    """Whether padding counts in an average."""
    return view.operator.op_type == "AveragePool" and bool(view.operator.int("count_include_pad"))


def _counts_padding(view: View, window: _Window) -> bool:
    """Whether padding counts in the average; True where nothing is padded."""
    return _counts(view) or not any(window.pads)


@TABLE.layer("AveragePool")
def average_pool(view: View) -> NnLayer:
    """Emit nn.AvgPool1d, 2d, 3d."""
    window = _Window(view)
    if not window.is_even or set(window.dilations) != {1}:
        raise Refused
    more = optional("count_include_pad", _counts_padding(view, window), True)
    return NnLayer(Call(NnClass(f"AvgPool{window.rank}d"), window.arguments(more)))


@TABLE.call("AveragePool")
def functional_average_pool(view: View) -> Expression:
    """Emit F.avg_pool1d, 2d, 3d, after a padding with zeros where torch's own cannot say it."""
    window = _Window(view)
    counts, padded = _counts_padding(view, window), not window.is_even
    if set(window.dilations) != {1} or (padded and not counts):
        raise Refused
    return call(
        f"F.avg_pool{window.rank}d",
        pad_before(view, window.pads) if padded else view.use(0),
        same(window.kernel),
        **window.keywords(padded=padded),
        count_include_pad=None if counts else False,
    )


def _spatial(view: View) -> tuple[int, ...]:
    return tuple(range(2, view.rank()))


def _global_layer(name: str) -> None:
    @TABLE.layer(f"Global{name}Pool")
    def layer(view: View) -> NnLayer:
        if view.rank() not in (3, 4, 5):
            raise Refused
        kind = {"Average": "Avg", "Max": "Max"}[name]
        size = Argument("", Literal(1, "output_size"))
        return NnLayer(Call(NnClass(f"Adaptive{kind}Pool{view.rank() - 2}d"), (size,)))


_global_layer("Average")
_global_layer("Max")


@TABLE.call("GlobalAveragePool")
def global_average_pool(view: View) -> Expression:
    """Emit the mean over the spatial axes."""
    return method(view.atom(), "mean", _spatial(view), keepdim=True)


@TABLE.call("GlobalMaxPool")
def global_max_pool(view: View) -> Expression:
    """Emit the maximum over the spatial axes."""
    return method(view.atom(), "amax", _spatial(view), keepdim=True)


def _output_size(view: View) -> object:
    size = tuple(view.operator.ints("output_size"))
    if view.rank() != len(size) + 2:
        raise Refused
    return same(size)


def _adaptive(op_type: str, kind: str) -> None:
    def rank_of(view: View) -> int:
        return len(view.operator.ints("output_size"))

    @TABLE.layer(f"regraft.{op_type}")
    def layer(view: View) -> NnLayer:
        size = Argument("", Literal(_output_size(view), "output_size"))
        if view.used_outputs() > 1:
            raise Refused
        return NnLayer(Call(NnClass(f"Adaptive{kind.title()}Pool{rank_of(view)}d"), (size,)))

    @TABLE.call(f"regraft.{op_type}")
    def function(view: View) -> Expression:
        several = view.used_outputs() > 1
        name, options = f"F.adaptive_{kind}_pool{rank_of(view)}d", {"return_indices": True} if several else {}
        found = call(name, view.use(0), _output_size(view), **options)
        return Expression(found.parts, outputs=2) if several else found


_adaptive("AdaptiveAveragePool", "avg")
_adaptive("AdaptiveMaxPool", "max")


@TABLE.call("regraft.MaxUnpool")
def max_unpool(view: View) -> Expression:
    """Emit F.max_unpool1d, 2d, 3d, of windows that make the size of the result."""
    size, sizes = view.operator.ints("output_size"), view.shape()[2:]
    if len(size) not in (1, 2, 3) or view.rank() != len(size) + 2:
        raise Refused
    known = [own for own in sizes if isinstance(own, int) and own > 0]
    if len(known) != len(size) or any(own > out for own, out in zip(known, size, strict=True)):
        raise Refused
    strides = [out // own for own, out in zip(known, size, strict=True)]
    kernel = [out - (own - 1) * s for own, out, s in zip(known, size, strides, strict=True)]
    return call(
        f"F.max_unpool{len(size)}d",
        view.use(0),
        view.tensor(1),
        same(kernel),
        stride=same(strides) if kernel != strides else None,
    )
