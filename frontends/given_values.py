"""Assigns the values of a file to a model's parameters by name, with none left over on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir import ModelError, TensorData, near_names
from .options import LoadOptions

_SHOWN = 5
_COUNTERS = ("total_ops", "total_params")
"""Buffers that `thop.profile` registers in every module, beside the parameters."""


def hint_on_counters(unknown: Sequence[str]) -> str:
    """Return what to do about names that only a profiler's counters have; empty for other names."""
    if not unknown or any(name.rpartition(".")[2] not in _COUNTERS for name in unknown):
        return ""
    return (
        "these are counters that thop.profile registers as buffers: save the model before it is profiled, or "
        "without them: `{k: v for k, v in state.items() if not k.endswith(('total_ops', 'total_params'))}`"
    )


def fit_values(
    wanted: Mapping[str, tuple[int, ...]],
    given: Mapping[str, TensorData],
    tied: Sequence[Sequence[str]] = (),
    optional: Sequence[str] = (),
    dtypes: Mapping[str, str] | None = None,
) -> dict[str, TensorData]:
    """Return the value of every name that a model wants.

    Args:
        wanted: name -> shape, of all that the model stores.
        given: the file's tensors.
        tied: names of one tensor each; a file may have any of them.
        optional: names that a file may lack.
        dtypes: name -> element type; the file's may be another one of its kind, floating-point or not.

    Raises:
        ModelError: E801, with every name that is missing, unknown or of another shape, and the near ones;
            or of another kind of numbers; or where names of one tensor have two values.
    """
    found = {name: data for name, data in given.items() if name in wanted}
    for names in tied:
        held = [name for name in names if name in found]
        if held:
            _require_one_value(held, found)
            found.update((name, found[held[0]]) for name in names if name not in found)
    missing = [name for name in wanted if name not in found and name not in optional]
    unknown = [name for name in given if name not in wanted]
    other = [name for name, data in found.items() if tuple(data.shape) != wanted[name]]
    kinds = [
        name
        for name, type_ in (dtypes or {}).items()
        if name in found and _kind(found[name].dtype) != _kind(type_)
    ]
    if not (missing or unknown or other or kinds):
        return found
    lines = [
        *(f"`{n}` is {list(wanted[n])} in the model and {list(found[n].shape)} in the file" for n in other),
        *(f"`{n}` is {(dtypes or {})[n]} in the model and {found[n].dtype} in the file" for n in kinds),
        *(f"`{n}` is not in the file{_near(n, unknown)}" for n in missing),
        *(f"`{n}` is not in the model" for n in unknown),
    ]
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    raise ModelError(
        "E801",
        "expected a file with the model's parameters: " + "; ".join([*lines[:_SHOWN], *more]),
        hint=(hint_on_counters(unknown) if len(lines) == len(unknown) else "")
        or "regraft convert-checkpoint converts a file of another framework, or with other names, to the "
        "model's",
    )


def with_names_of(
    wanted: Mapping[str, tuple[int, ...] | None],
    given: Mapping[str, TensorData],
    options: LoadOptions | None,
) -> Mapping[str, TensorData]:
    """Return a file's tensors by the names that a model wants, as far as options say how names are aligned.

    Args:
        wanted: name -> shape, None where it is not known.
        given: the file's tensors.
        options: get notes of what was left out of names.
    """
    if options is None or options.align is None:
        return given
    return options.align(given, wanted, options.noted)


def _require_one_value(names: Sequence[str], found: Mapping[str, TensorData]) -> None:
    """Check that a file has one value under all names of a tensor: the model could keep only one of several.

    Raises:
        ModelError: E801 otherwise.
    """
    first, *others = names
    for name in others:
        if found[name].content_digest() != found[first].content_digest():
            raise ModelError(
                "E801",
                f"expected one value of `{first}` and `{name}`, which are one tensor in the model, got two",
                hint="a file with two values comes from a model in which they are not tied",
            )


def _kind(dtype: str) -> str:
    """Return the kind of a type's numbers: integers that stand for weights are not weights without scales."""
    return next((kind for kind in ("complex", "float") if kind in dtype), "integer")


def _near(name: str, unknown: Sequence[str]) -> str:
    near = near_names(name, unknown, 1, 0.6)
    return f", which has `{near[0]}`" if near else ""
