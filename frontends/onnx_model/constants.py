"""Values that a caller gives of a model's inputs: as examples, or for good."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import ModelError, TensorType, numpy_dtype
from ...ir.outside.names import near_names
from ...ir.types import dtype_name


def fit_to_type(name: str, array: np.ndarray, type_: TensorType) -> np.ndarray:
    """Return the value of an input as the file declares it.

    Raises:
        ModelError: when shape or kind of element do not fit (E103).
    """
    shape = type_.shape
    fits = shape is None or (
        len(shape) == array.ndim
        and all(not isinstance(d, int) or d == n for d, n in zip(shape, array.shape, strict=True))
    )
    if not fits:
        raise ModelError("E103", f"expected {type_} as `{name}`, got {list(array.shape)}")
    if dtype_name(array.dtype) != type_.dtype:
        if array.dtype.kind not in "fiub" or "string" in type_.dtype:
            raise ModelError("E103", f"expected {type_} as `{name}`, got {array.dtype}")
        array = array.astype(numpy_dtype(type_.dtype))
    return array


def take_constants(given: Mapping[str, object], declared: dict[str, TensorType]) -> dict[str, np.ndarray]:
    """Return the values of inputs that are constants from now on, and remove these from the inputs.

    A lone number stands for a vector of one element too.

    Args:
        given: input name -> number, list or array.
        declared: input name -> type, as the file has them.

    Raises:
        ModelError: for an input that there is not, or a value that does not fit it (E103).
    """
    found: dict[str, np.ndarray] = {}
    for name, value in given.items():
        if name not in declared:
            near = near_names(name, declared, 1)
            raise ModelError(
                "E103",
                f"expected an input among {', '.join(declared) or 'none'}, got `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else "",
            )
        type_ = declared[name]
        try:
            array = np.asarray(value)
            array = array.astype(np.int64) if not array.size and array.dtype.kind == "f" else array
            if array.dtype.kind not in "fiub":
                raise TypeError
            array = array.reshape(1) if not array.ndim and type_.rank == 1 else array
            fitted = fit_to_type(name, array, type_)
            exact = bool(np.all(fitted == array)) if "float" not in type_.dtype else True
        except (ValueError, TypeError, OverflowError):  # lists of lists of several lengths, among others
            exact, fitted = False, np.zeros(0)
        if not exact:
            raise ModelError("E103", f"expected {type_} as `{name}`, got {str(value)[:60]}")
        found[name] = fitted
        del declared[name]
    return found
