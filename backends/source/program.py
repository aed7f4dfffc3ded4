"""Writes model.py: header, imports, helpers, classes, and what builds the net; formatted by ruff."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace

from ...ir import BackendError, Graph, Parameter
from .class_definition import Class
from .classes.shared_classes import define_classes
from .dialect import Dialect, Net
from .formatting import docstring_text, format_source
from .helpers import helper_texts
from .modules.build_net import build_net
from .modules.contraction import Contraction
from .places import Program, record_places
from .python_names import names_of
from .text.class_text import write_class


def make_program(
    graph: Graph, dialect: Dialect, checkpoint: str | Callable[[Program], str], *, explicit: bool = False
) -> Program:
    """Emit a lowered graph.

    Args:
        graph: after the passes of the backend.
        dialect: what is written.
        checkpoint: file name that `build` loads by default, or what names it once it is known what it holds.
        explicit: whether to state the initial distributions that are the framework's defaults too.

    Raises:
        BackendError: when the graph cannot be expressed.
    """
    if graph.updates:
        raise BackendError(
            "E602",
            "expected no state updates, got some",
            place="the root graph",
            hint="the pass freeze-state of the default pipeline keeps the current values",
        )
    if graph.origin.framework != dialect.keeps:  # no checkpoint of the framework's has the source's names
        dialect = replace(dialect, names=replace(dialect.names, holds_any=False))
    net = build_net(Contraction(graph), dialect, explicit=explicit)
    classes, factories = define_classes(net)
    program = Program("")
    record_places(net, program)
    undrawn = [program.targets[p.key].name for p in _find_undrawn(graph, dialect) if p.key in program.targets]
    draws = not {p.name for p in program.targets.values()} <= {*undrawn, *program.buffers}
    texts = [write_class(c, dialect, _is_grouped(graph, c), marks_undrawn=draws) for c in classes]
    helpers = helper_texts(dialect.helpers, (part for class_ in classes for part in class_.parts()))
    body = "\n\n".join([*helpers, factories.text(), *texts])
    frozen = sorted(
        {
            t.name
            for key, t in program.targets.items()
            if not graph.parameter(key).trainable and not graph.parameter(key).is_buffer
        }
        | {name for name, *_ in program.extra}
    )
    apart = {name for name, _ in program.constants} if dialect.constants_file else set[str]()
    facts = Net(
        classes[-1].name,
        checkpoint(program) if callable(checkpoint) else checkpoint,
        frozen=frozen,
        buffers=sorted(set(program.buffers) - apart),
        undrawn=sorted(undrawn),
        holds=bool(program.targets or program.constants or program.extra),
        constants=dialect.constants_file if apart else "",
        draws=draws,
        ties={name: place.name for place in program.targets.values() for name in place.ties},
    )
    body += "\n" + dialect.build(facts)
    program.text = format_source(
        _header(graph, classes, dialect, facts) + _imports(body, dialect) + "\n" + body
    )
    return program


def _is_grouped(graph: Graph, class_: Class) -> bool:
    """Whether a pass made the modules of a class."""
    provenance = graph.provenance
    return provenance is not None and all(d.module not in provenance.modules for d in class_.instances)


def _header(graph: Graph, classes: list[Class], dialect: Dialect, net: Net) -> str:
    origin = graph.origin
    framework = origin.title or origin.framework
    source = (
        " ".join(p for p in (framework, f"`{origin.reference}`" if origin.reference else "") if p)
        or "a graph"
    )
    signature = ["Inputs: " + ", ".join(f"{n.name}: {n.type}" for n in graph.input_nodes())]
    if len(graph.outputs) > 1:  # a tuple, whose order somebody must know
        signature.append("Outputs: " + ", ".join(f"{n}: {graph.type_of(v) or '?'}" for n, v in graph.outputs))
    notes = [*signature, *_notes(graph, dialect, draws=net.draws)]
    text = (
        f"{classes[-1].name} for {dialect.framework}, rewritten from {source} by regraft.\n\n"
        f"    net = build()  # with the weights beside this file{_DRAWING if net.draws else ''}\n\n"
        + "".join(f"{line}\n" for note in notes for line in _wrap(note))
    )
    return f'"""{docstring_text(text)}"""\n\n'


_DRAWING = "; build(checkpoint=None) draws new ones"


def _notes(graph: Graph, dialect: Dialect, *, draws: bool) -> list[str]:
    """Return notes for the reader: how it was captured, what passes changed, what is unknown.

    Args:
        graph: the emitted graph.
        dialect: what is written.
        draws: whether the initial distribution of any parameter is known.
    """
    notes = [f"{note[:1].upper()}{note[1:]}." for note in graph.origin.notes]
    made: dict[str, list[str]] = {}
    for name, message in graph.provenance.changes if graph.provenance else ():
        made.setdefault(name, []).append(message)
    for name, messages in made.items():
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        notes.append(f"Pass {name}: {messages[0]}{more}.")
    notes += dialect.notes(graph)
    unknown = [p.name for p in _find_undrawn(graph, dialect)]
    if unknown and not draws:
        notes.append("The source states no initial distribution; the checkpoint has the values.")
    elif unknown:
        shown = ", ".join(f"`{n}`" for n in unknown[:3])
        shown += f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        notes.append(
            f"The source does not state the initial distribution of {shown}; the checkpoint has the values."
        )
    return notes


def _wrap(note: str) -> list[str]:
    return textwrap.wrap(note, 88, break_long_words=False, break_on_hyphens=False)


def _find_undrawn(graph: Graph, dialect: Dialect) -> list[Parameter]:
    """Return the parameters for which the source gives no distribution; another would be taken for it."""
    return [p for p in graph.parameters() if not p.is_buffer and dialect.distribution(p) is None]


def _imports(body: str, dialect: Dialect) -> str:
    """Return the imports that the text needs, and no others."""
    names, called = names_of(body)
    lines = []
    if "json" in names:
        lines.append("import json")
    if "math" in names:
        lines.append("import math")
    if "OrderedDict" in names:
        lines.append("from collections import OrderedDict")
    if "Path" in names:
        lines.append("from pathlib import Path")
    lines += [""] * bool(lines)
    return "\n".join([*lines, *dialect.imports(names, called)]) + "\n"
