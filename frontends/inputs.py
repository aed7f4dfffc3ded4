"""Example inputs: specs such as ``2x3x224x224`` or ``ids=2x16:int64``, and arrays made from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from math import prod
from typing import Any, Protocol

import numpy as np

from ..ir import Array, UsageError, numpy_dtype
from ..ir.types import DTYPES

_DRAWN = DTYPES - {"string"}
_DIGITS, _MOST_AXES, _LARGEST, _CHUNK = 18, 32, 1 << 26, 1 << 20


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Shape and element type of one input; `name` is empty for a positional one.

    Attributes:
        name: its name.
        shape: its sizes.
        dtype: its element type.
        bounds: the least value and the one that none reaches; None where the element type says it all.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    bounds: tuple[int, int] | None = None

    @staticmethod
    def parse(text: str) -> InputSpec:
        """Read ``[NAME=]SHAPE[:DTYPE][[LOW,HIGH)]``; a scalar's SHAPE is ``scalar``.

        Raises:
            UsageError: when `text` is not of that form.
        """
        found = _BOUNDED.fullmatch(text)
        bounds = None if found is None else (int(found["low"]), int(found["high"]))
        name, _, rest = (text if found is None else found["spec"]).rpartition("=")
        shape, _, dtype = rest.partition(":")
        dims = [] if shape == "scalar" else shape.lower().split("x")
        digits = all(d.isascii() and d.isdigit() and len(d) <= _DIGITS for d in dims)
        if not digits or (dtype and dtype not in _DRAWN):
            raise UsageError(
                "E001",
                "expected an input such as `2x3x224x224`, `ids=2x16:int64`, `ids=2x16:int64[0,100)` or "
                f"`offsets=@file.npy`, got `{text}`",
                hint=_spelling(name, shape, dtype) or f"element types: {', '.join(sorted(_DRAWN))}",
            )
        spec = InputSpec(name.strip(), tuple(int(d) for d in dims), dtype or "float32", bounds)
        spec.require_size()
        spec.require_bounds()
        return spec

    def require_bounds(self) -> None:
        """Check that the element type has values within the bounds.

        Raises:
            UsageError: when there is none.
        """
        if self.bounds is None:
            return
        low, high = self.bounds
        kind = np.dtype(numpy_dtype(self.dtype)).kind
        info = np.iinfo(numpy_dtype(self.dtype)) if kind in "iu" else None
        if low >= high or kind not in "iuf" or (info and not info.min <= low < high <= info.max + 1):
            raise UsageError(
                "E001", f"expected a range of {self.dtype} such as `[0,100)`, got `[{low},{high})`"
            )

    def require_size(self) -> None:
        """Check that the array can be made.

        Raises:
            UsageError: E106 when it would be larger than any example needs to be, or of too many axes.
        """
        size = prod(max(d, 1) for d in self.shape) * numpy_dtype(self.dtype).itemsize
        if size > _LARGEST or len(self.shape) > _MOST_AXES:
            of = f" `{self.name}`" if self.name else ""
            raise UsageError(
                "E106",
                f"expected an example{of} of at most {_LARGEST >> 20} MB and {_MOST_AXES} axes, "
                f"got {list(self.shape[: _MOST_AXES + 1])} of {self.dtype}",
                hint="a smaller example is enough: sizes may stay symbolic (--dynamic)",
            )

    def array(self, seed: int = 0, high: int = 2) -> Array:
        """Return a seeded array: within bounds; else normal for floats, below `high` for integers.

        Raises:
            UsageError: as `require_size` does.
        """
        self.require_size()
        random = np.random.default_rng(seed)
        if self.bounds is not None:
            return drawn_within(random, self.bounds, self.shape, numpy_dtype(self.dtype))
        if self.dtype == "bool":
            return random.random(self.shape) < 0.5
        if self.dtype.startswith(("int", "uint")):
            return random.integers(0, high, self.shape).astype(self.dtype)
        array = np.empty(self.shape, numpy_dtype(self.dtype))
        flat = array.reshape(-1)
        for at in range(0, flat.size, _CHUNK):  # the numbers of one draw, without all of them in float64
            flat[at : at + _CHUNK] = random.standard_normal(min(_CHUNK, flat.size - at))
        return array


_BOUNDED = re.compile(r"(?P<spec>.*)\[(?P<low>-?\d{1,18}),\s*(?P<high>-?\d{1,18})\)")


def drawn_within(
    random: np.random.Generator, bounds: tuple[int, int], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Return values between bounds, of which the upper one is not reached."""
    if np.dtype(dtype).kind in "iu":
        return random.integers(*bounds, shape).astype(dtype)
    return np.asarray(random.uniform(*bounds, shape), dtype)


class Shaped(Protocol):
    """An array or a framework's tensor."""

    @property
    def shape(self) -> Any:
        """Its sizes."""
        ...


Inputs = Sequence[object] | Mapping[str, object] | Shaped | None
"""A caller's inputs: arrays, framework tensors or specs, by position or by name; or one alone."""


def as_arrays(inputs: Inputs, seed: int = 0) -> list[tuple[str, Any]]:
    """Return (name, array) of every input; the name is empty for a positional one.

    One spec or array alone is the only input. Specs (text or `InputSpec`) become seeded arrays, framework
    tensors become NumPy arrays. A tuple, list or dict of such stays one, of arrays. None, a number and a
    truth value stay what they are, and so does a text that is no spec and given by name.

    Raises:
        UsageError: for something that is neither.
    """
    if inputs is None:
        return []
    if isinstance(inputs, str) or not isinstance(inputs, (Sequence, Mapping)):
        inputs = (inputs,)
    named = inputs.items() if isinstance(inputs, Mapping) else (("", value) for value in inputs)
    out: list[tuple[str, Any]] = []
    for position, (name, value) in enumerate(named):
        if isinstance(value, str) and (not name or _SPEC.fullmatch(value)):
            value = InputSpec.parse(value)
        if isinstance(value, InputSpec):
            out.append((name or value.name, value.array(seed + position)))
        else:
            out.append((name, _nested(value)))
    return out


def with_nests(
    inputs: Sequence[tuple[str, Any]], parameters: Mapping[str, Any], kind: type[list[Any] | tuple[Any, ...]]
) -> list[tuple[str, Any]]:
    """Return inputs with one list, tuple or dict in place of those that are named as parts of an argument.

    ``feats.0`` and ``feats.1`` are two parts of a list or tuple called ``feats``, ``batch.image`` is one of a
    dict, ``past.0.1`` lies two deep. ``feats_0``, which a graph calls its input, says the same.

    Args:
        inputs: (name or "", value) of every input.
        parameters: the arguments that the model takes, with their annotations.
        kind: what parts with numbers make where the annotation does not say it.

    Raises:
        UsageError: when parts are numbered with a gap, or named and numbered.
    """
    found: list[tuple[str, Any]] = []
    nests: dict[str, dict[str, Any]] = {}
    for name, value in inputs:
        head, *way = [name] if name in parameters else name.split(".")
        if head not in parameters and (numbered := _NUMBERED.fullmatch(name)) is not None:
            head, way = numbered[1], numbered[2].split("_")
        if not way or head not in parameters:
            found.append((name, value))
            continue
        if head not in nests:
            nests[head] = {}
            found.append((head, nests[head]))
        inside = nests[head]
        for step in way[:-1]:
            inside = inside.setdefault(step, {})
            if not isinstance(inside, dict):
                raise _misnamed(name)
        if way[-1] in inside:
            raise _misnamed(name)
        inside[way[-1]] = value
    return [
        (
            name,
            _built(value, name, _kind(parameters[name], kind))
            if name in nests and value is nests[name]
            else value,
        )
        for name, value in found
    ]


_NUMBERED = re.compile(r"(.+?)_(\d+(?:_\d+)*)")


def _kind(annotation: object, default: type[Any]) -> type[Any]:
    """Return the container that an annotation states for numbered parts."""
    names = re.findall(r"\b([Tt]uple|[Ll]ist|Sequence)\b", str(annotation))
    if not names:
        return default
    return tuple if names[0].lower() == "tuple" else list


def _built(parts: dict[str, Any], name: str, kind: type[Any]) -> Any:
    values = {
        key: _built(part, f"{name}.{key}", kind) if isinstance(part, dict) else part
        for key, part in parts.items()
    }
    if not any(key.isdigit() for key in values):
        return values
    if set(values) != {str(i) for i in range(len(values))}:
        raise _misnamed(f"{name}.{max(values)}")
    return kind(values[str(i)] for i in range(len(values)))


def _misnamed(name: str) -> UsageError:
    return UsageError(
        "E001",
        f"expected the parts of an input numbered from 0 or named, each once, got `{name}`",
        hint="a list is given by --input feats.0=SHAPE --input feats.1=SHAPE, a dict by "
        "--input batch.image=SHAPE --input batch.mask=SHAPE",
    )


def holds_values(inputs: object) -> bool:
    """Whether some input is given by its values, an array or a tensor, rather than by its shape."""
    if isinstance(inputs, Mapping):
        return holds_values(list(inputs.values()))
    if isinstance(inputs, (list, tuple)):
        return any(map(holds_values, inputs))
    return _is_array(inputs) or bool(parts_of(inputs))


_SPEC = re.compile(r"(.*=)?(scalar|\d+(x\d+)*)(:\w+)?(\[.*\))?", re.IGNORECASE)


def bounds_of(inputs: Inputs) -> list[tuple[str, tuple[int, int] | None]]:
    """Return (name, bounds) of every array of inputs as `as_arrays` gives them, in order."""
    if inputs is None:
        return []
    if isinstance(inputs, str) or not isinstance(inputs, (Sequence, Mapping)):
        inputs = (inputs,)
    found: list[tuple[str, tuple[int, int] | None]] = []
    for name, value in inputs.items() if isinstance(inputs, Mapping) else (("", value) for value in inputs):
        if isinstance(value, str) and (not name or _SPEC.fullmatch(value)):
            value = InputSpec.parse(value)
        if isinstance(value, InputSpec):
            found.append((name or value.name, value.bounds))
        else:
            found += [(name, None) for _ in arrays_of(_nested(value))]
    return found


def is_nested(value: object) -> bool:
    """Whether an input is a nest of arrays rather than one."""
    return isinstance(value, (tuple, list, dict)) or is_dataclass(value) or bool(parts_of(value))


def parts_of(value: object) -> dict[str, Any]:
    """Return the attributes of an object, such as a cache, that hold arrays or tensors; none of an array."""
    if not hasattr(value, "__dict__") or _is_array(value) or callable(value):
        return {}
    return {name: part for name, part in vars(value).items() if _holds_arrays(part)}


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "asnumpy") or hasattr(value, "detach")


def _holds_arrays(value: object, depth: int = 4) -> bool:
    if _is_array(value):
        return True
    if not depth or callable(value):
        return False
    if isinstance(value, (dict, list, tuple)):
        inside: Iterable[object] = value.values() if isinstance(value, dict) else value
    else:
        inside = getattr(value, "__dict__", {}).values()
    return any(_holds_arrays(part, depth - 1) for part in inside)


def arrays_of(value: Any) -> Iterator[Array]:
    """Yield the arrays of an input as `as_arrays` gives it, in order; numbers and texts are none."""
    if isinstance(value, np.ndarray):
        yield value
    elif is_dataclass(value):
        yield from (a for f in fields(value) for a in arrays_of(getattr(value, f.name)))
    elif isinstance(value, (tuple, list, dict)):
        yield from (a for v in (value.values() if isinstance(value, dict) else value) for a in arrays_of(v))
    else:
        yield from (a for part in parts_of(value).values() for a in arrays_of(part))


def _nested(value: Any) -> Any:
    """Return an array, or where a container holds more than numbers, the container with arrays in it."""
    if isinstance(value, dict):
        new = copy(value)  # of its class, which may have more to it
        for name, inner in value.items():
            new[name] = _nested(inner)
        return new
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _nested(getattr(value, f.name)) for f in fields(value)})
    if parts := parts_of(value):
        new = copy(value)
        new.__dict__.update((name, _nested(part)) for name, part in parts.items())
        return new
    if not isinstance(value, (tuple, list)) or _is_numbers(value):
        return _array(value)
    inside = [_nested(inner) for inner in value]
    if hasattr(value, "_fields"):  # a named tuple
        return type(value)(*inside)
    return tuple(inside) if isinstance(value, tuple) else inside


def _is_numbers(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return not hasattr(value, "_fields") and all(map(_is_numbers, value))
    return isinstance(value, (int, float, bool, np.generic))


def _array(value: Any) -> Array | float | str | None:
    if value is None or isinstance(value, (int, float, bool, str)):
        return value
    if hasattr(value, "asnumpy"):  # mindspore.Tensor
        return np.asarray(value.asnumpy())
    if hasattr(value, "detach"):  # torch.Tensor
        tensor = value.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":  # which NumPy lacks; by way of float32 it is exact
            return tensor.float().numpy().astype(numpy_dtype("bfloat16"))
        try:
            return np.asarray(tensor.numpy())
        except TypeError:  # torch's, for a sparse tensor and for element types that NumPy lacks
            layout, kind = (str(part).removeprefix("torch.") for part in (tensor.layout, tensor.dtype))
            raise UsageError(
                "E001",
                f"expected tensors that NumPy can hold as inputs, got {kind} in the layout {layout}",
                hint="give them dense, in a type that NumPy has, and convert them within the model",
            ) from None
    if isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return np.asarray(value)
    raise UsageError("E001", f"expected an array, a tensor or a spec as input, got `{type(value).__name__}`")


def _spelling(name: str, shape: str, dtype: str) -> str:
    """Return the --input form of a shape in Python's form; empty for any other text."""
    sizes = [part.strip() for part in shape.strip("()[] ").rstrip(",").split(",")]
    if not all(size.isascii() and size.isdigit() for size in sizes) or len(shape) > _DIGITS * 8:
        return ""
    return f"write `{name + '=' if name else ''}{'x'.join(sizes)}{':' + dtype if dtype else ''}`"


def by_input_name(inputs: Inputs, names: Sequence[str]) -> dict[str, Array] | None:
    """Return the inputs a caller gave, by the graph's input names; None for none."""
    if inputs is None:
        return None
    given = [
        (name if isinstance(value, np.ndarray) else "", array)
        for name, value in as_arrays(inputs)
        for array in arrays_of(value)
    ]
    return {name or names[at]: array for at, (name, array) in enumerate(given) if name or at < len(names)}
