"""A caller's options for loading a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..ir import TensorData


Tensors: TypeAlias = "Mapping[str, TensorData]"
Align: TypeAlias = "Callable[[Tensors, Mapping[str, tuple[int, ...] | None], list[str]], Tensors]"
"""Gives tensors the names of a model's, whose shapes it gets, and adds notes."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of every frontend.

    Attributes:
        params: file with the parameters, or None for those of the model, or beside it (MXNet).
        values: reads the tensors of that file, and adds notes.
        align: gives tensors the names of a model's, of which it gets the shapes, and adds notes.
        noted: what was noted of the values.
        meta: whether a torch model is made without values for its parameters, which `params` has.
        dynamic_batch: whether axis 0 of the inputs that share the example's batch becomes symbolic.
        dynamic: input name -> axes that become symbolic instead.
        constants: input of an ONNX model -> the value that it always has, in place of an input.
        arguments: constructor arguments of a class or factory named as ``file.py:Name``.
        trust: whether what a ``.pt2`` file pickles, imports or evaluates may run.
        partial: whether torch operators without a lowering become stubs instead of an error.
        keep_prints: whether what a Cell prints, dumps and summarises stays in emitted source.
        own: whether the model was made for this call alone, which may give lazy layers their parameters.
    """

    params: Path | None = None
    dynamic_batch: bool = True
    dynamic: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)
    partial: bool = False
    trust: bool = False
    keep_prints: bool = False
    own: bool = False
    values: Callable[[Path, list[str]], Mapping[str, TensorData]] | None = None
    align: Align | None = None
    noted: list[str] = field(default_factory=list)
    meta: bool = False
    constants: Mapping[str, object] = field(default_factory=dict)
