"""Passes: what regraft finds in a graph and what it rewrites, one file each, and the order they run in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir import Graph, PassError
from .base import Change, Pass, Severity
from .deduplicate_modules import DeduplicateModules
from .drop_unused_modules import DropUnusedModules
from .eliminate_identities import EliminateIdentities
from .expand_composites import ExpandComposites
from .fold_constants import FoldConstants
from .freeze_state import FreezeState
from .fuse_gelu import FuseGelu
from .group_modules import GroupModules
from .infer_types import InferTypes
from .normalise_conv_padding import NormaliseConvPadding
from .normalise_initializers import NormaliseInitializers
from .options import make_pass
from .pipeline import run_passes
from .prepare_for_inference import PrepareForInference
from .rename_parameters import RenameParameters
from .tie_weights import TieWeights

PIPELINES: dict[str, list[str]] = {
    "default": [
        "freeze-state",  # what only an update needed goes before anything looks at it
        "tie-weights",  # early: what is one memory is one parameter for all that follow
        "deduplicate-modules",  # aliases go first: what only they keep alive is unused then
        "drop-unused-modules",
        "eliminate-identities",  # they would stand between the operators that the next ones look at
        "fold-constants",  # pads and shapes become numbers
        "fuse-gelu",  # whose factors are constants only now
        "normalise-conv-padding",
        "normalise-initializers",
        "rename-parameters",  # last: names follow from the tree that the others leave
    ],
    "mindspore": [  # after those, where MindSpore source is written
        "group-modules",
        "rename-parameters",
    ],
    "onnx": [  # after those, where an ONNX model is written, which is a file to run
        "prepare-for-inference",
    ],
}
"""Pipeline -> its passes in order, with their options as on the command line."""

PASSES: dict[str, type[Pass]] = {
    cls.name: cls
    for cls in (
        DeduplicateModules,
        DropUnusedModules,
        EliminateIdentities,
        ExpandComposites,
        FoldConstants,
        FreezeState,
        FuseGelu,
        GroupModules,
        InferTypes,
        NormaliseConvPadding,
        NormaliseInitializers,
        PrepareForInference,
        RenameParameters,
        TieWeights,
    )
}
"""Every pass by name."""


def parse_pass(text: str) -> Pass:
    """The pass of a command-line string ``NAME[:OPTIONS]``.

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
    """Every pass, those that no pipeline runs included."""
    return list(PASSES.values())


def default_pipeline() -> list[Pass]:
    """The passes that run unless others are asked for, in order."""
    return pipeline("default")


def pipeline(name: str = "default") -> list[Pass]:
    """The passes of a pipeline, in order.

    Raises:
        PassError: when there is no such pipeline.
    """
    if name not in PIPELINES:
        raise PassError("E502", f"no pipeline is called `{name}`", hint=f"pipelines: {', '.join(PIPELINES)}")
    return [parse_pass(text) for text in PIPELINES[name]]


def prepared(
    graph: Graph,
    target: str,
    *,
    group: bool = True,
    fold: bool = True,
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> Graph:
    """The graph after the passes that only this target has; as it is where they change nothing.

    Args:
        graph: after the passes that every target has.
        target: "mindspore", "onnx" or "mxnet".
        group: whether a flat graph gets modules where MindSpore source is written.
        fold: whether each BatchNormalization is folded into the layer before it where ONNX is written.
        print_after: called after each pass with the pass and the graph.
    """
    if target == "mindspore" and group and graph.origin.framework not in ("torch", "mindspore"):
        return _grouped(graph, print_after)
    if target == "onnx" and fold:
        new = graph.copy()
        results = run_passes(new, pipeline("onnx"), print_after=print_after)
        changed = any(changes for _, changes in results)
        return new if changed else graph
    return graph


def _grouped(graph: Graph, print_after: Callable[[Pass, Graph], None] | None) -> Graph:
    passes = pipeline("mindspore")
    new = graph.copy()
    for parameter in new.parameters():
        parameter.name = parameter.declared  # names follow from the tree, which changes
    if new.provenance is not None:
        again = {p.name for p in passes}
        new.provenance.changes = [c for c in new.provenance.changes if c[0] not in again]
    results = run_passes(new, passes, print_after=print_after)
    return (
        new if any(c.fixed for p, changes in results if p.name == "group-modules" for c in changes) else graph
    )


def describe(name: str, further: Iterable[type[Pass]] = ()) -> str:
    """What a pass, a finding or an error means.

    Args:
        name: a pass's name or a code.
        further: passes that are not in `PASSES`: those of backends.

    Raises:
        PassError: when there is nothing of that name.
    """
    from .explanations import explain

    return explain({**PASSES, **{cls.name: cls for cls in further}}, name)


__all__ = [
    "PASSES",
    "PIPELINES",
    "Change",
    "DeduplicateModules",
    "DropUnusedModules",
    "EliminateIdentities",
    "ExpandComposites",
    "FoldConstants",
    "FuseGelu",
    "GroupModules",
    "InferTypes",
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
    "pipeline",
    "prepared",
    "run_passes",
]
