"""Runners whose weights stay as they are in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ...ir import ModelError


class FixedWeights:
    """A mixin that precedes a runner among the bases of a model that runs in pieces."""

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Refuse: other values of all weights would not fit into memory.

        Raises:
            ModelError: E702, always.
        """
        del change, call, only
        raise ModelError("E702", "the weights of a model that runs in pieces stay as they are in its file")
        yield
