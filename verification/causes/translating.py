"""Writes a call of the source's in the target's framework, and keeps what gives the source's values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...frontends.function_arguments import KIN
from .calls import EMPTY, given_to, has_tensor, rooms
from .changes import literal
from .hosts import Host
from .tape import Record, Ref, leaves
from .values import are_close


def translated(record: Record, arrays: dict[Ref, np.ndarray], host: Host) -> str:
    """The source's call as it is written in another framework; empty where none gives the same values.

    Args:
        record: the call.
        arrays: the values that enter it.
        host: the framework to write it in.
    """
    if host.name != "mindspore" or len(record.arrays) != 1:
        return ""
    for text, call in _spellings(record, arrays, host):
        array = _computed(call, host)
        if array is not None and are_close(array, record.arrays[0], 1e-5):
            return text
    return ""


def _computed(call: Callable[[], Any], host: Host) -> np.ndarray | None:
    """What a call gives; None where it gives no tensor, or refuses its arguments."""
    try:
        result = call()
        arrays = [host.array(t) for t in leaves(result) if host.is_tensor(t)]  # which waits for its kernels
        return arrays[0] if host.is_tensor(result) else None
    except Exception:  # a function of the same name may take something else
        return None


def _spellings(record: Record, arrays: dict[Ref, np.ndarray], host: Host) -> Iterator[tuple[str, Any]]:
    """(source code, what computes it) of the functions of the same name."""
    name = record.name if record.kind != "layer" else _LAYERS.get(record.name, record.name.lower())
    if record.kind == "operator":
        operands = [_value(leaf, arrays, host) for leaf in record.args]
        if record.name in ("+", "-", "*", "/") and len(operands) == 2:
            texts = [literal(o) if isinstance(o, (int, float)) else "x" for o in operands]
            if texts.count("x") == 1:
                yield f" {record.name} ".join(texts), lambda: record.function(*operands)
        return
    given = given_to(record, host)
    values = {} if given is None else given.values
    tensors = [
        _value(leaf, arrays, host)
        for leaf in leaves((record.args, record.kwargs))
        if isinstance(leaf, Ref) or hasattr(leaf, "shape")
    ]
    settings = {
        k: v
        for k, v in values.items()
        if v is not EMPTY and not has_tensor(v, host) and not hasattr(v, "shape")
    }
    for title, room in rooms().items():
        function = getattr(room, name, None)
        if function is None:
            continue
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
        names = list(parameters)[len(tensors) :]
        chosen = {
            theirs: settings[mine]
            for theirs in names
            if (mine := next((n for n in (theirs, *KIN.get(theirs, ())) if n in settings), None)) is not None
            and settings[mine] != parameters[theirs].default
            and settings[mine] is not None
        }
        texts = [record.site.operand(at) for at in range(len(tensors))]
        named = (
            texts if all(map(str.isidentifier, texts)) and len(set(texts)) == len(texts) else ["x", "y", "z"]
        )
        shown = ", ".join([*named[: len(tensors)], *(f"{k}={literal(v)}" for k, v in chosen.items())])
        yield f"{title}.{name}({shown})", lambda f=function, c=chosen: f(*tensors, **c)


_LAYERS = {
    "LeakyReLU": "leaky_relu",
    "LogSoftmax": "log_softmax",
    "PReLU": "prelu",
    "PixelShuffle": "pixel_shuffle",
    "LogSigmoid": "logsigmoid",
}


def _value(leaf: Any, arrays: dict[Ref, np.ndarray], host: Host) -> Any:
    if isinstance(leaf, Ref):
        return host.tensor(arrays[leaf])
    return host.tensor(np.asarray(leaf.detach())) if hasattr(leaf, "detach") else leaf
