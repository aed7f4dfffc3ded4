"""Modules of a TorchScript archive as live modules of torch, whose `forward` an interpreter runs."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ....formats.pickled import Unknown
from ....formats.refusals import malformed, quote
from ....ir import UnsupportedError
from .archive import Archive, EnumMember, Function, ScriptClass
from .chains import is_chain
from .interpreter import Interpreter, ScriptObject
from .numbers import tensors_of_numbers

_CONTAINERS: dict[str, type[nn.Module]] = {
    "torch.nn.modules.container.ModuleList": nn.ModuleList,
    "torch.nn.modules.container.ModuleDict": nn.ModuleDict,
}
_SEQUENTIAL = "torch.nn.modules.container.Sequential"
_CALLS = re.compile(r"forward(_*[0-9]+)?")
"""Names of `forward`: a trace numbers the second call, and a scripted module its overloads."""
_COMPILED = "__torch__.torch.classes."
"""The prefix of torch's own classes in C++, of which an archive has no source."""
_QUANTISED = "give the quantised model itself, which is read with its integers: name it as file.py:Net"
_IGNORED = frozenset({"training", "_is_full_backward_hook"})


class ScriptModule(nn.Module):
    """A module of an archive.

    Attributes:
        script_class: its class in the archive; of the Python class.
        interpreter: runs its methods; of the Python class.
        script_values: its attributes that are neither modules, parameters nor buffers.
    """

    script_class: ScriptClass
    interpreter: Interpreter

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.script_values: dict[str, Any] = {}
        self.method = "forward"

    def script_attribute(self, name: str) -> Any:
        """Return the attribute of a name.

        Raises:
            KeyError: when it has none.
        """
        if name == "training":
            return self.training
        for held in (self._parameters, self._buffers, self._modules, self.script_values):
            if name in held:
                return held[name]
        raise KeyError(name)

    def set_script_attribute(self, name: str, value: Any) -> None:
        """Assign an attribute."""
        if name in self._buffers or name in self._parameters:
            setattr(self, name, value)
        else:
            self.script_values[name] = value


def read_archive(path: Path) -> tuple[nn.Module, list[str] | None]:
    """Return the root module of an archive, and the shapes that it was traced with.

    Nothing of the file is executed as Python: text is parsed, pickles are read by a machine that calls
    nothing, and methods run in an interpreter whose calls are torch's operators.

    Raises:
        ModelError: when the file breaks the format.
        UnsupportedError: for a class that is no module, such as packed weights of quantised layers.
    """
    archive = Archive(path)
    return _Maker(archive).module(archive.root), archive.examples


class _Maker:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._interpreter = Interpreter(archive, _call)
        self._classes: dict[str, type[ScriptModule]] = {}
        self._made: dict[int, Any] = {}

    def module(self, found: Any) -> ScriptModule:
        made = self._object(found)
        if not isinstance(made, ScriptModule):
            raise malformed("expected a module", self._archive.place)
        return made

    def _object(self, found: Any) -> Any:
        if not isinstance(found, Unknown) or not found.name.startswith("__torch__."):
            name = found.name if isinstance(found, Unknown) else type(found).__name__
            raise UnsupportedError(
                "E203", f"the archive holds an object of {quote(name)}", place=self._archive.place
            )
        if id(found) in self._made:
            return self._made[id(found)]
        if found.name.startswith(_COMPILED):
            raise UnsupportedError(
                "E203",
                f"the archive holds an object of {quote(found.name)}, as quantised layers do",
                place=self._archive.place,
                hint=_QUANTISED,
            )
        script_class = self._archive.script_class(found.name)
        if script_class.base == "Enum":
            return self._member(found, script_class)
        if "__setstate__" in script_class.methods:
            raise UnsupportedError(
                "E203",
                f"`{script_class.name}` restores its state by code of its own, as quantised layers do",
                place=self._archive.place,
                hint=_QUANTISED,
            )
        if not isinstance(found.state, dict) or not all(isinstance(key, str) for key in found.state):
            raise malformed(f"expected attributes of {quote(found.name)}", self._archive.place)
        if script_class.base != "Module":
            made: Any = ScriptObject(script_class, {})
            self._made[id(found)] = made
            made.attributes.update({key: self._value(v) for key, v in found.state.items()})
            return made
        made = self._class(found, script_class)()
        self._made[id(found)] = made
        tensors = {name for name, value in found.state.items() if isinstance(value, torch.Tensor)}
        for name in sorted(found.state, key=lambda name: name not in tensors):  # lists may hold parameters
            self._register(made, name, self._value(found.state[name]))
        made.training = found.state.get("training") is True
        return made

    def _member(self, found: Unknown, script_class: ScriptClass) -> EnumMember:
        for member in script_class.members.values():
            if type(member.value) is type(found.arguments) and member.value == found.arguments:
                return replace(member)  # TorchScript's `is` tells it from the member that code names
        raise malformed(f"expected a member of {quote(found.name)}", self._archive.place)

    def _register(self, made: ScriptModule, name: str, value: Any) -> None:
        kind = made.script_class
        if name in _IGNORED:
            return
        if "." in name or not name:
            raise malformed(f"expected the name of an attribute, got {quote(name)}", self._archive.place)
        if isinstance(value, ScriptModule):
            made._modules[name] = value
        elif value is None and name in kind.parameters:
            made._parameters[name] = None
        elif isinstance(value, torch.Tensor) and name in kind.parameters:
            made._parameters[name] = self._parameter(value)
        elif isinstance(value, torch.Tensor):
            made._buffers[name] = value
            if name not in kind.buffers:
                made._non_persistent_buffers_set.add(name)
        else:
            made.script_values[name] = value

    def _parameter(self, tensor: Any) -> nn.Parameter:
        if id(tensor) not in self._made:
            wanted = tensor.requires_grad and tensor.is_floating_point()
            self._made[id(tensor)] = nn.Parameter(tensor.detach(), requires_grad=wanted)
        return self._made[id(tensor)]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Unknown):
            return self._object(value)
        if isinstance(value, torch.Tensor):
            return self._made.get(id(value), value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._value(item) for item in value)
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        return value

    def _class(self, found: Unknown, script_class: ScriptClass) -> type[ScriptModule]:
        if found.name not in self._classes:
            where = f"{script_class.home}.{script_class.name}"
            forward = script_class.methods.get("forward") or script_class.methods.get("forward__0")
            content: dict[str, Any] = {
                "__module__": _home(script_class),
                "script_class": script_class,
                "interpreter": self._interpreter,
                "forward": _forward(forward),
            }
            container = _CONTAINERS.get(where)
            if where == _SEQUENTIAL and forward is not None and is_chain(forward, _children(found)):
                container, content["forward"] = nn.Sequential, nn.Sequential.forward
            bases = (ScriptModule,) if container is None else (ScriptModule, container)
            self._classes[found.name] = type(script_class.name, bases, content)
        return self._classes[found.name]


def _children(found: Unknown) -> list[str]:
    return [name for name, value in found.state.items() if isinstance(value, Unknown)]


def _home(script_class: ScriptClass) -> str:
    """Return the Python module of a class: torch's own keep theirs, which tells how they are drawn."""
    home = script_class.home
    return home if home.startswith("torch.nn.modules") else f"torchscript.{home}".rstrip(".")


def _call(module: ScriptModule, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call a method: `forward`, and `forward1` of a trace, are calls of the module."""
    function = module.script_class.methods.get(name)
    if function is None:
        raise malformed(
            f"expected a method {quote(name)} of {quote(module.script_class.name)}",
            module.interpreter.archive.place,
        )
    if _CALLS.fullmatch(name) is None:
        return module.interpreter.call(function, [module, *arguments], keywords)
    before, module.method = module.method, name
    try:
        return module(*arguments, **keywords)
    finally:
        module.method = before


def _forward(function: Function | None) -> Any:
    def forward(self: ScriptModule, *arguments: Any, **keywords: Any) -> Any:
        name, self.method = self.method, "forward"
        method = function if name == "forward" else self.script_class.methods.get(name)
        if method is None:
            raise malformed(
                f"expected a method {quote(name)} of {quote(self.script_class.name)}",
                self.interpreter.archive.place,
            )
        found = self.interpreter.call(method, [self, *arguments], keywords)
        return pytree.tree_map(tensors_of_numbers, found) if self.interpreter.is_done else found

    if function is not None:
        forward.__signature__ = _signature(function)
    return forward


def _signature(function: Function) -> inspect.Signature:
    arguments = function.node.args
    first = len(arguments.args) - len(arguments.defaults)
    parameters: list[inspect.Parameter] = []
    for at, argument in enumerate(arguments.args):
        default: Any = inspect.Parameter.empty
        if at >= first:
            stated = arguments.defaults[at - first]
            try:
                default = ast.literal_eval(stated)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                default = None
        name = argument.arg if at else "self"
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)
