"""Evaluation mode for the time of a capture, after which the module is as it was."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

_CONTAINERS = (dict, OrderedDict, list, set)


@contextmanager
def evaluation(module: Module) -> Iterator[None]:
    """Evaluation mode without calling the model's own `train`; every attribute is put back afterwards.

    So is what the module's own dicts, lists and sets hold: a forward that keeps what it computed (a table of
    biases) would keep torch.export's tensors without values.
    """
    import torch

    modules = list(module.modules())
    saved = [(m, dict(m.__dict__), _contents(m)) for m in modules]
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the layer's parts
    for m in modules:
        m.training = False
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        for m, attributes, contents in saved:
            m.__dict__.clear()
            m.__dict__.update(attributes)
            for container, before in contents:
                if _members(container) != _members(before):
                    container.clear()
                    (container.extend if isinstance(container, list) else container.update)(before)


def _contents(module: Module) -> list[tuple[Any, Any]]:
    """Every container among the attributes, its parameters and children too, and what it holds."""
    return [(v, copy(v)) for v in module.__dict__.values() if type(v) in _CONTAINERS]


def _members(container: Any) -> list[Any]:
    """What tells two states of a container apart without comparing tensors, order included."""
    if isinstance(container, dict):
        return [(key, id(value)) for key, value in container.items()]
    return [id(value) for value in container]
