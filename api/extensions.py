"""Adds users' own extensions: passes from any file, lowerings of custom operators, and emitters.

Nothing here is reached unless it is asked for: a pass's file is run when it is named, an entry point is
loaded when its pass is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..backends import TARGETS
from ..frontends.python_file import find_function, raised_below, run_file
from ..frontends.registry import FRONTENDS, frontend
from ..ir import COMPOSITES, DOMAIN, NO_TRAITS, PassError, Traits, UsageError
from ..ir.composites import CompositeTable
from ..ir.composites.base import Expand
from ..ir.declarations import InferTypes
from ..ir.signatures import AttributeSpec
from ..passes import PASSES
from ..passes.base import Pass
from ..passes.options import make_pass

ENTRY_POINTS = "regraft.passes"
"""The group of entry points in which an installed package names its passes."""


def parse_pass(text: str) -> Pass:
    """Return the pass of a command-line string ``NAME[:OPTIONS]`` or ``FILE.py:CLASS[:OPTIONS]``.

    A name is one of regraft's own or of an installed package's entry points; the file is run. Only the first
    colon separates options; ``,`` stands between them, ``=`` after a key, ``+`` joins values.

    Raises:
        PassError: E502 for a pass or option that there is not or is none, E501 for a value that does not fit.
        ModelError: when the file is missing or raises.

    Example:
        >>> parse_pass("rename-parameters:scheme=declared")
        RenameParameters(scheme='declared')
    """
    head, found, tail = text.partition(".py:")
    if found:
        name, _, options = tail.partition(":")
        reference = f"{head}.py:{name}"
        cls = _as_pass(find_function(reference), reference)
        return make_pass({cls.name: cls}, f"{cls.name}:{options}")
    name = text.partition(":")[0].strip()
    if name not in PASSES and name in _entry_points():
        return make_pass({name: _load(name)}, text)
    return make_pass({**PASSES, **dict.fromkeys(_entry_points(), Pass)}, text)  # for the names in the hint


def further_passes() -> list[type[Pass]]:
    """Return the passes of installed packages, by their entry points.

    Raises:
        PassError: when one cannot be loaded or is no pass.
    """
    return [_load(name) for name in sorted(_entry_points()) if name not in PASSES]


@cache
def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


def _load(name: str) -> type[Pass]:
    point = _entry_points()[name]
    try:
        found = point.load()
    except Exception as error:  # the package's own code may raise anything
        raise PassError(
            "E502", f"the entry point `{name} = {point.value}` cannot be loaded: {error}", place=ENTRY_POINTS
        ) from error
    return _as_pass(found, f"{name} = {point.value}", name)


def _as_pass(found: object, place: str, name: str = "") -> type[Pass]:
    """Return a class that is a pass.

    Raises:
        PassError: for anything else.
    """
    if not (isinstance(found, type) and issubclass(found, Pass)):
        raise PassError(
            "E502",
            "expected a subclass of `regraft.Pass`, got "
            + (f"the class `{found.__name__}`" if isinstance(found, type) else f"`{type(found).__name__}`"),
            place=place,
            hint="class ReluToGelu(regraft.Pass), with `name` and `run(self, graph) -> list[regraft.Change]`",
        )
    if not is_dataclass(found):
        raise PassError(
            "E502",
            f"expected a dataclass, got the class `{found.__name__}`",
            place=place,
            hint="put @dataclass(frozen=True) above it: its fields are its options",
        )
    own = getattr(found, "name", "")
    if not isinstance(own, str) or not own or ":" in own:
        raise PassError(
            "E502",
            f"expected a name of `{found.__name__}`, without a colon, got {own!r}",
            place=place,
            hint='name: ClassVar[str] = "relu-to-gelu"',
        )
    if name and own != name:
        raise PassError("E502", f"expected the pass to be called `{name}`, got `{own}`", place=place)
    return found


def add_lowering(framework: str, *operators: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as what an operator becomes, for the rest of the process.

    The function is given a `Call`: ``call.value(0)`` is a tensor argument, ``call.float("scale")`` a number
    (torch names all arguments as the operator's schema does, MXNet and MindSpore number the tensors),
    ``call.op("Mul", a, b)`` adds an operator of ONNX's vocabulary and returns its value. Every argument has
    to be read; what is returned is the result, or a list of them. One's own may be registered again.

    Args:
        framework: "torch", "mindspore" or "mxnet".
        operators: the framework's names: ``mylib.softer.default`` of a `torch.library.custom_op`,
            ``Custom.softer`` of an `ops.Custom` of the function `softer`, ``softer`` of MXNet.

    Raises:
        UsageError: for another framework, and an operator that regraft lowers itself.
    """
    known = [row.framework for row in FRONTENDS if row.has_lowerings]
    if framework not in known:
        raise UsageError("E001", f"expected a framework among {', '.join(known)}, got `{framework}`")
    table = frontend(framework).load_table()

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _claim(framework, operators, table)
        for name in operators:
            if framework == "mindspore" and name.startswith("Custom."):
                _CUSTOM[name.removeprefix("Custom.")] = function
                table.functions["Custom"] = _lower_custom
            else:
                table.functions[name] = function
        return function

    return register


_CUSTOM: dict[str, Callable[..., Any]] = {}
"""Name of the function of an `ops.Custom` -> its lowering; they are one primitive in MindIR."""


def _lower_custom(call: Any) -> Any:
    """Lower an `ops.Custom` by the function that it was made of."""
    name = call.text("func_name")
    if name not in _CUSTOM:
        raise call.unsupported(
            f"expected an `ops.Custom` of {', '.join(f'`{n}`' for n in sorted(_CUSTOM))}, got `{name}`",
            hint=f'regraft.add_lowering("mindspore", "Custom.{name}")',
        )
    call.ignore(
        *("imply_path", "multi_output", "func_type", "uniq_name", "fn_id"),
        *("single_scalar_output", "fake_output", "inputs_num"),
    )
    return _CUSTOM[name](call)


def add_operator(
    name: str,
    expand: Expand,
    *,
    inputs: str = "X",
    attributes: Mapping[str, float | int | str] | None = None,
    infer: InferTypes | None = None,
    summary: str = "",
    traits: Traits = NO_TRAITS,
) -> str:
    """Declare a user-defined operator; targets without an emitter for it get its expansion.

    Args:
        name: its name; the graph has it as ``regraft.NAME``.
        expand: (builder, operator, operands) -> its values, made by ``builder.op("Mul", a, b)``.
        inputs: its operands separated by spaces; ``?`` marks an optional one.
        attributes: attribute -> its default, a number or a text.
        infer: (operator, operand types) -> output types; those of the first operand where it is None.
        summary: what it computes, in one line.
        traits: what it is: elementwise, random, an activation and the like.

    Returns:
        The name that `Call.op`, graphs and emitters have it under.

    Raises:
        UsageError: for a name that regraft has.
    """
    kinds = {float: "float", int: "int", str: "string"}
    specs = [
        AttributeSpec(key, kinds[type(default)], default=default)
        for key, default in (attributes or {}).items()
    ]
    table = CompositeTable()
    table.add(
        name,
        inputs=inputs,
        attributes=specs,
        infer=infer or (lambda _operator, types: [types[0]]),
        expand=expand,
        summary=summary or name,
        traits=traits,
    )
    _claim("regraft's graph", [name], COMPOSITES)
    COMPOSITES[name] = table[name]
    return f"{DOMAIN}.{name}"


def load_extension(path: str | Path) -> None:
    """Run a file that adds passes' classes, operators, lowerings or emitters.

    Raises:
        ModelError: when it is missing or raises.
    """
    run_file(str(path))
    raised = raised_below(str(path))
    if raised is not None:
        raise raised


def add_emitter(target: str, operator: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as how a target writes an operator, for the rest of the process.

    The function is given a view of the operator, ``view.operator.float("scale")`` an attribute of it. For
    "mindspore" and "torch" it returns an expression as text, in which ``{0}`` is the first operand:
    ``ops.relu({0})``, ``F.relu({0})``; for "mxnet" what ``view.node("softsign", view.inputs(), scale=2.0)``
    gives. ONNX has no emitters: its operators are written directly, and a user-defined one as its expansion.

    Args:
        target: "mindspore", "torch" or "mxnet".
        operator: its name in the graph: ``Erf``, ``regraft.ScaledSoftsign``.

    Raises:
        UsageError: for another target, and an operator that it writes itself.
    """
    having = [each.name for each in TARGETS.values() if each.takes_emitters]
    if target not in having:
        raise UsageError(
            "E001",
            f"expected a target among {', '.join(having)}, got `{target}`",
            hint="an ONNX file holds ONNX's operators; one of your own is written as its expansion",
        )
    rows, adapt = TARGETS[target].load("emitters").own_emitters()

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _claim(target, [operator], rows)
        rows[operator] = adapt(function)
        return function

    return register


_OWN: set[tuple[str, str]] = set()
"""(framework or target, operator) of what users registered."""


def _claim(owner: str, operators: Any, taken: Any) -> None:
    for name in operators:
        if name in taken and (owner, name) not in _OWN:
            raise UsageError(
                "E001",
                f"expected an operator that regraft does not have, got `{name}` of {owner}",
                hint="give the operator of your own another name",
            )
        _OWN.add((owner, name))
