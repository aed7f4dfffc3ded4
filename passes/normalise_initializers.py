"""normalise-initializers: every parameter states the distribution that training starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..frameworks.mindspore import MINDSPORE, MINDSPORE_2_0
from ..frameworks.mxnet import GLUON, MODULE
from ..frameworks.record import Framework
from ..frameworks.torch import TORCH
from ..ir import Graph, Initializer, Module, Parameter
from .base import Change, Pass


@dataclass(frozen=True)
class NormaliseInitializers(Pass):
    """Make initial distributions explicit.

    What it does:
        Gives a parameter without an initial distribution the default of the layer that holds it, by the
        tables of the framework that the model came from. Laws stay symbolic: ``he_uniform(a=√5)``, not its
        bounds.

    Why:
        The frameworks' defaults differ, and MindSpore's changed with 2.1 (Normal(0.01) and zeros before,
        HeUniform(√5) and Uniform(1/√fan_in) since): a layer that says nothing trains from another
        distribution in another framework.

    Leaves alone:
        Distributions that are stated, also as ``unknown``. The values themselves: this is about how training
        starts anew.

    Refuses:
        Nothing; a parameter whose law cannot be known is reported and stays without one.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "fc" Linear {weight=%w, bias=%b}
        ...   %w = param "fc.weight" : f32[2,4]
        ...   %b = param "fc.bias" : f32[2]
        ... }''')
        >>> for change in NormaliseInitializers(framework="torch").run(graph):
        ...     print(change)
        IN101 `Linear.weight` starts from torch's he_uniform(a=2.23606797749979, mode="fan_in") - at fc.weight
        IN101 `Linear.bias` starts from torch's uniform(low=-0.5, high=0.5) - at fc.bias

    Attributes:
        framework: whose defaults to take; "auto" is the one that the model came from.
        mindspore: "2.1" for the defaults of 2.1 and later, "2.0" for those of 2.0 and earlier.
        mxnet: "gluon" (Uniform(0.07)) or "module" (Uniform(0.01)).
    """

    name: ClassVar[str] = "normalise-initializers"
    codes: ClassVar[dict[str, str]] = {
        "IN101": "a parameter's initial distribution is its framework's default",
        "IN102": "parameters whose initial distribution is not known",
    }

    framework: Literal["auto", "torch", "mindspore", "mxnet"] = "auto"
    mindspore: Literal["2.1", "2.0"] = "2.1"
    mxnet: Literal["gluon", "module"] = "gluon"

    def run(self, graph: Graph) -> list[Change]:
        """Normalise; see the class."""
        framework = graph.origin.framework if self.framework == "auto" else self.framework
        records = {
            "torch": TORCH,
            "mindspore": MINDSPORE if self.mindspore == "2.1" else MINDSPORE_2_0,
            "mxnet": GLUON if self.mxnet == "gluon" else MODULE,
        }.get(framework)
        holders = _holders(graph)
        paths = graph.parameter_paths()
        defaults: dict[tuple[str, str], list[tuple[str, Initializer]]] = {}
        unknown: list[str] = []
        for parameter in graph.parameters():
            stated = parameter.initializer
            if stated is not None and stated.law != "unknown":
                continue
            place = (paths.get(parameter.key) or [parameter.name])[0]
            owner, law = _find_law(graph, records, parameter, holders.get(parameter.key, []))
            if law is None or stated is not None:
                unknown.append(place)
                continue
            parameter.initializer = law
            defaults.setdefault(owner, []).append((place, law))
        changes = [_make_change(framework, *owner, made) for owner, made in defaults.items()]
        if unknown:
            listed = ", ".join(f"`{path}`" for path in unknown[:5]) + (", …" if len(unknown) > 5 else "")
            changes.append(
                Change(
                    "IN102",
                    f"the initial distribution of {len(unknown)} parameter{'s' if len(unknown) > 1 else ''} "
                    f"is not known: {listed}",
                    place=unknown[0],
                    fixed=False,
                )
            )
        return changes


def _holders(graph: Graph) -> dict[int, list[tuple[Module, str]]]:
    """Return parameter key -> (module, attribute name) of every module that holds it."""
    out: dict[int, list[tuple[Module, str]]] = {}
    for module in graph.modules:
        for name, key in module.parameters.items():
            out.setdefault(key, []).append((module, name))
    return out


def _find_law(
    graph: Graph, records: Framework | None, parameter: Parameter, holders: list[tuple[Module, str]]
) -> tuple[tuple[str, str], Initializer | None]:
    """Return (class, attribute) and default law of the first module that holds the parameter and has one."""
    role, shape = parameter.role or parameter.declared, parameter.data.shape
    if records is None:
        return ("", role), None
    for module, attribute in holders:
        weight = module.parameters.get("weight")
        told_by = None if weight is None else graph.parameter(weight).data.shape
        law = None
        if not module.namesake:
            law = records.default_law(module.class_name, attribute, shape, told_by)
        if law is not None:
            return (module.class_name, attribute), law
    return ("", role), None if holders else records.default_law("", role, shape)


def _make_change(framework: str, owner: str, role: str, made: list[tuple[str, Initializer]]) -> Change:
    """Return one change for all parameters of one kind."""
    laws = list(dict.fromkeys(str(law) for _, law in made))
    shown = laws[0] if len(laws) == 1 else f"{laws[0]} and {len(laws) - 1} more, by their sizes"
    count = f" ({len(made)} parameters)" if len(made) > 1 else ""
    kind = f"{owner}.{role}" if owner else role
    return Change("IN101", f"`{kind}`{count} starts from {framework}'s {shown}", place=made[0][0])
