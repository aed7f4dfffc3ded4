"""The options that say how a MODEL is loaded, and loading it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .printing import doing

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..ir import Graph

MODEL_HELP = (
    "MODEL is file.py:Name or package.module:Name (a class, a factory or an instance; NAMING ONE RUNS "
    "ITS CODE), x-symbol.json (MXNet), x.onnx, x.mindir (mindspore.export), x.pt2 (torch.export) or x.pt "
    "(torch.jit.save); the latter five are read as data, and a .pt2 file that holds code is refused without "
    "--trust."
)


class _Target(click.ParamType):
    """The name of a target; the names are read when one is asked for, since help loads no framework."""

    name = "target"

    @staticmethod
    def _choice() -> click.Choice:
        from ..api import targets

        return click.Choice(targets.target_names())

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return all names, as the help shows them."""
        return self._choice().get_metavar(param, ctx)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or a usage error that lists all."""
        return self._choice().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        return self._choice().shell_complete(ctx, param, incomplete)


TARGET = _Target()


@dataclass(frozen=True)
class Loading:
    """The values of a MODEL's options."""

    inputs: tuple[str, ...]
    data: Path | None
    params: Path | None
    part: str | None
    meta: bool
    arguments: tuple[str, ...]
    constants: tuple[str, ...]
    dynamic: tuple[str, ...]
    no_dynamic_batch: bool
    trust: bool
    extensions: tuple[str, ...]

    def parse_inputs(self) -> list[object] | dict[str, object] | None:
        """Return the --input and --data options as `api.load` takes them."""
        return parse_inputs(self.inputs, self.data)

    def constructor(self) -> dict[str, object]:
        """Return the --arg options: Python literals or JSON's, else text."""
        return constructor_arguments(self.arguments)

    def constant_inputs(self) -> dict[str, object]:
        """Return the --constant options: numbers or lists in Python or JSON, or arrays of files."""
        from ..frontends.input_files import read_array
        from ..ir import UsageError

        found: dict[str, object] = {}
        for text in self.constants:
            name, equals, value = text.partition("=")
            if not equals or not name or not value:
                raise UsageError("E001", f"expected --constant NAME=VALUE, got `{text}`")
            if (twice := name) in found:
                raise UsageError("E001", f"expected --constant {twice}=… once, got it twice")
            found[name] = read_array(Path(value[1:])) if value.startswith("@") else _literal(value)
        return found

    def axes(self) -> dict[str, list[int]] | None:
        """Return the --dynamic options: input name -> axes."""
        from ..ir import UsageError

        axes: dict[str, list[int]] = {}
        for text in self.dynamic:
            name, colon, which = text.rpartition(":")
            if not colon or not all(a.isascii() and a.isdigit() for a in which.split("+")):
                raise UsageError("E001", f"expected --dynamic INPUT:AXIS, got `{text}`")
            axes.setdefault(name, []).extend(int(a) for a in which.split("+"))
        return axes or None

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `api.load`, once what --extension names was run."""
        from ..api.extensions import load_extension

        for path in self.extensions:
            load_extension(path)
        return {
            "params": self.params,
            "part": self.part,
            "meta": self.meta,
            "dynamic_batch": not self.no_dynamic_batch,
            "dynamic": self.axes(),
            "arguments": self.constructor(),
            "constants": self.constant_inputs(),
            "trust": self.trust,
        }


def parse_inputs(
    inputs: tuple[str, ...], data: Path | None = None
) -> list[object] | dict[str, object] | None:
    """Return the --input options as `api.load` takes them: by name when every one has a name."""
    from ..frontends import InputSpec
    from ..frontends.input_files import read_array, read_arrays
    from ..ir import UsageError

    specs: list[tuple[str, object]] = []
    for text in inputs:
        name, at, path = text.rpartition("@")
        if at and (not name or name.endswith("=")):
            specs.append((name.removesuffix("="), read_array(Path(path))))
        else:
            spec = InputSpec.parse(text)
            specs.append((spec.name, spec))
    if data is not None:
        specs += read_arrays(data).items()
    names = [name for name, _ in specs if name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError("E001", f"expected --input {twice}=… once, got it twice")
    if specs and all(name for name, _ in specs):
        return dict(specs)
    if any(name and not isinstance(value, InputSpec) for name, value in specs):
        raise UsageError("E001", "expected a name for every input, because arrays have names")
    return [value for _, value in specs] or None


def constructor_arguments(given: tuple[str, ...]) -> dict[str, object]:
    """Return the values of --arg options: Python literals or JSON's, else text."""
    from ..ir import UsageError

    built: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError("E001", f"expected --arg NAME=VALUE, got `{text}`")
        built[name] = _literal(value)
    return built


def _literal(text: str) -> object:
    """Return the value of a text in Python or in JSON (``true``, ``null``); otherwise the text itself."""
    import ast
    import json

    for read in (ast.literal_eval, json.loads):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a MODEL is loaded; the command gets them as one `loading`."""

    @wraps(command)
    def collected(*args: Any, **values: Any) -> Any:
        loading = Loading(**{field.name: values.pop(field.name) for field in fields(Loading)})
        return command(*args, loading=loading, **values)

    for option in reversed(
        [
            click.option(
                "--input",
                "inputs",
                multiple=True,
                metavar="[NAME=]SHAPE[:DTYPE]",
                help="Example input, e.g. 2x3x224x224 or ids=2x16:int64 (default float32); "
                "ids=2x16:int64[0,100) for a range, offsets=@file.npy for values; a list or dict by its "
                "parts, feats.0=2x3x8x8 or batch.mask=2x8:bool; repeat.",
            ),
            click.option(
                "--data", type=click.Path(path_type=Path), help="Example inputs by name: an .npz file."
            ),
            click.option(
                "--params",
                type=click.Path(path_type=Path),
                help="Parameter file: MXNet's, if not beside the model; a checkpoint with every parameter "
                "of MODEL; or a folder of shards with their index.",
            ),
            click.option(
                "--part",
                metavar="NAME",
                help="The set of tensors to read where --params holds several: a key of the file (ema), or "
                "a prefix of names.",
            ),
            click.option(
                "--meta",
                is_flag=True,
                help="Make a PyTorch MODEL without parameter values, and read them from --params: for "
                "models larger than memory.",
            ),
            click.option(
                "--arg",
                "arguments",
                multiple=True,
                metavar="NAME=VALUE",
                help="Constructor argument of MODEL, e.g. depth=50, act=relu or widths=[3,5]; repeat.",
            ),
            click.option(
                "--constant",
                "constants",
                multiple=True,
                metavar="NAME=VALUE",
                help="Turn an input of an ONNX MODEL into a constant, e.g. axes=1,2 or scales=@file.npy, "
                "because targets need settings before a run; repeat.",
            ),
            click.option(
                "--dynamic",
                multiple=True,
                metavar="INPUT:AXIS[+AXIS]",
                help="Axes to keep symbolic, instead of axis 0 of every input with the batch size; repeat.",
            ),
            click.option("--no-dynamic-batch", is_flag=True, help="Keep the example's batch size fixed."),
            click.option(
                "--trust",
                is_flag=True,
                help="Let a file RUN CODE: torch.export.load unpickles, imports, evaluates and links the "
                "content of a .pt2 file, TorchScript runs a .pt file once, and MindSpore a .mindir file for "
                "the comparison. Only for files whose author you trust; ordinary files open without it.",
            ),
            click.option(
                "--extension",
                "extensions",
                multiple=True,
                metavar="FILE.py",
                help="RUN A FILE that adds operators, lowerings or emitters of your own; repeat.",
            ),
        ]
    ):
        collected = option(collected)
    return collected


def load(model: str, loading: Loading, *, partial: bool = False, keep_prints: bool = False) -> Graph:
    """Call `api.load` with the options, behind a spinner."""
    from .. import api

    with doing(f"loading {model}"):
        return api.load(
            model, loading.parse_inputs(), partial=partial, keep_prints=keep_prints, **loading.options()
        )


pieces_option = click.option(
    "--stream/--whole",
    "pieces",
    default=None,
    help="Compare in pieces, with the weights of one piece in memory at a time, or whole. Pieces need a "
    "PyTorch MODEL and cover only the forward pass; they are the default for more than 1 GB of weights, or "
    "half of the memory.",
)


certificate_option = click.option(
    "--certificate/--no-certificate",
    "certificate",
    default=None,
    help="Read the output back and compare it exactly too, which the first line tells, or not; by default "
    "where that costs no more than to compare the numbers (files), or settles what they leave open.",
)


oracle_option = click.option(
    "--oracle",
    envvar="REGRAFT_MXNET_PYTHON",
    show_envvar=True,
    metavar="PYTHON",
    help="A Python interpreter with MXNet: the MXNet source then runs in MXNet itself, in addition to "
    "regraft's reading of it.",
)


def oracle_for(ctx: click.Context, graph: Graph, python: str | None) -> str | None:
    """Return the oracle's Python: from the environment for sources that need it, or from an option."""
    named = ctx.get_parameter_source("oracle") is click.core.ParameterSource.COMMANDLINE
    return python if named or graph.origin.framework == "mxnet" else None
