"""Objects of classes that torch's weights-only reader does not know: stand-ins, of which nothing is run.

A training checkpoint has settings and scores beside its weights (``argparse.Namespace``, NumPy's numbers),
which nobody asks for here. In the place of each such class stands an empty one: what makes an object of it,
or fills it, makes nothing and keeps nothing.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StandIn:
    """What stands for an object of a class that is not known.

    Attributes:
        name: of that class.
    """

    name = ""

    def __new__(cls, *_: object, **__: object) -> StandIn:  # noqa: D102 - takes what the class would
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


_MOST = 256
"""Classes of one file that are stood for: torch looks all of them through for every object."""


class _Known(dict[str, Any]):
    """The functions and classes that torch allows, and a stand-in for any other."""

    def __init__(self, allowed: dict[str, Any]) -> None:
        super().__init__(allowed)
        self._most = len(allowed) + _MOST
        for name in ("torch._tensor._rebuild_from_type_v2", "torch._utils._rebuild_wrapper_subclass"):
            if name in allowed:
                self[name] = _of_known_class(allowed[name])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> type[StandIn]:
        if len(self) > self._most:
            raise pickle.UnpicklingError(f"expected at most {_MOST} unknown classes")
        self[name] = type("StandIn", (StandIn,), {"name": name.removeprefix("builtins.")})
        return self[name]


def _of_known_class(rebuild: Any) -> Any:
    """A function of torch that makes a tensor of a class: a stand-in where the class is one."""

    def rebuilt(*arguments: Any) -> Any:
        kind = next((a for a in arguments if isinstance(a, type) and issubclass(a, StandIn)), None)
        return rebuild(*arguments) if kind is None else kind()

    return rebuilt


@contextmanager
def unknown_classes_stand_in() -> Iterator[None]:
    """A with block in which torch's weights-only reader makes stand-ins of what it would refuse by name."""
    reader: Any = importlib.import_module("torch._weights_only_unpickler")
    original = reader._get_allowed_globals
    known = _Known(original())
    reader._get_allowed_globals = lambda: known
    try:
        yield
    finally:
        reader._get_allowed_globals = original
