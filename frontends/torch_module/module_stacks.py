"""The stack of module calls that torch.export records with every node."""

from __future__ import annotations

from collections.abc import Mapping


def normalised_stack(stack: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keys of a module stack as ``path@n`` from the root, whose path is empty.

    While tracing they start with ``_export_root`` below a wrapper, in a finished program with ``L__self__``,
    twice over where the model assigns a buffer.
    """
    keys = list(stack)
    if "_export_root" in keys:
        keys = [k.removeprefix("_export_root").removeprefix(".") for k in keys[keys.index("_export_root") :]]
    elif keys and keys[0] and not keys[0].replace("L__self__", ""):
        keys = [k.removeprefix(keys[0]).removeprefix(".") for k in keys]
    else:
        return ()
    return tuple(keys)
