"""Layers whose constructor means something else in PyTorch where an argument is left out, or turned round."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...frontends.class_source import is_library_class
from ...frontends.constructions import call_at, construction_of
from ...frontends.differences import Difference, with_other_defaults
from ...ir import Graph, Operator
from ...passes import Change
from ...passes.windows import same_total, split_total
from ..subject import Subject, assigned_at

CODES = {
    "PT101": 'a convolution without pad_mode pads "same"; torch\'s does not pad by default',
    "PT102": "a convolution without has_bias has no bias; torch's has one",
    "PT103": "nn.GELU() is the tanh approximation; torch's is exact",
    "PT104": "LeakyReLU has slope 0.2; torch's has 0.01",
    "PT105": "LayerNorm adds 1e-7 to the variance; torch's adds 1e-5",
    "PT106": "LayerNorm normalises the last axis only, whatever normalized_shape says",
    "PT107": "BatchNorm's momentum is the share that is kept; torch's is the share that is new",
    "PT108": "the first argument of nn.Dropout is the ratio it keeps; torch's is the ratio it drops",
    "PT109": "an Embedding is drawn from Normal(0.01); torch's from Normal(1)",
    "PT110": "a pool without stride moves by 1; torch's by its window",
    "PT111": "InstanceNorm has weights that are trained; torch's has none",
    "PT112": "SmoothL1Loss gives every element's loss; torch's the mean",
}


@dataclass(frozen=True)
class _Layer:
    """A live layer and the call that made it.

    Attributes:
        path: in the model.
        part: the layer.
        call: the user's call of its class; None where none was seen.
        following: the library's class of what is registered after it, beside it; empty for none.
        pads: of a convolution: what padding "same" comes to at the graph's sizes, begins before ends; None
            where they are not known.
    """

    path: str
    part: Any
    call: ast.Call | None
    following: str = ""
    pads: list[int] | None = None

    @property
    def name(self) -> str:
        """Its class."""
        return type(self.part).__name__

    def given(self, argument: str) -> ast.expr | None:
        """Return the call's expression for an argument; None if there is none or no call was seen."""
        if self.call is None:
            return None
        named = next((k.value for k in self.call.keywords if k.arg == argument), None)
        at = _position(type(self.part), argument)
        return self.call.args[at] if named is None and 0 <= at < len(self.call.args) else named

    def leaves_out(self, *arguments: str) -> bool:
        """Whether the call is silent about all of these; true where none was seen: the value decides."""
        if self.call is None:
            return True
        unpacked = any(isinstance(a, ast.Starred) for a in self.call.args)
        unpacked |= any(k.arg is None for k in self.call.keywords)
        return not unpacked and all(self.given(a) is None for a in arguments)


Trap = tuple[str, str]
"""The difference between the layer and torch's, and the fix."""


def find(subject: Subject) -> list[Change]:
    """Return a finding for each trap of each call that constructs layers of the model."""
    found: dict[tuple[str, str], tuple[Trap, list[str]]] = {}
    for layer, place in _layers(subject):
        for code, trap in _judge(layer):
            found.setdefault((code, place or layer.path), (trap, []))[1].append(layer.path)
    return [
        Change(
            code,
            trap[0] + (f" ({len(paths)} layers: `{paths[0]}`, …)" if len(paths) > 1 else f" (`{paths[0]}`)"),
            place=place,
            severity="warning",
            fixed=False,
            members=tuple(paths) if len(paths) > 1 else (),
            advice=trap[1],
        )
        for (code, place), (trap, paths) in found.items()
    ]


def _judge(layer: _Layer) -> Iterator[tuple[str, Trap]]:
    """Yield (code, trap) of a layer: what needs its sizes and values, then what a default alone makes."""
    for code, classes, judge in _TRAPS:
        trap = judge(layer) if layer.name.startswith(classes) else None
        if trap is not None:
            yield code, trap
    judged = {code for code, _, _ in _TRAPS}
    for row in with_other_defaults(layer.name):
        if row.code not in judged and layer.leaves_out(row.left_out) and _has_default(layer, row):
            said = f"`nn.{layer.name}{'()' if row.naive.endswith('()') else ''}` {row.here}"
            yield row.code, (f"{said} by default; torch's {row.there}", f"{row.advice or row.write}")


def _has_default(layer: _Layer, row: Difference) -> bool:
    """Whether the default acts: the call leaves it out, or the value says so where no call was seen."""
    if layer.call is not None:
        return True
    default = inspect.signature(type(layer.part)).parameters[row.left_out].default
    return getattr(layer.part, row.left_out, None) == default


def _layers(subject: Subject) -> Iterator[tuple[_Layer, str]]:
    """Yield every layer of MindSpore's that the user's own code constructs, and where."""
    parts = dict(subject.parts())
    pads = _find_same_pads(subject.graph)
    following = {
        id(a): _library_name(type(b)) for part in parts.values() for a, b in pairwise(_children(part))
    }
    for path, part in parts.items():
        if not type(part).__module__.startswith(("mindspore.nn.layer", "mindspore.nn.loss")):
            continue
        above, _, name = path.rpartition(".")
        made = construction_of(subject.model, path)
        call = None if made is None else call_at(made, type(part).__name__)
        owner = parts.get(above)
        layer = _Layer(path, part, call, following.get(id(part), ""), pads.get(path))
        if made is not None and call is not None:
            yield layer, made.place
        elif made is None and owner is not None and _is_users(owner):
            yield layer, assigned_at(type(owner), name)


def _children(part: Any) -> list[Any]:
    return [child for child in (vars(part).get("_cells") or {}).values() if child is not None]


def _library_name(cls: type) -> str:
    """Return the library's class that a class is or derives from: the user's own may have any name."""
    return next((base.__name__ for base in cls.__mro__ if is_library_class(base)), "")


def _is_users(owner: Any) -> bool:
    """Whether the user's code registers what a Cell holds: its class is theirs, or a container."""
    return not is_library_class(type(owner)) or type(owner).__name__ in ("SequentialCell", "CellList")


def _judge_padding(layer: _Layer) -> Trap | None:
    """Judge a convolution that pads "same" by default; no trap if the window is one cell."""
    part = layer.part
    windows, strides = _as_numbers(part.kernel_size), _as_numbers(part.stride)
    if part.pad_mode != "same" or not layer.leaves_out("pad_mode"):
        return None
    if layer.name.endswith("Transpose"):
        if all(k == s for k, s in zip(windows, strides, strict=False)):
            return None  # both give size * stride
        return (
            f'`nn.{layer.name}` crops its output to size * stride (pad_mode="same" by default); '
            "torch's gives (size - 1) * stride + kernel - 2 * padding",
            'pad_mode="pad" with torch\'s padding, less its output_padding at the ends (padding=(1, 0, 1, 0) '
            'for torch\'s padding=1, output_padding=1), or pad_mode="same"',
        )
    if all(k == 1 for k in windows):
        return None
    pads, place = layer.pads, " at this input"
    if pads is None and all(n == 1 for n in strides):  # any size is padded alike
        pads, place = _compute_same(_axes(part, [None] * len(windows))), ""
    if pads is not None and not any(pads):
        return None
    advice = 'pad_mode="valid" for a torch layer without padding, pad_mode="pad", padding=… for one with it'
    if pads is None:
        shown = "as much as keeps size / stride"
    else:
        begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
        if begins == ends:
            shown = f"{_shorten(begins)} on each side{place}, as torch's does with padding={_shorten(begins)}"
            advice = f'pad_mode="pad", padding={_shorten(begins)}, or pad_mode="valid" as torch\'s default is'
        else:
            uneven = f"{_shorten(begins)} before and {_shorten(ends)} after"
            shown = f"{uneven}{place}, unlike any padding of torch"
    return (
        f'`nn.{layer.name}` pads {shown} (pad_mode="same" by default); torch\'s does not pad by default',
        advice,
    )


def _find_same_pads(graph: Graph) -> dict[str, list[int]]:
    """Return convolution's path -> pads of padding "same" at the graph's sizes, where known."""
    found: dict[str, list[int]] = {}
    for operator in graph.operators():
        if operator.op_type == "Conv" and operator.call is not None:
            pads = _compute_pads(graph, operator)
            if pads is not None:
                found.setdefault(graph.modules.path(graph.modules.call(operator.call).module), pads)
    return found


def _compute_pads(graph: Graph, operator: Operator) -> list[int] | None:
    operand = graph.operands(operator.key)[0]
    type_ = None if operand is None else graph.type_of(operand)
    kernel = operator.ints("kernel_shape")
    if operator.str("auto_pad") != "SAME_UPPER" or type_ is None or type_.shape is None or not kernel:
        return None
    strides, dilations = operator.spatial("strides", len(kernel)), operator.spatial("dilations", len(kernel))
    sizes = [n if isinstance(n, int) else None for n in type_.shape[2:]]
    return _compute_same(zip(sizes, kernel, strides, dilations, strict=True))


def _axes(part: Any, sizes: Sequence[int | None]) -> Iterator[tuple[int | None, int, int, int]]:
    """Yield (size, window, stride, dilation) of each spatial axis of a convolution; of a Conv1d, the last."""
    settings = [_as_numbers(part.kernel_size), _as_numbers(part.stride), _as_numbers(part.dilation)]
    kept = [numbers[-1:] if type(part).__name__ == "Conv1d" else numbers for numbers in settings]
    return zip(sizes[-len(kept[0]) :], *kept, strict=True)


def _compute_same(axes: Iterable[tuple[int | None, int, int, int]]) -> list[int] | None:
    """Return the pads of padding "same", begins before ends; None if they depend on an unknown size."""
    totals = [same_total(*axis) for axis in axes]
    if any(total is None for total in totals):
        return None
    pairs = [split_total(total or 0, "SAME_UPPER") for total in totals]
    return [begin for begin, _ in pairs] + [end for _, end in pairs]


def _judge_bias(layer: _Layer) -> Trap | None:
    """Judge a convolution without bias, unless a normalisation follows, which removes a bias."""
    if layer.part.has_bias or not layer.leaves_out("has_bias"):
        return None
    if layer.following.startswith(("BatchNorm", "InstanceNorm", "SyncBatchNorm")):
        return None
    return (
        f"`nn.{layer.name}` has no bias by default; torch's has one",
        "has_bias=True (its initial values are torch's), or has_bias=False where torch's has bias=False",
    )


def _judge_axes(layer: _Layer) -> Trap | None:
    rank = len(layer.part.normalized_shape)
    if rank < 2 or not layer.leaves_out("begin_norm_axis") or layer.part.begin_norm_axis != -1:
        return None
    return (
        f"`nn.LayerNorm({tuple(layer.part.normalized_shape)})` normalises the last axis, and refuses its own "
        f"weights; torch's normalises all {rank}",
        "begin_norm_axis=1, begin_params_axis=1 for inputs of "
        f"{rank + 1} axes (how many they have, less {rank})",
    )


def _judge_momentum(layer: _Layer) -> Trap | None:
    """Return a share of at most a half that is kept: 0.1 as torch's layers have it."""
    given = layer.given("momentum")
    if given is not None and not isinstance(given, ast.Constant):
        return None
    if given is not None and isinstance(given.value, (int, float)):
        kept = float(given.value)
    elif layer.call is None:
        kept = round(1.0 - float(layer.part.momentum), 7)  # which it stores turned round
    else:
        return None
    if not 0 < kept < 0.5:
        return None
    return (
        f"`nn.{layer.name}(momentum={kept:g})` keeps {kept:g} of the old statistics at each step; torch's "
        f"momentum={kept:g} keeps {1 - kept:g}",
        f"momentum={1 - kept:g}",
    )


def _judge_dropout(layer: _Layer) -> Trap | None:
    kept = layer.part.keep_prob
    if layer.part.p is not None or (layer.call is not None and layer.given("keep_prob") is None):
        return None  # a half is a half
    if layer.call is not None and any(k.arg == "keep_prob" for k in layer.call.keywords):
        return None  # said by name
    if kept == 0.5:
        return None
    return (
        f"`nn.Dropout({kept:g})` drops {1 - kept:g}: its first argument is the kept ratio; torch's "
        f"nn.Dropout({kept:g}) drops {kept:g}",
        f"nn.Dropout(p={kept:g}) for torch's, nn.Dropout(p={1 - kept:g}) for its present behaviour",
    )


def _judge_embedding(layer: _Layer) -> Trap | None:
    if layer.call is None or not layer.leaves_out("embedding_table"):
        return None
    return (
        "`nn.Embedding` is drawn from Normal(0.01) by default; torch's from Normal(1)",
        "embedding_table=Normal(1.0), of mindspore.common.initializer; nothing where weights are loaded",
    )


def _judge_stride(layer: _Layer) -> Trap | None:
    windows, strides = _as_numbers(layer.part.kernel_size), _as_numbers(layer.part.stride)
    if any(s != 1 for s in strides) or all(k == 1 for k in windows) or not layer.leaves_out("stride"):
        return None
    kernel = layer.given("kernel_size")
    window = _shorten([k for k in windows if k != 1] if layer.name.endswith("1d") else windows)
    return (
        f"`nn.{layer.name}` moves by 1 by default; torch's by its window, {window}",
        f"stride={window if kernel is None else ast.unparse(kernel)} for torch's default, stride=1 for this",
    )


_TRAPS: tuple[tuple[str, tuple[str, ...], Callable[[_Layer], Trap | None]], ...] = (
    ("PT101", ("Conv1d", "Conv2d", "Conv3d"), _judge_padding),
    ("PT102", ("Conv1d", "Conv2d", "Conv3d"), _judge_bias),
    ("PT106", ("LayerNorm",), _judge_axes),
    ("PT107", ("BatchNorm", "SyncBatchNorm"), _judge_momentum),
    ("PT108", ("Dropout",), _judge_dropout),
    ("PT109", ("Embedding",), _judge_embedding),
    ("PT110", ("MaxPool", "AvgPool"), _judge_stride),
)
"""Code, how the names of the layers begin, and what judges one."""


def _as_numbers(value: Any) -> list[int]:
    return [int(n) for n in value] if isinstance(value, (tuple, list)) else [int(value)]


def _shorten(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else str(tuple(numbers))


def _position(cls: type, argument: str) -> int:
    names = list(inspect.signature(cls).parameters)
    return names.index(argument) if argument in names else -1
