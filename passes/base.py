"""Defines a pass: a frozen dataclass whose fields are its options, and `run(graph) -> list[Change]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..ir import Graph

Severity = Literal["error", "warning", "note"]
"""error: the source is broken; warning: it surprises its user; note: what a reader may want to know."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing a pass changed, or on a copy would change: what `regraft check` prints as a finding.

    Attributes:
        code: stable code of the kind of finding, e.g. ``RP101``.
        message: what was (or would be) changed and why, in words.
        place: module path, parameter name or source line.
        severity: how bad the source's own state was.
        fixed: whether the pass changed the graph; False for what it only reports.
        members: what one cause has done, each in words, where `message` only counts it.
        modules: paths of the modules whose registration is the cause.
        advice: what to write instead, where that is known.
    """

    code: str
    message: str
    place: str = ""
    severity: Severity = "note"
    fixed: bool = True
    members: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.code} {self.message}" + (f" - at {self.place}" if self.place else "")


class Pass:
    """Base of all passes; a subclass is a frozen dataclass in a file of its own.

    Class attributes:
        name: how the command line calls it, e.g. ``rename-parameters``.
        codes: code -> what the finding means, in one line.
        needs_dataflow: whether the pass has nothing to say about a static module tree.
        rewordings: codes of changes of form alone, which the head of emitted source does not list.
    """

    name: ClassVar[str]
    codes: ClassVar[dict[str, str]] = {}
    rewordings: ClassVar[frozenset[str]] = frozenset()
    needs_dataflow: ClassVar[bool] = False

    def skipped(self, graph: Graph) -> str:
        """Return why this pass can decide nothing about `graph`, or an empty text where it can."""
        if self.needs_dataflow and is_static_tree(graph):
            return "only the module tree was read: give the model's inputs"
        return ""

    def run(self, graph: Graph) -> list[Change]:
        """Rewrite `graph` in place and say what was changed; no fixed change means converged.

        Raises:
            PassError: when the options ask for what this graph does not have or allow.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class OnlyFor(Pass):
    """A pass as a pipeline has it that runs it for the models of one framework alone.

    Attributes:
        framework: the framework, as `Origin` names it.
        wrapped: the pass.
        otherwise: the same pass with other options, for the models of others; None where they do without.
    """

    framework: str
    wrapped: Pass
    otherwise: Pass | None = None

    def __getattribute__(self, name: str) -> object:
        """Return what the wrapped pass is called and finds."""
        if name in ("name", "codes", "needs_dataflow", "rewordings"):
            return getattr(self.wrapped, name)
        return super().__getattribute__(name)

    def skipped(self, graph: Graph) -> str:
        """Return why the wrapped pass can decide nothing about `graph`."""
        return self.wrapped.skipped(graph)

    def run(self, graph: Graph) -> list[Change]:
        """Run the wrapped pass on a model of the framework, the other one on one of any other."""
        chosen = self.wrapped if graph.origin.framework == self.framework else self.otherwise
        return [] if chosen is None else chosen.run(graph)


def is_static_tree(graph: Graph) -> bool:
    """Whether only modules and parameters were read: no calls, no operators, no outputs."""
    return not graph.modules.calls() and not graph.outputs
