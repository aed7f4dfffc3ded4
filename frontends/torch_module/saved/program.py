"""A saved program opened without executing anything that its file holds."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....formats.refusals import malformed, quote
from ....ir import ModelError
from ..export.export_errors import first_line
from ..export.tracing import unlogged
from .expressions import Expressions
from .payloads import Tensors, pickled_tensors, raw_tensors
from .records import Records
from .refusing import untrusted
from .samples import sample_tensors
from .schema import SchemaReader, parse_json
from .trees import Trees

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_MOST_JSON = 256 << 20
_SMALL = 4096
_KNOWN_FOLDERS = (
    "data/weights/",
    "data/constants/",
    "data/sample_inputs/",
    "models/",
    ".data/",
    "extra/",
    "extra_files/",
)
_KNOWN_FILES = frozenset(
    {"archive_format", "archive_version", "byteorder", "version", ".format_version", ".storage_alignment"}
)
_RUNS = {
    "data/aotinductor/": "compiled code, which loading it runs",
    "data/weights/custom_obj_": "an object that is unpickled",
    "data/constants/custom_obj_": "an object that is unpickled",
    "data/constants/opaque_obj_": "an object that is unpickled",
    "code/": "TorchScript",
}


@dataclass(slots=True)
class Saved:
    """A program from a file.

    Attributes:
        program: the program.
        examples: the tensors of its example inputs, in the order of its inputs; None where it has none that
            can be read as data.
    """

    program: ExportedProgram
    examples: list[torch.Tensor] | None


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of one of torch's two kinds of archive."""

    program: str
    samples: str
    weights: str
    constants: str


_NOW = _Layout("models/model.json", "data/sample_inputs/model.pt", "data/weights/", "data/constants/")
_BEFORE = _Layout(  # until torch 2.7
    "serialized_exported_program.json",
    "serialized_example_inputs.pt",
    "serialized_state_dict.pt",
    "serialized_constants.pt",
)


def read_program(path: Path) -> Saved:
    """Open a saved program: archive, JSON, sizes and tensors are read by this package, then given to torch.

    torch's own reader, `torch.export.load`, sees nothing of the file: it unpickles, evaluates and imports
    what a file names.

    Raises:
        ModelError: E101 when the file breaks the format, E107 when it holds what only code could open.
    """
    with path.open("rb") as file:
        records = Records(file, str(path), 0, os.fstat(file.fileno()).st_size)
        layout = _BEFORE if _BEFORE.program in records else _NOW
        _require_known(records, layout, str(path))
        return _opened(records, layout, path)


def _require_known(records: Records, layout: _Layout, place: str) -> None:
    if layout is _NOW and (
        "archive_format" not in records or records.read("archive_format", _SMALL).strip() != b"pt2"
    ):
        raise malformed("expected an exported program, got another archive", place)
    if layout is _NOW and "archive_version" in records:
        version = records.read("archive_version", _SMALL).strip()
        if version != b"0":
            raise malformed(
                f"expected an archive of version 0, got {quote(version.decode('ascii', 'replace'))}",
                place,
            )
    allowed = {layout.program, layout.samples, layout.weights, layout.constants}
    for name in records.names:
        for start, what in _RUNS.items():
            if name.startswith(start):
                raise untrusted(f"the archive holds {what}", f"{place}: {quote(name)}")
        if name not in allowed | _KNOWN_FILES and not name.startswith(_KNOWN_FOLDERS):
            raise malformed(
                "the archive holds a record that no exported program has", f"{place}: {quote(name)}"
            )
    others = [name for name in records.names if name.startswith("models/") and name != layout.program]
    if others:
        raise malformed("expected one program, got several", f"{place}: {quote(others[0])}")


def _opened(records: Records, layout: _Layout, path: Path) -> Saved:
    from torch._export.serde import schema

    place = f"{path}: {quote(layout.program)}"
    expressions, trees = Expressions(place), Trees(place)
    reader = SchemaReader(place, expressions, trees)
    content = parse_json(records.read(layout.program, _MOST_JSON), place)
    serialised = reader.read(schema.ExportedProgram, content)
    in_spec = _in_spec(content, place)
    del content
    if reader.refused:
        names = ", ".join(quote(name) for name in list(reader.refused)[:5])
        more = f" and {len(reader.refused) - 5} more" if len(reader.refused) > 5 else ""
        raise untrusted(f"the program calls {names}{more}, which is no operator of torch on tensors", place)
    tensors = Tensors(records)
    weights = _tensors(records, layout, tensors, "weights", trees)
    constants = _tensors(records, layout, tensors, "constants", trees)
    _require_complete(serialised, weights, constants, place)
    examples = None
    if layout.samples in records and records.size_of(layout.samples):
        examples = sample_tensors(records.within(layout.samples), in_spec)
    return Saved(_built(serialised, weights, constants, path), examples)


def _tensors(records: Records, layout: _Layout, tensors: Tensors, what: str, trees: Trees) -> dict[str, Any]:
    from torch._export.serde import schema

    where = layout.weights if what == "weights" else layout.constants
    whole = where if layout is _BEFORE else f"{where}model.pt"
    if whole in records:
        return pickled_tensors(records.within(whole)) if records.size_of(whole) else {}
    config = f"{where}model_{what}_config.json"
    place = f"{records.place}: {quote(config)}"
    content = parse_json(records.read(config, _MOST_JSON), place)
    reader = SchemaReader(place, Expressions(place), trees)
    return raw_tensors(reader.read(schema.PayloadConfig, content), where, tensors)


def _in_spec(content: Any, place: str) -> str:
    """Return the nesting of the inputs in the file, as `Trees` has read it."""
    calls = content["graph_module"]["module_call_graph"]
    if not calls or not calls[0].get("signature") or calls[0].get("fqn"):
        raise malformed("expected the signature of the program's call", place)
    return calls[0]["signature"]["in_spec"]


def _require_complete(
    serialised: Any, weights: dict[str, Any], constants: dict[str, Any], place: str
) -> None:
    """Require every parameter and buffer of the program in the file."""
    for spec in serialised.graph_module.signature.input_specs:
        named = {
            "parameter": lambda s: (s.parameter_name, weights),
            "buffer": lambda s: (s.buffer_name, weights if s.persistent else constants),
            "tensor_constant": lambda s: (s.tensor_constant_name, constants),
        }.get(str(spec.type))
        if named is not None:
            name, held = named(spec.value)
            if name not in held:
                raise malformed(f"expected a tensor {quote(name)} in the file, got none", place)


def _built(
    serialised: Any, weights: dict[str, Any], constants: dict[str, Any], path: Path
) -> ExportedProgram:
    from torch._export.serde.serialize import ExportedProgramDeserializer

    try:
        with (
            warnings.catch_warnings(),
            unlogged("torch.fx.experimental.symbolic_shapes"),
            unlogged("torch._export.serde.serialize"),
        ):
            warnings.simplefilter("ignore")
            return ExportedProgramDeserializer().deserialize(serialised, weights, constants)
    except Exception as error:  # torch raises many kinds for a program that contradicts itself
        raise ModelError(
            "E101",
            f"expected an exported program, got a file that torch refuses: {first_line(error)}",
            place=str(path),
            hint="write it with torch.export.save(program, file); give a pickled module as file.py:Name",
        ) from error
