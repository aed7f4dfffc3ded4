"""The dialect of a framework: all that this folder asks about what its Python source looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from ...ir import Graph, Module, Parameter, TensorData
from .emitting import EmitterTable
from .expressions import NnClass, Part
from .helpers import HelperText
from .names import Names

MADE_LAYER = "layer"
"""The variable of a layer in the function that makes it and draws its parameters."""

ABSENT_PARAMETER = "None"
"""In place of the distribution of a parameter that the layer's constructor makes and the source lacks."""


@dataclass(frozen=True, slots=True)
class Net:
    """An emitted net, for what an emitted file builds and loads it with.

    Attributes:
        name: name of the root class.
        checkpoint: file name that is loaded by default.
        frozen: names of the parameters that are not trained.
        buffers: names of the tables that no distribution gives.
        undrawn: names of the parameters whose distribution nobody knows.
        holds: whether the net has any parameter.
        constants: file name of the constants that are stored apart from the checkpoint; empty for none.
        draws: whether a distribution gives any of its values.
        ties: further name of a parameter that several modules hold -> its first name.
    """

    name: str
    checkpoint: str
    frozen: Sequence[str] = ()
    buffers: Sequence[str] = ()
    undrawn: Sequence[str] = ()
    holds: bool = False
    constants: str = ""
    draws: bool = True
    ties: Mapping[str, str] = field(default_factory=dict[str, str])


def _unknown(parameter: Parameter) -> Part | None:  # noqa: ARG001 - a framework without distributions
    return None


def _none_idle(module: Module, held: Mapping[str, Parameter]) -> Part | None:  # noqa: ARG001 - no framework
    return None


def _no_lines(given: object, *more: object) -> list[str]:  # noqa: ARG001 - a framework that adds none
    return []


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The facts about a framework that Python source for it depends on.

    Attributes:
        framework: its name, for readers.
        base: the class that a module of the file's own derives from.
        sequential: the class that chains layers.
        module_list: the class that holds layers, and calls none.
        parameter_list: the class that holds parameters by number; None for none.
        calls_lists: whether a class that computes may be such a list.
        method: the method that a class computes in.
        is_traced: whether a compiler reads the method, in which a variable of a loop alone ends with it.
        emitters: how operators are written.
        computed: how operators are written whose settings a run computes; asked where `emitters` refuse.
        helpers: functions and classes of an emitted file's own, each behind those that it uses.
        names: the names that nothing in a file may take.
        constant: returns a constant as source; None where it is too long for that.
        stored_constant: returns how a class holds a constant whose values are the checkpoint's, by its name.
        constants_file: name of the file for constants that are no part of a checkpoint; empty where they are.
        parameter: returns how a class holds a parameter, by its name.
        distribution: returns a parameter's initial distribution; None where nobody knows it.
        size_tensor: returns a tensor of sizes: of the sizes, "int" or "tuple", an element type, and whether
            only a run gives them.
        concatenation: the function that joins tensors.
        registration: the method of the base class that registers a tensor by name, for attributes whose
            constructor is a call of it; empty for a framework in which assignment does.
        drawing: end of the names of arguments for initial distributions that no layer of the framework takes:
            they become statements behind the layer, there `MADE_LAYER`; empty where layers take them.
        keeps: framework of sources whose unread parameters its classes hold, so that checkpoints load into
            both; empty for none.
        idle_layer: returns the constructor of a layer that never runs, which holds these parameters by
            attribute; None where it has none.
        counter: name and constructor of the whole number that a class with running statistics of its own has
            beside them where the source has it, and that no operator reads; None for none.
        activated: (class of the source, argument) of the layer that is given its activation; None for none.
        distribution_arguments: names of the arguments for initial distributions.
        bias_argument: name of the argument that says whether a layer has a bias.
        missing: advice where an operator can be neither emitted nor expanded.
        imports: returns import statements for the names that a file reads and those that it calls.
        notes: returns sentences on what the framework computes otherwise, for a file's head.
        build: returns the end of a file: what makes the net and loads its checkpoint.
    """

    framework: str
    base: NnClass
    sequential: NnClass
    module_list: NnClass
    emitters: EmitterTable
    constant: Callable[[np.ndarray, str], Part | None]
    stored_constant: Callable[[TensorData, str], Part]
    parameter: Callable[[Parameter, str], Part]
    build: Callable[[Net], str]
    parameter_list: NnClass | None = None
    calls_lists: bool = False
    method: str = "forward"
    is_traced: bool = False
    computed: EmitterTable = field(default_factory=EmitterTable)
    helpers: Mapping[str, HelperText] = field(default_factory=dict[str, HelperText])
    names: Names = field(default_factory=Names)
    distribution: Callable[[Parameter], Part | None] = _unknown
    size_tensor: Callable[[Part, str, str, bool], Part] | None = None
    concatenation: str = ""
    constants_file: str = ""
    registration: str = ""
    drawing: str = ""
    keeps: str = ""
    idle_layer: Callable[[Module, Mapping[str, Parameter]], Part | None] = _none_idle
    counter: tuple[str, Part] | None = None
    activated: tuple[str, str] | None = None
    distribution_arguments: frozenset[str] = frozenset()
    bias_argument: str = "bias"
    missing: str = ""
    imports: Callable[[Set[str], Set[str]], list[str]] = _no_lines
    notes: Callable[[Graph], list[str]] = _no_lines
