"""The ways in which torch.export is made to take a model: two ordered tuples, tried until one works.

`SIZES` says which sizes stay symbolic; each of its ways exports by the first of `TRACINGS` that works.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....ir import ModelError
from .constant_numbers import LIMIT, numbers_of_constants, writes_numbers
from .export_errors import DecidedNumber, is_refusal
from .hide_tracing import pretend_to_run
from .numpy_by_torch import gives_numpy, numpy_by_torch
from .on_data.branch_by_example import Decision, decided_by_example, depends_on_data, numbers_fixed
from .on_data.nonzero_loops import loops_over_every_place
from .on_data.selections import Asked, asks_for_size, many_selected
from .substitutes import substituted
from .symbolic_builtins import numbers_taken, symbolic_lengths

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from .capture import Captured

Export = Callable[[], "ExportedProgram"]


@dataclass(frozen=True, slots=True)
class Traced:
    """A program.

    Attributes:
        program: the program.
        notes: one for everything in it that is true of some inputs only.
        asked: the conditions on how many elements data select; the program has one side of each.
    """

    program: ExportedProgram
    notes: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list[Asked])


class Unfaithful(Exception):  # noqa: N818 - the way was taken and led nowhere: no error of anybody's
    """An export worked, but its program is not the model for every input; the message says what for."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The failure of the first tracing.

    Attributes:
        error: what was raised.
        by_model: whether the model's own code raised it, rather than torch.
        on_data: whether the code asks for the value of a tensor.
        on_size: whether it asks how many elements a selection by data has.
    """

    error: Exception
    by_model: bool
    on_data: bool
    on_size: bool


@dataclass(frozen=True, slots=True)
class Tracing:
    """A way to trace a model.

    Attributes:
        name: what is done.
        applies: whether it is worth trying after a refusal; None before any.
        run: traces; raises whatever torch, the model, or `Unfaithful` raises.
        goes_further: whether it gets past what makes the first fail, so that an error of its own is what
            remains.
    """

    name: str
    applies: Callable[[Refusal | None], bool]
    run: Callable[[Export, Module], Traced]
    goes_further: bool = False


def _as_written(export: Export, _: Module) -> Traced:
    with numbers_of_constants():
        return Traced(export())


def _uncompiled(export: Export, module: Module) -> Traced:
    import torch

    with torch.compiler.set_stance("force_eager"):
        return _as_written(export, module)


def _with_equivalents(export: Export, _: Module) -> Traced:
    with substituted():
        return Traced(_with_numbers(export))


def _export_pretending_to_run(export: Export, _: Module) -> Traced:
    with substituted(), pretend_to_run(), decided_by_example() as decisions:
        program = export()
    return Traced(program, _assumptions(decisions))


def _with_symbols(export: Export, module: Module) -> Traced:
    with substituted(), symbolic_lengths(module):
        program = _with_numbers(export)
    return Traced(program, numbers_fixed(program))


def _at_every_place(export: Export, _: Module) -> Traced:
    with substituted(), loops_over_every_place() as notes:
        program = _with_numbers(export, notes)
    return Traced(program, notes)


def _of_many(export: Export, module: Module) -> Traced:
    with substituted(), symbolic_lengths(module), many_selected(module) as asked:
        program = _with_numbers(export, asked)
    return Traced(program, numbers_fixed(program), asked)


def _as_the_example(export: Export, _: Module) -> Traced:
    with substituted(), loops_over_every_place() as notes, decided_by_example() as decisions:
        program = _with_numbers(export, notes, decisions)
    return Traced(program, [*notes, *_assumptions(decisions)])


TRACINGS = (
    Tracing("as written", lambda refusal: refusal is None, _as_written),
    Tracing(
        "what the model compiles runs as Python, as torch from 2.12 on runs it in an export",
        lambda refusal: refusal is not None and _raised_by_compiler(refusal.error),
        _uncompiled,
    ),
    Tracing(
        "selections by data have many elements",
        lambda refusal: refusal is not None and refusal.on_size,
        _of_many,
        goes_further=True,
    ),
    Tracing(
        "with equivalents of functions that torch refuses, and values of small buffers as numbers",
        lambda refusal: refusal is not None,
        _with_equivalents,
    ),
    Tracing(
        "told that it is not traced, branches on data as the example takes them",
        lambda refusal: refusal is not None and refusal.by_model and not refusal.on_data,
        _export_pretending_to_run,
    ),
    Tracing(
        "`int` of a number that is taken out of data stays a symbol",
        lambda refusal: refusal is not None and refusal.on_data,
        _with_symbols,
    ),
    Tracing(
        "loops over nonzero run for every place that there may be",
        lambda refusal: refusal is not None and refusal.on_data,
        _at_every_place,
    ),
    Tracing(
        "branches on data as the example takes them",
        lambda refusal: refusal is not None and refusal.on_data,
        _as_the_example,
        goes_further=True,
    ),
)
"""Ways to trace, in order: all but the first two with equivalents of functions that torch refuses.

All but the first, second and fourth leave a note for every assumption that they make.
"""


def trace(export: Export, module: Module, *, numbers: bool = False) -> Traced:
    """Return what the first tracing gives that works.

    Args:
        export: exports the model.
        module: the model.
        numbers: whether the values of small buffers are numbers from the start.

    Raises:
        Exception: when none works, what the first raised, or one that got further.
    """
    refusal: Refusal | None = None
    remains: Exception | None = None
    numpy = False
    if numbers:
        return _with_equivalents(export, module)
    ways = list(TRACINGS)
    while ways:
        tracing = ways.pop(0)
        if not tracing.applies(refusal):
            continue
        try:
            with numpy_by_torch(module) if numpy else nullcontext():
                found = tracing.run(export, module)
            _refuse_unknown_constants(found.program)
            return found
        except Exception as error:  # the model's own code and torch.export may raise anything
            if gives_numpy(error) and not numpy:  # then all ways once more
                numpy, ways = True, list(TRACINGS[1:])
            if refusal is None or (gives_numpy(refusal.error) and depends_on_data(error)):
                refusal = _refusal(error)
            elif tracing.goes_further and (isinstance(error, DecidedNumber) or depends_on_data(error)):
                remains = remains or error
    assert refusal is not None
    if remains is not None:
        raise remains from refusal.error
    raise refusal.error


def _refuse_unknown_constants(program: ExportedProgram) -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    if any(isinstance(constant, FakeTensor) for constant in program.constants.values()):
        raise ModelError(
            "E104",
            "torch.export keeps no values of a constant of the model: before torch 2.10, of the `.data` of "
            "what is computed, or of a derivative that the model takes itself",
            hint="write `.detach()` in place of `.data`; no version of torch exports such a derivative",
        )


def _raised_by_compiler(error: Exception) -> bool:
    """Whether torch compiled code of the model when it raised."""
    frames = traceback.walk_tb(error.__traceback__)  # of which a failed backend has none
    return type(error).__name__ == "BackendCompilerFailed" or any(
        frame.f_globals.get("__name__") == "torch._dynamo.convert_frame" for frame, _ in frames
    )


def _refusal(error: Exception) -> Refusal:
    return Refusal(error, not is_refusal(error), depends_on_data(error), asks_for_size(error))


def _with_numbers(export: Export, *found: list[Any]) -> ExportedProgram:
    """Export with the values of small buffers, or where the model writes such, of those of one element.

    Args:
        export: exports the model.
        found: what is said of the export while it runs.
    """
    for limit in (LIMIT, 1):
        for said in found:
            said.clear()
        with numbers_of_constants(buffers=limit):
            program = export()
        if not writes_numbers(program, limit):
            return program
    raise Unfaithful("a buffer of one element that the model writes was taken for a number")


def _assumptions(decisions: list[Decision]) -> list[str]:
    """Return a note for every branch that the example decided.

    Raises:
        DecidedNumber: when it decided numbers too.
    """
    for decision in decisions:
        if not decision.of_truth:
            raise DecidedNumber(decision.place, real="zuf" in str(decision.condition))
    return list(dict.fromkeys(d.note() for d in decisions))


# -- sizes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sizes:
    """The choices when sizes of a model's inputs may vary.

    Attributes:
        module: the model.
        fixed: exports it for the example's sizes.
        symbolic: exports it for all; None where none may vary.
        constants: the sizes among them that an export made numbers of, as ``input:axis``.
    """

    module: Module
    fixed: Callable[[], Captured]
    symbolic: Callable[[], Captured] | None
    constants: Callable[[Captured], list[str]]


@dataclass(frozen=True, slots=True)
class Sizing:
    """A way to treat sizes.

    Attributes:
        name: what is done.
        applies: whether it is worth trying, given why the first way failed; None before any.
        run: exports.
        note: what a reader of the result should know, given why the first way failed; empty for nothing.
    """

    name: str
    applies: Callable[[Sizes, Exception | None], bool]
    run: Callable[[Sizes], Captured]
    note: Callable[[Exception | None], str] = lambda _: ""


def _symbolic(sizes: Sizes) -> Captured:
    assert sizes.symbolic is not None
    with numbers_taken() as places:
        found = sizes.symbolic()
    return _without_constants(sizes, found, places)


def _measured(sizes: Sizes) -> Captured:
    assert sizes.symbolic is not None
    with symbolic_lengths(sizes.module) as measures, numbers_taken() as places:
        if not measures:
            raise Unfaithful("no code of the model measures sizes")
        found = sizes.symbolic()
    return _without_constants(sizes, found, places)


def _without_constants(sizes: Sizes, found: Captured, places: list[str]) -> Captured:
    if constants := sorted(sizes.constants(found)):
        raise Unfaithful(f"one size of {', '.join(constants)}")
    if places:
        raise Unfaithful(f"a size, at {places[0]}")
    return found


def _why_fixed(error: Exception | None) -> str:
    if isinstance(error, ModelError):
        return f"static shapes: with a dynamic batch, {error.message}"
    return "" if error is None else f"static shapes: the model insists on {error}"


SIZES = (
    Sizing("symbolic", lambda sizes, _: sizes.symbolic is not None, _symbolic),
    Sizing(
        "symbolic, also where the model's code takes `len`, `int` or `list` of them",
        lambda _, error: isinstance(error, Unfaithful),
        _measured,
    ),
    Sizing("the example's", lambda _sizes, _error: True, lambda sizes: sizes.fixed(), _why_fixed),
)
"""Ways to treat sizes, in order; the last always applies."""


def choose_sizes(sizes: Sizes) -> Captured:
    """Return what the first way gives that works.

    Raises:
        ModelError: E103 or E104 when the last fails too.
    """
    first: Exception | None = None
    for sizing in SIZES:
        if not sizing.applies(sizes, first):
            continue
        try:
            found = sizing.run(sizes)
        except (ModelError, Unfaithful) as error:
            if sizing is SIZES[-1]:
                raise
            first = first or error
            continue
        found.notes += filter(None, [sizing.note(first)])
        return found
    raise AssertionError("the last way of SIZES always applies")
