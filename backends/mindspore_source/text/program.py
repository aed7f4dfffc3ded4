"""Writes model.py: header, imports, classes, `build`; formatted by ruff."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ....ir import BackendError, Graph, Parameter, TensorData
from ...source.emitting import Extra
from ...source.expressions import MISSING, SEQUENTIAL, Argument, Call, OptionalMember, Part, literal_source
from ...source.helpers import helper_texts
from ..cells.cell_builder import CellBuilder
from ..cells.cells import Cells
from ..cells.constructor_arguments import Class, sequence_of
from ..cells.contraction import Contraction
from ..classes.shared_classes import define_classes
from ..emitters.initializers import law_of
from ..emitters.own_functions import HELPERS
from .build_function import build_function
from .class_renderer import ClassRenderer
from .construct import write_methods
from .python_names import names_of

_INITIALIZERS = (
    "Constant",
    "Dirac",
    "HeNormal",
    "HeUniform",
    "Identity",
    "Normal",
    "Orthogonal",
    "Sparse",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
)

_WIDTH = 78
"""Columns of a docstring's text in a class."""


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """The place of a parameter in the emitted net: name, transform and shape."""

    name: str
    transform: str
    shape: tuple[int, ...]


@dataclass
class Program:
    """An emitted model.

    Attributes:
        text: source of model.py.
        targets: parameter key -> its place, for the parameters that are emitted.
        extra: vectors that MindSpore's layers hold and the source does not.
        renamed_modules: source module path -> emitted path, where they differ.
        constants: (name, values) of constants too long for the source.
        buffers: names of tables and constants that no initial distribution gives.
    """

    text: str
    targets: dict[int, ParameterPlace] = field(default_factory=dict)
    extra: list[Extra] = field(default_factory=list)
    renamed_modules: dict[str, str] = field(default_factory=dict)
    constants: list[tuple[str, TensorData]] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)


def make_program(
    graph: Graph, checkpoint: str | Callable[[Program], str] = "model.ckpt", *, explicit: bool = False
) -> Program:
    """Emit a lowered graph.

    Args:
        graph: after the passes of this backend.
        checkpoint: file name that `build` loads by default, or what names it once it is known what it holds.
        explicit: whether to state the initial distributions that are MindSpore's defaults too.

    Raises:
        BackendError: when the graph cannot be expressed.
    """
    if graph.updates:
        raise BackendError(
            "E602",
            "expected no state updates, got some",
            place="the root graph",
            hint="the pass freeze-state, one of the default pipeline, keeps the values of now",
        )
    builder = CellBuilder(Contraction(graph), explicit=explicit)
    classes = define_classes(builder)
    program = Program("")
    _record_places(builder.cells, program)
    texts = [_class_text(c, _is_grouped(graph, c)) for c in classes]
    helpers = helper_texts(HELPERS, (part for class_ in classes for part in class_.parts()))
    body = "\n\n".join([*helpers, builder.factories.text(), *texts])
    frozen = sorted(
        {
            t.name
            for key, t in program.targets.items()
            if not graph.parameter(key).trainable and not graph.parameter(key).is_buffer
        }
        | {name for name, *_ in program.extra}
    )
    body += "\n" + build_function(
        classes[-1].name,
        checkpoint(program) if callable(checkpoint) else checkpoint,
        frozen=frozen,
        buffers=sorted(set(program.buffers)),
        undrawn=sorted(program.targets[p.key].name for p in _find_undrawn(graph) if p.key in program.targets),
        holds=bool(program.targets or program.constants or program.extra),
    )
    program.text = format_source(_header(graph, classes) + _imports(body) + "\n" + body)
    return program


def _record_places(cells: Cells, program: Program) -> None:
    """Record where every parameter went, and the module paths that changed."""
    emitted: dict[int, str] = {0: ""}
    provenance = cells.graph.provenance
    sources = {**cells.modules.paths, **(provenance.modules if provenance else {})}
    for key in cells.modules.position:
        above = emitted[key]
        for name, child in cells.modules.children(key):
            access = cells.by_module[key].children[child]
            step = access if isinstance(access, str) else name
            emitted[child] = f"{above}.{step}" if above else step
            if emitted[child] != sources[child]:
                program.renamed_modules[sources[child]] = emitted[child]
    for key, other in provenance.merged.items() if provenance else ():
        program.renamed_modules[sources[key]] = emitted[other]
        program.renamed_modules[sources[other]] = emitted[other]
    for parameter, holders in cells.modules.declared.items():
        state = cells.by_module[holders[0]].state[parameter]
        data = cells.graph.parameter(parameter).data
        program.targets[parameter] = ParameterPlace(
            _join(emitted[holders[0]], state.name), state.transform, state.shape or tuple(data.shape)
        )
        node = cells.graph.parameter(parameter)
        if node.is_buffer and law_of(node) is None:
            program.buffers.append(program.targets[parameter].name)
        forms = {(s.transform, s.shape) for h in holders if (s := cells.by_module[h].state[parameter])}
        if len(forms) > 1:
            raise BackendError(
                "E602",
                "expected one layout of a tied parameter, got several",
                place=cells.graph.parameter(parameter).name,
            )
    for key, cell in cells.by_module.items():
        for name, data in cell.constants:
            program.constants.append((_join(emitted[key], name), data))
            program.buffers.append(_join(emitted[key], name))
        program.extra += [(_join(emitted[key], n), fill, size, dtype) for n, fill, size, dtype in cell.extra]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_grouped(graph: Graph, class_: Class) -> bool:
    """Whether a pass made the modules of a class."""
    provenance = graph.provenance
    return provenance is not None and all(d.module not in provenance.modules for d in class_.instances)


def _class_text(class_: Class, grouped: bool) -> str:
    definition = class_.instances[0]
    renderer = ClassRenderer(class_)
    signature = ["self"]
    for argument in class_.arguments:
        default = "" if argument.default is MISSING else f"={literal_source(argument.default)}"
        signature.append(f"{argument.name}{default}")
    lines = [
        f"class {class_.name}({renderer.text(definition.base)}):",
        f'    """{_docstring(class_, grouped)}"""',
        "",
    ]
    aliases = [f"{f.name} = {f.fill_template()}" for f in class_.aliases]
    listed = next((part for name, part in definition.attributes if not name), None)
    before, inside = ([], "") if listed is None else _construct_members(class_, renderer, listed)
    start = [*before, f"super().__init__({inside})"]
    setup = [*start, *aliases] if listed is None else [*aliases, *start]
    setup += [f"self.{f.name} = {f.name}" for f in class_.arguments if f.in_construct]
    for name, part in definition.attributes:
        if name in class_.branches:
            built = renderer.text(class_.branches[name])
            setup += [f"self.{name} = None", f"if {part}:", f"    self.{name} = {built}"]
        elif name:
            setup += ["# initial distribution unknown"] if name in definition.unknown else []
            before, built = _construct_attribute(class_, renderer, name, part)
            setup += [*before, f"self.{name} = {built}"]
    setup += [f"{renderer.text(a)} = {renderer.text(b)}  # tied" for a, b in definition.assignments]
    lines += [f"    def __init__({', '.join(signature)}):", *(f"        {line}" for line in setup), ""]
    if definition.has_body:
        texts = ["\n".join(f"    {line}" for line in method) for method in write_methods(class_)]
        lines.append("\n\n".join(texts))
    return "\n".join(lines) + "\n\n"


def _construct_members(class_: Class, renderer: ClassRenderer, part: Part) -> tuple[list[str], str]:
    """Return the constructor arguments of a container's base class, and the lines before."""
    members = sequence_of(class_.instances[0].base, "", part)
    if members is None:
        return [], renderer.text(part)
    lines = _collect_members(class_, renderer, members)
    return (lines, "*layers") if lines else ([], renderer.arguments(members))


def _construct_attribute(
    class_: Class, renderer: ClassRenderer, name: str, part: Part
) -> tuple[list[str], str]:
    """Return the constructor of an attribute, and the lines before."""
    members = sequence_of(None, name, part)
    lines = [] if members is None else _collect_members(class_, renderer, members)
    return lines, renderer.text(Call(SEQUENTIAL, (Argument("", "layers"),)) if lines else part)


def _collect_members(class_: Class, renderer: ClassRenderer, members: Call) -> list[str]:
    """Return statements that collect a sequence's members; none if all instances have all of them."""
    runs: list[tuple[str, list[Argument]]] = []
    for argument in members.arguments:
        member = argument.value
        condition = class_.conditions.get(member) if isinstance(member, OptionalMember) else None
        text = "" if condition is None else condition.text()
        if not runs or runs[-1][0] != text:
            runs.append((text, []))
        runs[-1][1].append(argument)
    if all(not text for text, _ in runs):
        return []
    lines = [] if not runs[0][0] else ["layers = []"]
    for text, run in runs:
        inner = renderer.arguments(Call("", tuple(run)))
        single = len(run) == 1 and lines
        step = f"layers.append({inner})" if single else f"layers {'+=' if lines else '='} [{inner}]"
        lines += [f"if {text}:", f"    {step}"] if text else [step]
    return lines


def _docstring(class_: Class, grouped: bool) -> str:
    """Return a class's docstring: the source class, or that a pass found the structure."""
    definition = class_.instances[0]
    paths = [d.path for d in class_.instances if d.path]
    source = definition.source_class
    if not paths:
        return f"The source's `{source}`."
    lead = "Grouped by name and structure" if grouped else f"The source's `{source}`"
    named = [_name_some(paths, 2), _name_some(paths, 1), f"{len(paths)} modules"]
    return next((t for shown in named if len(t := f"{lead}: {shown}.") <= _WIDTH), f"{lead}.")


def _name_some(paths: list[str], count: int) -> str:
    """Name the first few of several paths, and how many more there are."""
    more = len(paths) - count
    return ", ".join(f"`{path}`" for path in paths[:count]) + (f" and {more} more" if more > 0 else "")


def _header(graph: Graph, classes: list[Class]) -> str:
    origin = graph.origin
    framework = origin.title or origin.framework
    source = (
        " ".join(p for p in (framework, f"`{origin.reference}`" if origin.reference else "") if p)
        or "a graph"
    )
    signature = ["Inputs: " + ", ".join(f"{n.name}: {n.type}" for n in graph.input_nodes())]
    if len(graph.outputs) > 1:  # a tuple, whose order somebody must know
        signature.append("Outputs: " + ", ".join(f"{n}: {graph.type_of(v) or '?'}" for n, v in graph.outputs))
    text = (
        f"{classes[-1].name} for MindSpore, rewritten from {source} by regraft.\n\n"
        "    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones\n\n"
        + "".join(f"{line}\n" for note in [*signature, *_notes(graph)] for line in _wrap(note))
    )
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}"""\n\n'


def _notes(graph: Graph) -> list[str]:
    """Return notes for the reader: how it was captured, what passes changed, what is unknown."""
    notes = [f"{note[:1].upper()}{note[1:]}." for note in graph.origin.notes]
    made: dict[str, list[str]] = {}
    for name, message in graph.provenance.changes if graph.provenance else ():
        made.setdefault(name, []).append(message)
    for name, messages in made.items():
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        notes.append(f"Pass {name}: {messages[0]}{more}.")
    if any(p.data.dtype == "bfloat16" for p in graph.parameters()):
        notes.append("Parameters are bfloat16, which MindSpore's CPU backend has no kernels for.")
    if any(p.role == "running_mean" and p.data.dtype == "float16" for p in graph.parameters()):
        notes.append("MindSpore's CPU backend does not move the float16 statistics of its BatchNorm layers.")
    if graph.origin.framework == "mxnet" and any(
        n.op_type == "BatchNormalization" and n.float("momentum") < 1 for n in graph.operators()
    ):
        notes.append(
            "Training moves the running variances towards n / (n - 1) of a batch's variance, of n numbers a "
            "channel, and MXNet towards the variance itself."
        )
    unknown = [p.name for p in _find_undrawn(graph)]
    if unknown:
        shown = ", ".join(f"`{n}`" for n in unknown[:3])
        shown += f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        notes.append(
            f"The source does not tell the initial distribution of {shown}: the checkpoint's values."
        )
    return notes


def _find_undrawn(graph: Graph) -> list[Parameter]:
    """Return the parameters for which the source gives no distribution; another would be taken for it."""
    return [p for p in graph.parameters() if not p.is_buffer and law_of(p) is None]


def _wrap(note: str) -> list[str]:
    return textwrap.wrap(note, 88, break_long_words=False, break_on_hyphens=False)


def _imports(body: str) -> str:
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
    if "ms" in names:
        lines.append("import mindspore as ms")
    if "np" in names:
        lines.append("import numpy as np")
    parts = [n for n in ("Parameter", "Tensor", "nn", "ops") if n in names]
    lines.append(f"from mindspore import {', '.join(parts)}")
    laws = [n for n in (*_INITIALIZERS, "initializer") if n in called]
    if laws:
        lines.append(f"from mindspore.common.initializer import {', '.join(laws)}")
    return "\n".join(lines) + "\n"


def format_source(text: str) -> str:
    """Return the text as `ruff format` leaves it.

    Raises:
        BackendError: when it is no Python, which is a defect of the backend.
    """
    # no shell: the command is ours, the text goes to its standard input
    command = [_ruff(), "format", "--isolated", "--stdin-filename", "model.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)  # noqa: S603
    if done.returncode:
        raise BackendError(
            "E602", f"the emitted source does not parse: {done.stderr.strip()}", place="model.py"
        )
    return done.stdout


def _ruff() -> str:
    """Return the path of the installed ruff; `python -m ruff` could run a `ruff.py` in the working directory.

    Raises:
        BackendError: when it is not installed.
    """
    name = "ruff" + (sysconfig.get_config_var("EXE") or "")
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    folders += [sysconfig.get_path("scripts", scheme) for scheme in (sysconfig.get_preferred_scheme("user"),)]
    for folder in folders:
        if (found := Path(folder) / name).is_file():
            return str(found)
    raise BackendError("E602", f"expected ruff to be installed, got no program in {folders[0]}")
