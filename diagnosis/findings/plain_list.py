"""Layers and Parameters in Python's own lists, tuples and dicts, which the framework does not look into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...passes import Change
from ..subject import Subject, assigned_at, is_library_class, is_model

CODES = {
    "PL101": "layers in a plain list or dict are not registered: nothing trains, saves or loads them",
    "PL102": "Parameters in a plain list or dict are not registered: nothing trains, saves or loads them",
}
CONTAINERS = {
    ("mindspore", "PL101", False): "CellList",
    ("mindspore", "PL101", True): "CellDict",
    ("torch", "PL101", False): "ModuleList",
    ("torch", "PL101", True): "ModuleDict",
    ("torch", "PL102", False): "ParameterList",
    ("torch", "PL102", True): "ParameterDict",
}
"""(framework, finding, whether it is a dict) -> the framework's own container, in its `nn`."""
_OTHERWISE = {False: "ParameterTuple([Parameter(…, name=…), …])", True: "an attribute for each Parameter"}


def find(subject: Subject) -> list[Change]:
    """Return findings for every attribute of the user's classes that holds what would be trained."""
    parts = list(subject.parts())
    modules = {id(part) for _, part in parts}
    own = [p for _, part in parts for p in _own_parameters(part)]
    parameters = {id(p) for p in own}
    without_values = all(getattr(p, "is_meta", False) for p in own)
    found: list[Change] = []
    for path, part in parts:
        if is_library_class(type(part)):
            continue
        for attribute, value in vars(part).items():
            if attribute.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            if type(value).__name__ == "ParameterTuple":
                continue
            held = list(_held(value))
            layers = [
                h for h in held if is_model(h) and id(h) not in modules and _is_trained(h, without_values)
            ]
            loose = [h for h in held if _is_parameter(h) and id(h) not in parameters and h.requires_grad]
            for some, code, word in ((layers, "PL101", "layers"), (loose, "PL102", "Parameters")):
                if some:
                    found.append(_change(subject, path, part, attribute, value, len(some), code, word))
    return found


def _change(
    subject: Subject, path: str, part: Any, attribute: str, value: Any, count: int, code: str, word: str
) -> Change:
    is_dict = isinstance(value, dict)
    container = CONTAINERS.get((subject.framework, code, is_dict))
    instead = _OTHERWISE[is_dict] if container is None else f"nn.{container}({'{…}' if is_dict else '[…]'})"
    what = word if count > 1 else word.removesuffix("s")
    full = f"{path}.{attribute}" if path else attribute
    return Change(
        code,
        f"`{full}` is a plain {type(value).__name__} of {count} {what}: nothing trains, saves or loads "
        f"{'them' if count > 1 else 'it'}, though they may run",
        place=assigned_at(type(part), attribute) or full,
        severity="error",
        fixed=False,
        modules=(full,),
        advice=f"`self.{attribute} = {instead}`",
    )


def _held(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the content of a container, with nested plain containers."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (list, tuple, dict)) and depth < _DEEPEST:
            yield from _held(item, depth + 1)
        else:
            yield item


_DEEPEST = 4
"""Lists in lists in lists: deeper ones are data, and may hold themselves."""


def _own_parameters(part: Any) -> Iterator[Any]:
    found = vars(part).get("_params") or vars(part).get("_parameters") or {}
    yield from (p for p in found.values() if p is not None)


def _is_parameter(value: object) -> bool:
    return any(
        cls.__name__ == "Parameter" and (cls.__module__ or "").startswith(("mindspore", "torch.nn"))
        for cls in type(value).__mro__
    )


def _is_trained(layer: Any, without_values: bool) -> bool:
    """Whether a layer has parameters to train.

    One on `meta`, in a model that has values, has none: it lends its code to `torch.func.functional_call`.
    """
    kind: Any = type(layer)  # an attribute of the layer's own may hide its `parameters`
    parameters = kind.parameters(layer) if hasattr(kind, "parameters") else layer.get_parameters()
    return any(p.requires_grad and (without_values or not getattr(p, "is_meta", False)) for p in parameters)
