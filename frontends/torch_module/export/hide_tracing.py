"""Tracing code that asks whether it is traced, and then takes a way that its model was not written for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .patches import patched


@contextmanager
def told_that_it_runs() -> Iterator[None]:
    """The model's code is told that it is not traced.

    transformers makes no mask where nothing is masked, except while it is traced: some of its models fail on
    the mask that they then get.
    """
    fakes: Any = importlib.import_module("torch._subclasses")

    class Other(fakes.FakeTensor):
        """What no value of a trace is."""

    def never() -> bool:
        return False

    with (
        patched("torch.compiler", is_compiling=never, is_exporting=never),
        patched("torch._subclasses", FakeTensor=Other),
    ):
        yield
