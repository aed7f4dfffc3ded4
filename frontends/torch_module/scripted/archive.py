"""The content of a TorchScript archive: objects, constants and source text, read without running any."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....formats.pickled import Strided, Unknown, read_pickle
from ....formats.refusals import malformed, quote
from ....ir import ModelError
from ..saved.payloads import Tensors, make_tensor
from ..saved.records import Records

if TYPE_CHECKING:
    import torch

_MOST_SOURCE = 16 << 20
"""Bytes of a file of source text; the largest nets of torchvision have some 100 kB."""
_MOST_PICKLE = 64 << 20
_MOST_INSTRUCTIONS = 3_000_000
_TAG = "torch.jit._pickle.restore_type_tag"
_LISTS = "torch.jit._pickle.build_"
_ROOT = "__torch__"
_VERSION = 10
"""The version of the format that torch writes since 1.12."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method of the source text.

    Attributes:
        name: its name, within a class the method's.
        node: its syntax.
        file: the record that holds it, for messages.
    """

    name: str
    node: ast.FunctionDef
    file: str


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an enumeration.

    Attributes:
        kind: the name of its class.
        name: its name.
        value: what it stands for.
    """

    kind: str
    name: str
    value: Any


@dataclass(slots=True)
class ScriptClass:
    """A class of the source text.

    Attributes:
        name: its name without the module.
        home: the Python module that it was written in.
        base: ``Module``, ``NamedTuple``, ``Enum``, or "" for a plain class.
        fields: names of its typed attributes, in order.
        parameters, buffers: the names of its tensors.
        methods: name -> function.
        members: of an enumeration, by name.
    """

    name: str
    home: str
    base: str
    fields: list[str] = field(default_factory=list)
    parameters: frozenset[str] = frozenset()
    buffers: frozenset[str] = frozenset()
    methods: dict[str, Function] = field(default_factory=dict)
    members: dict[str, EnumMember] = field(default_factory=dict)


class Archive:
    """A TorchScript archive.

    Args:
        path: the file.

    Attributes:
        root: the pickled root module: its class's name and its attributes.
        version: of the format, by which some operators computed otherwise once.
        constants: what ``CONSTANTS.c0`` and its followers are, in order.
        examples: shape and element type, as ``1x3x224x224:float32``, of every input that `forward` was
            traced with; None for a scripted module.

    Raises:
        ModelError: when the file breaks the format.
    """

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            records = Records(file, self.place, 0, size, inflated=_MOST_SOURCE)
            if "data.pkl" not in records or "constants.pkl" not in records:
                raise ModelError(
                    "E101",
                    "expected a TorchScript archive of torch 1.4 or later, got another archive",
                    place=self.place,
                    hint="write it anew with a later torch: torch.jit.save(torch.jit.load(FILE), NEW)",
                )
            if "byteorder" in records and records.read("byteorder", 16).strip() != b"little":
                raise malformed("expected tensors in little-endian order", self.place)
            self.version = _version_of(records, self.place)
            self._texts = {
                name: records.read(name, _MOST_SOURCE)
                for name in records.names
                if name.startswith("code/") and name.endswith(".py")
            }
            self._tensors = Tensors(records)
            self._made: dict[tuple[Any, ...], torch.Tensor] = {}
            self.root = self._read(records, "data")
            constants = self._read(records, "constants")
            self.constants = constants if isinstance(constants, tuple) else ()
            self.examples = self._examples(records)
        self._parsed: dict[str, dict[str, Function | ScriptClass]] = {}

    def find(self, name: str) -> Function | ScriptClass | None:
        """Return the function or class of a name such as ``__torch__.torch.nn.functional.relu``."""
        home, _, last = name.rpartition(".")
        file = f"code/{home.replace('.', '/')}.py"
        if file not in self._texts or not home.startswith(_ROOT):
            return None
        if file not in self._parsed:
            self._parsed[file] = self._parse(file, home)
        return self._parsed[file].get(last)

    def script_class(self, name: str) -> ScriptClass:
        """Return the class of a name.

        Raises:
            ModelError: when the archive has none.
        """
        found = self.find(name)
        if not isinstance(found, ScriptClass):
            raise malformed(f"expected the source of the class {quote(name)}, got none", self.place)
        return found

    def _read(self, records: Records, name: str) -> Any:
        place = f"{self.place}: `{name}.pkl`"
        found = read_pickle(records.read(f"{name}.pkl", _MOST_PICKLE), place, _MOST_INSTRUCTIONS)
        return self._opened(found, name, {})

    def _opened(self, value: Any, folder: str, known: dict[int, Any]) -> Any:
        """Return a value of a pickle with its tensors made, and without the tags of types."""
        waiting = id(value)
        if waiting in known:
            return known[waiting]
        made: Any = value
        if isinstance(value, Strided):
            made = self._tensor(value, folder)
        elif isinstance(value, Unknown) and (value.name == _TAG or value.name.startswith(_LISTS)):
            arguments = value.arguments
            if not isinstance(arguments, tuple) or not arguments:
                raise malformed("expected a value with the tag of its type", self.place)
            made = self._opened(arguments[0], folder, known)
        elif isinstance(value, Unknown):
            known[waiting] = value
            value.state = self._opened(value.state, folder, known)
        elif isinstance(value, dict):
            known[waiting] = made = {}
            made.update({key: self._opened(held, folder, known) for key, held in value.items()})
        elif isinstance(value, list):
            known[waiting] = made = []
            made.extend(self._opened(held, folder, known) for held in value)
        elif isinstance(value, tuple):
            made = tuple(self._opened(held, folder, known) for held in value)
        known[waiting] = made
        return made

    def _tensor(self, found: Strided, folder: str) -> torch.Tensor:
        key = (folder, found.storage.key, found.dtype, found.offset, found.sizes, found.strides)
        if key not in self._made:
            self._made[key] = make_tensor(self._tensors, found, folder)
        return self._made[key]

    def _examples(self, records: Records) -> list[str] | None:
        """Return the inputs of a trace by shape and element type; their values are not in the file."""
        if "traced_inputs.pkl" not in records:
            return None
        place = f"{self.place}: `traced_inputs.pkl`"
        found = read_pickle(records.read("traced_inputs.pkl", _MOST_PICKLE), place, _MOST_INSTRUCTIONS)
        methods = _untagged(found)
        given = _untagged(methods.get("forward")) if isinstance(methods, dict) else None
        if not isinstance(given, list) or not all(isinstance(item, Strided) for item in given):
            return None
        return ["x".join(map(str, item.sizes)) + f":{item.dtype}" for item in given]

    def _parse(self, file: str, home: str) -> dict[str, Function | ScriptClass]:
        place = f"{self.place}: {quote(file)}"
        try:
            tree = ast.parse(self._texts[file].decode())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise malformed("expected source of TorchScript, got text that does not parse", place) from error
        written = home.removeprefix(_ROOT).strip(".")
        module = ".".join(part for part in written.split(".") if not part.startswith("___torch_mangle"))
        found: dict[str, Function | ScriptClass] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = Function(node.name, node, file)
            elif isinstance(node, ast.ClassDef):
                found[node.name] = _class(node, module, file)
            elif not isinstance(node, (ast.Import, ast.ImportFrom)):
                raise malformed("expected functions and classes", f"{place}:{node.lineno}")
        return found


def _version_of(records: Records, place: str) -> int:
    """Return the version of the format that an archive states; the last that changed operators where none."""
    name = next((n for n in ("version", ".data/version") if n in records), None)
    text = str(_VERSION).encode() if name is None else records.read(name, 16).strip()
    if not text.isdigit():
        raise malformed("expected the version of the format as a number", place)
    return int(text)


def _untagged(value: Any) -> Any:
    tagged = isinstance(value, Unknown) and value.name == _TAG and isinstance(value.arguments, tuple)
    return value.arguments[0] if tagged and value.arguments else value


def _class(node: ast.ClassDef, home: str, file: str) -> ScriptClass:
    base = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else ""
    found = ScriptClass(node.name, home, base)
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found.methods[item.name] = Function(item.name, item, file)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found.fields.append(item.target.id)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            names = frozenset(
                element.value
                for element in getattr(item.value, "elts", ())
                if isinstance(element, ast.Constant) and isinstance(element.value, str)
            )
            if item.targets[0].id == "__parameters__":
                found.parameters = names
            elif item.targets[0].id == "__buffers__":
                found.buffers = names
            elif base == "Enum" and isinstance(item.value, ast.Constant):
                name = item.targets[0].id
                found.members[name] = EnumMember(f"{file}:{node.name}", name, item.value.value)
    return found
