"""Passes: what regraft finds in a graph and rewrites, one file each, and the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir import Graph
from .base import Change, OnlyFor, Pass, Severity
from .deduplicate_modules import DeduplicateModules
from .dequantise import Dequantise
from .drop_unused_modules import DropUnusedModules
from .eliminate_identities import EliminateIdentities
from .expand_composites import ExpandComposites
from .fold_constants import FoldConstants
from .freeze_state import FreezeState
from .fuse_gelu import FuseGelu
from .group_modules import GroupModules
from .infer_types import InferTypes
from .join_biases import JoinBiases
from .move_transposes import MoveTransposes
from .normalise_conv_padding import NormaliseConvPadding
from .normalise_initializers import NormaliseInitializers
from .options import make_pass
from .pipeline import run_passes
from .prepare_for_inference import PrepareForInference
from .rename_parameters import RenameParameters
from .tie_weights import TieWeights

DEFAULT: tuple[str, ...] = (
    "freeze-state",  # what only an update needed goes before anything looks at it
    "tie-weights",  # early: what is one memory is one parameter for all that follow
    "deduplicate-modules",  # aliases go first: what only they keep alive is unused then
    "drop-unused-modules",
    "eliminate-identities",  # they would stand between the operators that the next ones look at
    "fold-constants",  # pads and shapes become numbers
    "fuse-gelu",  # whose factors are constants only now
    "move-transposes",
    "join-biases",  # which transposes stood between
    "normalise-conv-padding",
    "normalise-initializers",
    "rename-parameters",  # last: names follow from the tree that the others leave
)
"""The passes that run unless others are asked for, in order, with their options as on the command line."""

ONLY_FOR: dict[str, str] = {"move-transposes": "onnx", "join-biases": "onnx"}
"""Pass -> the framework for whose models `DEFAULT` has it.

Authors of nets in other frameworks have their transposes and sums where they want them.
"""

WITHIN: dict[str, tuple[str, ...]] = {
    "torch": (
        "deduplicate-modules:keep-saved=on",
        "drop-unused-modules:keep-saved=on",
        "rename-parameters:scheme=declared",
    ),
}
"""Target that is the source's own framework -> passes of `DEFAULT` with the options that they have there.

Checkpoints of such a source then load into the target as they are, strictly, and the other way round: what no
operator reads is in them too, and what is shared is there under each of its names.
"""

PASSES: dict[str, type[Pass]] = {
    cls.name: cls
    for cls in (
        DeduplicateModules,
        Dequantise,
        DropUnusedModules,
        EliminateIdentities,
        ExpandComposites,
        FoldConstants,
        FreezeState,
        FuseGelu,
        GroupModules,
        InferTypes,
        JoinBiases,
        MoveTransposes,
        NormaliseConvPadding,
        NormaliseInitializers,
        PrepareForInference,
        RenameParameters,
        TieWeights,
    )
}
"""Every pass by name."""


def parse_pass(text: str) -> Pass:
    """Return the pass of a command-line string ``NAME[:OPTIONS]``.

    Only the first colon separates; ``,`` stands between options, ``=`` after a key, ``+`` joins values, and
    an option may repeat.

    Raises:
        PassError: E502 for a pass or option that there is not, E501 for a value that does not fit.

    Example:
        >>> parse_pass("rename-parameters:scheme=declared")
        RenameParameters(scheme='declared')
    """
    return make_pass(PASSES, text)


def available_passes() -> list[type[Pass]]:
    """Return every pass, those that no pipeline runs included."""
    return list(PASSES.values())


def default_pipeline(to: str | None = None) -> list[Pass]:
    """Return the passes that run unless others are asked for, in order.

    Args:
        to: the target; None for what is right for every target.
    """
    within = {p.name: p for p in map(parse_pass, WITHIN.get(to or "", ()))}
    found: list[Pass] = []
    for made in map(parse_pass, DEFAULT):
        if made.name in within:
            assert to is not None
            made = OnlyFor(to, within[made.name], otherwise=made)
        elif made.name in ONLY_FOR:
            made = OnlyFor(ONLY_FOR[made.name], made)
        found.append(made)
    return found


def prepare(
    graph: Graph, passes: Sequence[Pass], *, print_after: Callable[[Pass, Graph], None] | None = None
) -> Graph:
    """Return a copy of a graph after the passes of one target alone, or the graph where they change nothing.

    Args:
        graph: after the passes that every target has.
        passes: the passes in order; if the first one changes nothing, the others do not run.
        print_after: called after each pass with the pass and the graph.
    """
    new = graph.copy()
    if any(pass_.name == RenameParameters.name for pass_ in passes):  # again, for a tree that has changed
        for parameter in new.parameters():
            parameter.name = parameter.declared
        if new.provenance is not None:
            new.provenance.changes = [c for c in new.provenance.changes if c[0] != RenameParameters.name]
    (_, first), *_ = run_passes(new, passes, print_after=print_after)
    return new if any(change.fixed for change in first) else graph


def describe(name: str, further: Iterable[type[Pass]] = ()) -> str:
    """Return the explanation of a pass, a finding or an error.

    Args:
        name: a pass's name or a code.
        further: passes that are not in `PASSES`: those of backends.

    Raises:
        PassError: when there is nothing of that name.
    """
    from .explanations import explain

    return explain({**PASSES, **{cls.name: cls for cls in further}}, name)


__all__ = [
    "DEFAULT",
    "PASSES",
    "Change",
    "DeduplicateModules",
    "Dequantise",
    "DropUnusedModules",
    "EliminateIdentities",
    "ExpandComposites",
    "FoldConstants",
    "FuseGelu",
    "GroupModules",
    "InferTypes",
    "JoinBiases",
    "MoveTransposes",
    "NormaliseConvPadding",
    "NormaliseInitializers",
    "Pass",
    "PrepareForInference",
    "RenameParameters",
    "Severity",
    "TieWeights",
    "available_passes",
    "default_pipeline",
    "describe",
    "parse_pass",
    "prepare",
    "run_passes",
]
