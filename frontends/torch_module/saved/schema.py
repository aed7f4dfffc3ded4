"""The JSON of a saved program as torch's own records, every field of the type that the schema states.

torch's reader takes whatever the JSON holds, and hands on names that are later written into source and
executed, operators to look up, and sizes to evaluate. Here each field has a check, and one that torch adds
gets the strictest: an identifier.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

from ....formats.refusals import malformed, quote
from .operators import is_identifier, is_operator
from .refusing import untrusted

if TYPE_CHECKING:
    from .expressions import Expressions
    from .trees import Trees

_MOST_JSON = 256 << 20
_MOST_VALUES = 6_000_000
_LARGEST = 1 << 64
_LONGEST_TEXT = 1 << 20
_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})')
_MODULES = re.compile(r"[\w.,;@<>\[\]'/ -]*\Z")
"""Keys, paths and classes of modules; a class becomes one of emitted source."""
_MOST_FRAMES = 40
_MOST_MODULES = 200
_VERIFIERS = frozenset({"ATEN", "TRAINING", ""})

Read = Callable[[Any], Any]


def parse_json(raw: bytes, place: str) -> Any:
    """Parse a JSON record; limits on its size and its number of values bound the result.

    Raises:
        ModelError: when it is none, or not as torch writes it, which is in ASCII.
    """
    values = raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if len(raw) > _MOST_JSON or values > _MOST_VALUES or not raw.isascii():
        raise untrusted(f"expected JSON in ASCII of up to {_MOST_VALUES:,} values, got {values:,}", place)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise malformed(f"expected JSON, got something else: {str(error)[:80]}", place) from error


class SchemaReader:
    """Reads JSON values as the records of `torch._export.serde.schema`.

    Args:
        place: what messages call the record.
        expressions: reads the sizes that are expressions.
        trees: reads how values nest.
    """

    def __init__(self, place: str, expressions: Expressions, trees: Trees) -> None:
        from torch._export.serde import schema

        self._place, self._expressions, self._trees = place, expressions, trees
        self._schema: Any = schema
        self._readers: dict[object, Read] = {}
        self._checks: dict[tuple[str, str], Read] = self._table()
        self.refused: dict[str, None] = {}

    def read(self, kind: type, value: Any) -> Any:
        """Return a record of `kind`.

        Raises:
            ModelError: when a field is missing, of another type than the schema's, or refused by its check.
        """
        try:
            return self._reader(kind)(value)
        except RecursionError as error:
            raise malformed("expected a program that nests less deeply", self._place) from error

    # -- the readers of types ------------------------------------------------------------------------------

    def _reader(self, kind: Any) -> Read:
        found = self._readers.get(kind)
        if found is None:
            self._readers[kind] = lambda value: self._readers[kind](value)  # a type may hold itself
            found = self._readers[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> Read:
        if isinstance(kind, str):
            kind = getattr(self._schema, kind)
        if isinstance(kind, typing.ForwardRef):
            kind = getattr(self._schema, kind.__forward_arg__)
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is Annotated:
            return self._reader(inner[0])
        if origin in (typing.Union, types.UnionType):
            some = self._reader(next(part for part in inner if part is not type(None)))
            return lambda value: None if value is None else some(value)
        if origin is list:
            return self._list(self._reader(inner[0]))
        if origin is dict:
            return self._dict(self._reader(inner[1]))
        if kind in (bool, int, float, str):
            return getattr(self, f"_{kind.__name__}")
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            return self._enum(kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._union(kind) if issubclass(kind, self._schema._Union) else self._record(kind)
        raise malformed(f"torch's schema has the type {kind!r}, which is not known here", self._place)

    def _list(self, inner: Read) -> Read:
        def read(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise self._wrong("a list", value)
            return [inner(part) for part in value]

        return read

    def _dict(self, inner: Read) -> Read:
        def read(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise self._wrong("an object", value)
            return {self._str(key): inner(part) for key, part in value.items()}

        return read

    def _enum(self, kind: type[IntEnum]) -> Read:
        known = {int(member) for member in kind}

        def read(value: Any) -> int:
            if type(value) is not int or value not in known:
                raise self._wrong(f"a {kind.__name__}", value)
            return value

        return read

    def _union(self, kind: Any) -> Read:
        fields = self._fields(kind)

        def read(value: Any) -> Any:
            if not isinstance(value, dict) or len(value) != 1:
                raise self._wrong(f"one kind of {kind.__name__}", value)
            ((name, content),) = value.items()
            if name not in fields:
                raise self._wrong(f"a kind of {kind.__name__}", name)
            made = object.__new__(kind)  # torch's own constructor writes a dict of all kinds each time
            made.__dict__ = {"_type": name, name: fields[name](content)}
            return made

        return read

    def _record(self, kind: Any) -> Read:
        fields = self._fields(kind)
        needed = {
            f.name
            for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        }

        def read(value: Any) -> Any:
            if not isinstance(value, dict) or not needed <= value.keys():
                raise self._wrong(f"a {kind.__name__}", value)
            return kind(**{name: read(value[name]) for name, read in fields.items() if name in value})

        return read

    def _fields(self, kind: Any) -> dict[str, Read]:
        hints = typing.get_type_hints(kind, globalns=dict(vars(self._schema)))
        found: dict[str, Read] = {}
        for field in dataclasses.fields(kind):
            check = self._checks.get((kind.__name__, field.name))
            if check is None and _holds_text(hints[field.name]):
                check = self._named
            found[field.name] = self._both(self._reader(hints[field.name]), check)
        return found

    @staticmethod
    def _both(read: Read, check: Read | None) -> Read:
        return read if check is None else lambda value: check(read(value))

    # -- plain values --------------------------------------------------------------------------------------

    def _bool(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._wrong("true or false", value)
        return value

    def _int(self, value: Any) -> int:
        if type(value) is not int or not -_LARGEST < value < _LARGEST:
            raise self._wrong("a whole number", value)
        return value

    def _float(self, value: Any) -> float:
        if value in ("Infinity", "-Infinity", "NaN"):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e309:
            raise self._wrong("a number", value)
        if isinstance(value, int) and abs(value) >= _LARGEST:
            raise self._wrong("a number", value)
        return float(value)

    def _str(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise self._wrong("a text", value)
        return value

    def _wrong(self, wanted: str, value: Any) -> Exception:
        return malformed(f"expected {wanted}, got {quote(_short(value))}", self._place)

    # -- what single fields may say ------------------------------------------------------------------------

    def _table(self) -> dict[tuple[str, str], Read]:
        path, named, keys = self._path, self._named, self._named_keys
        return {
            ("Device", "type"): lambda value: "meta" if value == "meta" else "cpu",
            ("Device", "index"): lambda _: None,
            ("SymExpr", "expr_str"): self._expressions.read,
            ("CustomObjArgument", "name"): self._object,
            ("CustomObjArgument", "class_fqn"): self._object,
            ("GraphArgument", "name"): named,
            ("Argument", "as_string"): self._str,
            ("Argument", "as_strings"): lambda value: value,
            ("Argument", "as_operator"): self._operator,
            ("Argument", "as_string_to_argument"): lambda value: value,
            ("NamedArgument", "name"): lambda name: name and named(name),
            ("Node", "target"): self._operator,
            ("Node", "metadata"): self._metadata,
            ("Node", "name"): lambda name: name and named(name),
            ("Graph", "tensor_values"): keys,
            ("Graph", "sym_int_values"): keys,
            ("Graph", "sym_bool_values"): keys,
            ("Graph", "sym_float_values"): keys,
            ("Graph", "custom_obj_values"): keys,
            ("ConstantValue", "as_string"): self._str,
            ("InputToConstantInputSpec", "name"): lambda name: name and named(name),
            ("InputToParameterSpec", "parameter_name"): path,
            ("InputToBufferSpec", "buffer_name"): path,
            ("InputToTensorConstantSpec", "tensor_constant_name"): path,
            ("InputToCustomObjSpec", "custom_obj_name"): self._object,
            ("BufferMutationSpec", "buffer_name"): path,
            ("ParameterMutationSpec", "parameter_name"): path,
            ("GradientToParameterSpec", "parameter_name"): path,
            ("ModuleCallSignature", "in_spec"): lambda text: self._trees.read(text, of_inputs=True),
            ("ModuleCallSignature", "out_spec"): lambda text: self._trees.read(text, of_inputs=False),
            ("ModuleCallSignature", "forward_arg_names"): lambda names: names and [named(n) for n in names],
            ("ModuleCallEntry", "fqn"): lambda name: name and path(name),
            ("NamedTupleDef", "field_names"): lambda names: [named(n) for n in names],
            ("GraphModule", "metadata"): lambda _: {},
            ("GraphModule", "treespec_namedtuple_fields"): lambda value: value,
            ("ExportedProgram", "opset_version"): lambda value: value,
            ("ExportedProgram", "range_constraints"): self._ranges,
            ("ExportedProgram", "verifiers"): lambda names: [
                n if n in _VERIFIERS else "TRAINING" for n in names
            ],
            ("ExportedProgram", "torch_version"): self._str,
            (
                "ExportedProgram",
                "guards_code",
            ): lambda _: [],  # Python that torch executes when the program runs
            ("PayloadMeta", "path_name"): self._str,
            ("PayloadConfig", "config"): lambda value: {path(key): part for key, part in value.items()},
        }

    def _named(self, name: Any) -> Any:
        if not isinstance(name, str) or not is_identifier(name):
            raise self._wrong("an identifier", name)
        return name

    def _named_keys(self, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            self._named(name)
        return value

    def _path(self, path: str) -> str:
        """Return the path of a module or tensor: torch writes its parts into source, in double quotes."""
        if not path or not path.isprintable() or any(c in path for c in "\"'\\{}#") or ".." in path:
            raise self._wrong("the path of a module or tensor", path)
        return path

    def _object(self, name: str) -> str:
        raise untrusted(f"an object of a class of its own, {quote(name)}, which is unpickled", self._place)

    def _operator(self, target: str) -> str:
        if not is_operator(target):
            self.refused[target] = None
        return target

    def _metadata(self, given: dict[str, str]) -> dict[str, str]:
        """The modules and source lines of a node; of the rest torch imports some, and none is needed."""
        kept: dict[str, str] = {}
        modules = given.get("nn_module_stack", "")
        if modules and _MODULES.match(modules) and modules.count(";") < _MOST_MODULES:
            kept["nn_module_stack"] = modules
        frames = _FRAME.findall(given.get("stack_trace", ""))[-_MOST_FRAMES:]
        if frames:
            kept["stack_trace"] = "\n".join(
                f'File "{file}", line {line}, in forward' for file, line in frames
            )
        return kept

    def _ranges(self, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:  # a size that depends on another has its expression for a name
            self._expressions.read(name)
        return given


def _holds_text(hint: Any) -> bool:
    """Whether a field's type has texts of its own in it, as against those of other records."""
    if hint is str:
        return True
    origin = typing.get_origin(hint)
    return origin in (Annotated, typing.Union, types.UnionType, list, dict) and any(
        _holds_text(part) for part in typing.get_args(hint)
    )


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return type(value).__name__ + (f" of {', '.join(map(str, list(value)[:4]))[:60]}" if value else "")
    return math.nan.__repr__() if isinstance(value, float) and value != value else str(value)[:100]
