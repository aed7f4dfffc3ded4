"""Tracing code that asks whether it is traced, and then takes a way that its model was not written for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .patches import patched


@contextmanager
def pretend_to_run() -> Iterator[None]:
    """Hide from the model's code, in a with block, that it is traced.

    transformers makes no mask where nothing is masked, except while it is traced: some of its models fail on
    the mask that they then get.
    """
    fakes: Any = importlib.import_module("torch._subclasses")

    class Other(fakes.FakeTensor):
        """A value that no trace has."""

    def never() -> bool:
        return False

    with (
        patched("torch.compiler", is_compiling=never, is_exporting=never),
        patched("torch._subclasses", FakeTensor=Other),
    ):
        yield
