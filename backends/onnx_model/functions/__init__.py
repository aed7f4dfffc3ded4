"""Writes the classes of modules that are called several times as functions of an ONNX model.

`regions.py` finds the nodes of each module call, `bodies.py` the calls that can be calls of one function, and
`outlining.py` writes functions and calls. `ir/outside/onnx_functions.py` puts the bodies back.
"""

from __future__ import annotations

from .outlining import outline
from .regions import Calls

__all__ = ["Calls", "outline"]
