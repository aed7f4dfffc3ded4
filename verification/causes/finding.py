"""Finds the lines of a target's methods that make its outputs differ from its source's, as settings."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...frontends.constructions import construction_of, part_at
from ...ir import Array, Graph, ModelError
from ..inputs import batch_symbols
from ..runners.paired_runner import PairedRunner, in_order
from ..runners.runs import Runner
from ..two_nets.attributes import AttributeRow, Rewrite
from ..two_nets.remedies import place_of
from .graph_tape import graph_tape
from .hosts import TorchHost, host_of
from .instrumenting import recording
from .known_layers import are_all
from .replaying import Draw
from .rewriting import arguments_in, rewritten
from .search import TOLERANCES, Found, find_causes
from .tape import Record, Ref, Tape, TapeFullError
from .translating import Writing, translated

CALL = "call"
"""The setting of a call that one side alone makes."""

_SECONDS = 12.0
"""Processor time in which causes are searched for at most."""


def causes_in_methods(
    graphs: tuple[Graph, Graph],
    runners: tuple[Runner, Runner],
    modules: Mapping[str, str],
    inputs: Mapping[str, Array],
    known: Sequence[AttributeRow],
) -> list[AttributeRow]:
    """Return what the target's own methods do otherwise, a row each, the first first.

    Args:
        graphs: the source's and the target's.
        runners: that run them on one set of weights.
        modules: path of a module in the source -> in the target.
        inputs: inputs on which the outputs differ.
        known: the settings of layers that differ, which are not to be named again.
    """
    found: list[Found] = []
    if host_of(graphs[1].origin.framework) is None:  # a file has no line to write on
        return []
    end = time.process_time() + _SECONDS
    for draw in (inputs, _widened(inputs)):
        again = _found_on(draw, graphs, runners, known, end)
        if not found or _written(again) > _written(found):
            found = again
        if all(cause.change is not None for cause in found) or time.process_time() > end:
            break
    rows = [(cause, _row(cause, graphs, modules)) for cause in found]
    return [row for cause, row in rows if row is not None and not _is_named(cause, row, known, graphs[1])]


def _is_named(cause: Found, row: AttributeRow, known: Sequence[AttributeRow], target: Graph) -> bool:
    """Whether what is known of layers and of their order tells as much as a row."""
    model, host = target.origin.model, host_of(target.origin.framework)
    part = part_at(model, row.target)  # which may have several paths
    same = [
        o for o in known if o.target == row.target or (part is not None and part is part_at(model, o.target))
    ]
    if cause.change is None and not row.place:  # a container calls its layers, one of which is named
        inside = (
            {id(each) for _, each in host.modules(part)} if host is not None and part is not None else set()
        )
        return bool(same) or any(
            id(part_at(model, other.target)) in inside for other in known if not other.structure
        )
    is_layer = cause.record is not None and cause.record.kind == "layer"
    if cause.change is None and not (is_layer and cause.kind == "other function"):
        return any(other.attribute == "order of calls" for other in same)
    of_layer = is_layer or (cause.change is not None and cause.change.layer)
    return of_layer and bool(row.target) and not all(other.structure for other in same)


def _written(found: Sequence[Found]) -> int:
    """Count the causes whose remedy changes the target's own call."""
    return sum(cause.change is not None for cause in found)


def _widened(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Inputs whose values reach further, so that bounds and slopes act on them."""
    return {name: a * np.asarray(3, a.dtype) if a.dtype.kind == "f" else a for name, a in inputs.items()}


def _found_on(
    inputs: Mapping[str, Array],
    graphs: tuple[Graph, Graph],
    runners: tuple[Runner, Runner],
    known: Sequence[AttributeRow],
    end: float,
) -> list[Found]:
    draws: list[Draw] = []
    for given in (_resized(graphs[0], inputs, 3), inputs):  # axes of one element lie in any order
        first = _draw(given, graphs, runners) if not draws and given is not None else None
        if first is not None and any(map(first.wrong_outputs, TOLERANCES)):
            draws.append(first)
            inputs = given if given is not None else inputs
    if not draws:
        return []
    for given in (_resized(graphs[0], inputs, 4), inputs):
        again = _draw(_shuffled(given), graphs, runners) if len(draws) == 1 and given is not None else None
        if again is not None and again.is_like(draws[0]):  # else values decide which calls are made
            draws.append(again)
            inputs = given if given is not None else inputs
    if len(draws) > 1:  # bounds and slopes that no value of theirs reaches tell nothing
        wide = _draw(_widened(_shuffled(inputs)), graphs, runners)
        draws += [wide] if wide is not None and wide.is_like(draws[0]) else []
    with draws[0].target.host.ready(graphs[1].origin.model):
        return [] if are_all(draws, known, graphs) else find_causes(draws, end)


def _draw(
    inputs: Mapping[str, Array], graphs: tuple[Graph, Graph], runners: tuple[Runner, Runner]
) -> Draw | None:
    """The calls of both sides; None where nobody can record them."""
    source = _tape(graphs[0], runners[0], inputs)
    target = None if source is None else _tape(graphs[1], runners[1], inputs)
    if source is None or target is None:
        return None
    if isinstance(runners[1], PairedRunner):
        target.outputs = in_order(target.outputs, runners[1].order)
    return Draw(source, target)


def _resized(graph: Graph, inputs: Mapping[str, Array], batch: int) -> Mapping[str, Array] | None:
    """Inputs of another number of examples, with values of theirs; None where that number is fixed."""
    symbols = batch_symbols(graph)
    axes = {node.name for node in graph.input_nodes() if node.type.shape and node.type.shape[0] in symbols}
    if not axes or any(inputs[name].shape[0] == batch for name in axes & set(inputs)):
        return None
    random = np.random.default_rng(1)
    return {
        name: np.resize(random.permutation(a.reshape(-1)), (batch, *a.shape[1:])) if name in axes else a
        for name, a in inputs.items()
    }


def _shuffled(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Inputs with the same values in other places, which keeps what they may be."""
    random = np.random.default_rng(0)
    return {name: random.permutation(a.reshape(-1)).reshape(a.shape) for name, a in inputs.items()}


def _tape(graph: Graph, runner: Runner, inputs: Mapping[str, Array]) -> Tape | None:
    """The calls of one side; None where nobody can record them."""
    host, model = host_of(graph.origin.framework), graph.origin.model
    if host is None:
        return graph_tape(graph, inputs)
    if not isinstance(model, host.base()):
        return None
    try:
        with recording(host, model) as tape:
            runner.run(inputs, calls=False)
    except TapeFullError:
        return None
    except ModelError as error:  # rewritten methods may fail where those of the user's do not
        if error.__cause__ is not None and _is_ours(error.__cause__):
            raise error.__cause__ from None
        return None
    return tape if tape.outputs else None


def _is_ours(error: BaseException) -> bool:
    """Whether the code that searches causes raised an exception, and no model or library that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).parent == Path(__file__).parent


def _row(found: Found, graphs: tuple[Graph, Graph], modules: Mapping[str, str]) -> AttributeRow | None:
    """A difference as a setting; None where it says nothing that can be written."""
    target = graphs[1]
    record, other, change = found.record, found.other, found.change
    source, host = host_of(graphs[0].origin.framework) or TorchHost(), host_of(target.origin.framework)
    assert host is not None
    paths = {id(module): path for path, module in reversed(host.modules(target.origin.model))}
    at = record if record is not None else found.behind
    path = paths.get(id(at.module), "") if at is not None else ""
    back = {theirs: mine for mine, theirs in modules.items()}
    around = path
    while around and around not in back:
        around = around.rpartition(".")[0]
    place = at.site.place if at is not None else ""
    if change is not None and record is not None:
        name = _class_of(record) if record.kind == "operator" else f"`{record.site.text}`"
        if change.layer:
            layer = paths.get(id(record.function), path)
            return AttributeRow(
                back.get(layer, back.get(around, "")),
                layer,
                type(record.function).__name__,
                change.name,
                change.source,
                change.target,
                arguments=arguments_in(change.write) if layer else (),
                statement=change.write,
                place=constructed_at(record.function)
                or (place_of(target, layer) if id(record.function) in paths else place),
            )
        if record.kind == "layer":
            path = around = paths.get(id(record.function), path)
        return AttributeRow(
            back.get(around, ""),
            path,
            name,
            change.name,
            change.source,
            change.target,
            statement=change.write,
            place=place,
            rewrite=Rewrite(record.site.file, record.site.span, text=change.function.text)
            if isinstance(change.function, Writing) and any(record.site.span)
            else rewritten(record, change.write, host),
        )
    mine, theirs = described(other), described(record if found.kind != "missing" else None)
    statement = ""
    if found.kind == "extra" and record is not None:
        statement = without(record, found.passed)
    elif other is not None:
        if record is not None and found.kind == "other function" and _says_nothing(record, other):
            return None
        text = found.text or translated(other, found.arrays, (source, host))
        where = ""
        if found.kind == "missing":
            where = f" before `{record.site.expression}`" if record is not None else " at the end"
        statement = (text or f"what the source's `{other.site.expression}` computes") + where
    rewrite = rewritten(record, statement, host) if found.kind == "extra" and record is not None else None
    if record is not None and record.kind == "layer" and found.kind == "other function":
        path = around = paths.get(id(record.function), path)
    return AttributeRow(
        back.get(around, ""),
        path,
        _class_of(at),
        CALL,
        mine,
        theirs,
        statement=statement,
        place=place,
        rewrite=rewrite,
    )


def without(record: Record, passed: Ref | None) -> str:
    """Return the remedy for a superfluous call: the operand that stays."""
    site = record.site
    place = next((at for at, item in enumerate(record.args) if passed is not None and item == passed), 0)
    if site.is_operator:
        return f"`{site.operand(place)}` in place of `{site.expression}`"
    if not place or place >= len(site.operands):
        return f"no `{site.expression}`"
    return f"`{site.operands[place]}` in place of `{site.source or site.expression}`"


def constructed_at(layer: object) -> str:
    """The line that constructs a layer; empty where nobody watched."""
    made = construction_of(layer)
    return "" if made is None else made.place


def _says_nothing(record: Record, other: Record) -> bool:
    """Whether both are a layer of one name: then its weights or settings are to be looked at."""
    return record.kind == other.kind == "layer"


def _class_of(record: Record | None) -> str:
    """The class of the module whose method makes a call."""
    return "" if record is None or record.module is None else type(record.module).__name__


def described(record: Record | None) -> str:
    """A call with its line, as a value of a setting."""
    if record is None:
        return "none"
    return f"`{record.site.expression}`" + (f" ({record.site.place})" if record.site.place else "")
