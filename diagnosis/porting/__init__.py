"""Traps of porting from PyTorch: what the same call means in both, measured, and how to write it out."""

from __future__ import annotations

from ...passes import Change
from ..subject import Subject
from .functions import CODES as OF_FUNCTIONS
from .functions import find as find_in_functions
from .layers import CODES as OF_LAYERS
from .layers import find as find_in_layers
from .scripts import CODES as OF_SCRIPTS
from .scripts import find as find_in_scripts

CODES: dict[str, str] = {**OF_LAYERS, **OF_FUNCTIONS, **OF_SCRIPTS}
"""Code -> what the trap is, in one line."""


def find_traps(subject: Subject) -> list[Change]:
    """Return the traps in a MindSpore model and its file; none in a model of another framework."""
    if subject.framework != "mindspore":
        return []
    return [*find_in_layers(subject), *find_in_functions(subject), *find_in_scripts(subject)]
