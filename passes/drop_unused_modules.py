"""drop-unused-modules: modules that are never called and parameters that no operator uses go away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from ..ir import Graph, Module, Parameter
from ..ir.fixed_scales import is_fixed_scale
from .base import Change, Pass
from .deduplicate_modules import postorder
from .naming.conflicts import report_conflicts

NOT_SAVED = "non_persistent"
"""The role of a buffer that checkpoints of the source do not have."""
_COUNTER = "num_batches_tracked"
"""The buffer in which a BatchNorm of torch's counts batches: no operator ever reads it."""


@dataclass(frozen=True)
class DropUnusedModules(Pass):
    """Remove modules that never run and parameters that nothing reads.

    Attributes:
        keep_saved: whether what checkpoints of the source have is only reported, and stays; buffers that are
            no part of them go. So it runs by default where a PyTorch module becomes PyTorch source.

    What it does:
        Removes a module of which no call was recorded, if none of the modules inside it is called and no
        operator uses a parameter of theirs; then the parameters of the other modules that no operator uses.
        Where one of them has the name of another parameter, that is reported before it goes; a counter of
        batches of a BatchNorm that runs goes without a report, since nothing ever reads one.

    Why:
        ``SequentialCell.insert_child_to_cell`` registers a cell that ``construct`` never calls: its
        parameters are trained, saved and loaded, and never matter.

    Leaves alone:
        Containers whose children run, modules whose parameters are used by somebody else, parameters that
        a run updates. Models whose calls were not recorded: nothing is known to be unused there.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "aux" Dense {weight=%w} never called
        ...   %x = input "x" : f32[4]
        ...   %w = param "aux.weight" : f32[4,4]
        ...   %y = Relu(%x) : f32[4] @ "#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in DropUnusedModules().run(graph):
        ...     print(change)
        DU101 `Dense` is registered and never called: 16 parameters in 1 tensor - at aux
    """

    name: ClassVar[str] = "drop-unused-modules"
    codes: ClassVar[dict[str, str]] = {
        "DU101": "a module is registered and never called",
        "DU102": "a parameter is used by no operator",
        "DU103": "buffers are read by no operator",
        "DU104": "a parameter that is not used has the name of another one",
        "DU105": "a normalisation counts its stored gamma as 1",
        "DU106": "a module is called in training alone",
    }
    needs_dataflow: ClassVar[bool] = True

    keep_saved: bool = False

    def skipped(self, graph: Graph) -> str:
        """Return why nothing is decided, also without recorded calls: what was not recorded may run."""
        if not graph.modules.calls():
            return "no module calls were recorded: give the model's inputs"
        return super().skipped(graph)

    def run(self, graph: Graph) -> list[Change]:
        """Drop; see the class."""
        if self.skipped(graph):
            return []
        read = {value.node for _, value in graph.outputs} | {v.node for v in graph.updates.values()}
        read |= set(graph.updates)
        unused = [p for p in graph.parameters() if p.key not in read and not graph.flow.out_degree(p.key)]
        idle = {p.key for p in unused}
        clashes = _find_clashes(graph, idle)
        changes, inside = _drop_modules(graph, idle, stays=self.keep_saved)
        changes += clashes
        if self.keep_saved:
            stays = [p for p in unused if p.key not in inside and p.role != NOT_SAVED]
            changes = [replace(c, fixed=False) for c in changes + _drop_parameters(graph, stays)]
            inside, unused = set[int](), [p for p in unused if p.role == NOT_SAVED]
            idle = {p.key for p in unused}
        changes += _drop_parameters(graph, [p for p in unused if p.key not in inside])
        gone = [p.key for p in unused]
        for module in graph.modules:
            for name in [n for n, key in module.parameters.items() if key in idle]:
                del module.parameters[name]
        graph.flow.remove_nodes_from(gone)
        return changes


def _find_clashes(graph: Graph, idle: set[int]) -> list[Change]:
    """Return the name conflicts that `rename-parameters` will not see once these parameters are gone."""
    groups: dict[str, list[Parameter]] = {}
    for parameter in graph.parameters():
        groups.setdefault(parameter.name, []).append(parameter)
    lost = [g for g in groups.values() if len(g) > 1 and any(p.key in idle for p in g)]
    return report_conflicts(graph, lost, graph.parameter_paths() if lost else {}, "DU104")


def _drop_modules(graph: Graph, idle: set[int], *, stays: bool) -> tuple[list[Change], set[int]]:
    """Unregister the outermost modules that never run, unless they stay; returns also their parameters."""
    tree = graph.modules
    called = {call.module for call in tree.calls()}
    runs: dict[int, bool] = {}
    for key in postorder(tree):
        module = tree.module(key)
        runs[key] = (
            key in called
            or any(runs.get(child, False) for child in module.children.values())
            or any(parameter not in idle for parameter in module.parameters.values())
        )
    outermost: dict[int, list[tuple[int, str]]] = {}
    for module in tree:
        if runs[module.key]:
            for name, child in module.children.items():
                if not runs[child]:
                    outermost.setdefault(child, []).append((module.key, name))
    held_elsewhere = {p for m in tree if runs[m.key] for p in m.parameters.values()}
    changes: list[Change] = []
    inside: set[int] = set()
    for key in outermost:
        module = tree.module(key)
        parameters = {p for m in _subtree(graph, module) for p in m.parameters.values()}
        inside |= parameters - held_elsewhere
        where = f", registered at {module.location}" if module.location else ""
        count, place = _count([graph.parameter(p) for p in parameters]), tree.path(key)
        if any(m.in_training for m in _subtree(graph, module)):
            text = f"`{module.class_name}` is called in training alone: {count}{where}"
            changes.append(Change("DU106", text, place=place, severity="note"))
        else:
            text = f"`{module.class_name}` is registered and never called: {count}{where}"
            changes.append(Change("DU101", text, place=place, severity="warning"))
    for parent, name in () if stays else [place for places in outermost.values() for place in places]:
        tree.unregister(parent, name)
    tree.prune()
    return changes, inside


def _drop_parameters(graph: Graph, unused: list[Parameter]) -> list[Change]:
    """Report the parameters of modules that run which no operator uses."""
    paths = graph.parameter_paths()
    named = {p.key: (paths.get(p.key) or [p.name])[0] for p in unused}
    fixed = {p.key for p in unused if is_fixed_scale(graph, p)}
    changes = [_report_fixed(p, named[p.key]) for p in unused if p.key in fixed]
    changes += [
        Change(
            "DU102",
            f"no operator uses this parameter {p.type}" + (f", made at {p.location}" if p.location else ""),
            place=named[p.key],
            severity="warning",
        )
        for p in unused
        if not p.is_buffer and p.key not in fixed
    ]
    counted = {p.key for p in unused if p.declared.rpartition(".")[2] == _COUNTER}
    buffers = [named[p.key] for p in unused if p.is_buffer and p.key not in counted]
    if buffers:
        listed = ", ".join(f"`{name}`" for name in buffers[:3]) + (", …" if len(buffers) > 3 else "")
        changes.append(
            Change(
                "DU103",
                f"no operator reads {len(buffers)} buffer{'' if len(buffers) == 1 else 's'}: {listed}",
                place=buffers[0],
            )
        )
    return changes


def _report_fixed(gamma: Parameter, path: str) -> Change:
    """Report a gamma that counts as 1: a warning where other values are stored."""
    data = gamma.data
    differs = data.load is not None and bool((data.numpy() != 1).any())
    text = "fix_gamma=True (the default): the stored gamma is ignored, and 1 is used"
    if gamma.location:
        text = f"{text}, made at {gamma.location}"
    return Change("DU105", text, place=path, severity="warning" if differs else "note")


def _subtree(graph: Graph, module: Module) -> list[Module]:
    seen: dict[int, Module] = {}
    stack = [module]
    while stack:
        top = stack.pop()
        if top.key not in seen:
            seen[top.key] = top
            stack += [graph.modules.module(child) for child in top.children.values()]
    return list(seen.values())


def _count(parameters: list[Parameter]) -> str:
    """Return a count in words: ``9,536 parameters in 3 tensors and 2 buffers``."""
    weights = [p for p in parameters if not p.is_buffer]
    total, buffers = sum(prod(p.data.shape) for p in weights), len(parameters) - len(weights)
    text = f"{total:,} {_plural('parameter', total)} in {len(weights)} {_plural('tensor', len(weights))}"
    return text + (f" and {buffers} {_plural('buffer', buffers)}" if buffers else "")


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
