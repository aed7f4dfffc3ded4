"""Shared features of commands: --quiet, --color, examples below the help, defaults of a configuration."""

from __future__ import annotations

import os
from typing import Any

import click

from .helping import Context, set_language
from .language import LANGUAGES
from .printing import QUIET

EXAMPLES: dict[str, tuple[str, ...]] = {
    "report": ("regraft report net.py:Net port.py:Net --input 2x3x32x32 -o report.html",),
    "check": (
        "regraft check net.py other_net.py",
        "regraft check net.py:Net --input 2x3x32x32 --from torch",
        "regraft check net.py:Net --select RP,PT101 --output-format github",
    ),
    "fix": (
        "regraft fix net.py:net --input 2x3x16x16 --diff",
        "regraft fix net.py:net --input 2x3x16x16",
        "regraft fix mine.py:Net --like theirs.py:Net --input 2x3x32x32",
    ),
    "show": (
        "regraft show net.py:Net --input 2x3x224x224 --depth 2",
        "regraft show net-symbol.json --input data=1x3x224x224 --ir",
    ),
    "rewrite": (
        "regraft rewrite net.py:Net --input 2x3x224x224 --to mindspore -o out",
        "regraft rewrite net-symbol.json --input data=1x3x224x224 -o net.onnx",
        "regraft rewrite net.py:Net --input ids=2x16:int64 -o net.onnx --pass mine.py:Pass",
    ),
    "verify": (
        "regraft verify net.py:Net net.onnx --input 2x3x224x224",
        "regraft verify torch_net.py:Net mindspore_net.py:Net --input 2x3x32x32 --train",
    ),
    "certify": (
        "regraft certify net.py:Net net.onnx --input 2x3x224x224",
        "regraft certify exported.onnx simplified.onnx -o certificate.json",
    ),
    "convert-checkpoint": (
        "regraft convert-checkpoint trained.pth model.ckpt --map out/renames.json",
        "regraft convert-checkpoint trained.pth mine.ckpt --like net.py:Net",
    ),
    "repair-checkpoint": ("regraft repair-checkpoint net.py:Net damaged.ckpt -o whole.ckpt",),
    "diff": (
        "regraft diff before.ckpt after.ckpt",
        "regraft diff model.pth model.onnx --map model.renames.json",
        "regraft diff net.py:Net model.ckpt",
        "regraft diff old.onnx new.onnx --html diff.html",
    ),
    "compare-data": (
        "regraft compare-data torch_data.py:make mindspore_data.py:make --samples 128",
        "regraft compare-data torch_data.py:make mindspore_data.py:make --html data.html",
    ),
    "sweep": (
        "regraft sweep zoo.toml -o sweep",
        "regraft sweep zoo.toml -o now --against before/rows.jsonl --scheduler tcp://host:8786",
    ),
    "passes": ("regraft passes --to mindspore",),
    "explain": ("regraft explain", "regraft explain RP101", "regraft explain tie-weights"),
    "mcp": ("regraft mcp --allow .", "regraft mcp --allow net --allow data --timeout 1800"),
    "completion": ('eval "$(regraft completion bash)"', "regraft completion fish | source"),
}
"""Command -> command lines that its help shows."""

_SAYS_NOTHING_ELSE = {"mcp", "show", "passes", "explain", "completion", "report"}
"""Commands without a verdict: --quiet would leave nothing of them."""


def add_common_options(command: click.Command) -> click.Command:
    """Give a command --color and, where it has a verdict, --quiet; and its examples."""
    assert command.name is not None
    if command.name not in _SAYS_NOTHING_ELSE:
        command.params.append(
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                callback=_set_quiet,
                help="Print only the verdict and errors.",
            )
        )
    command.params.append(
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            expose_value=False,
            is_eager=True,
            callback=_set_color,
            help="Colours: auto turns them on at a terminal, unless NO_COLOR is set.",
        )
    )
    command.params.append(language_option())
    command.context_class = Context
    examples = EXAMPLES.get(command.name, ())
    if examples:
        shown = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
        command.epilog = "\n\n".join(filter(None, [command.epilog, shown]))
    return command


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[QUIET] = value


def language_option() -> click.Option:
    """Return the option that names the language of messages, before or behind the command's name."""
    return click.Option(
        ["--lang"],
        type=click.Choice(LANGUAGES),
        expose_value=False,
        is_eager=True,
        callback=set_language,
        help="Language of messages; by default that of LC_ALL or LANG. Codes and JSON do not change.",
    )


def _set_color(ctx: click.Context, _: click.Parameter, value: str) -> None:
    if value != "auto":
        ctx.color = value == "always"
    elif os.environ.get("NO_COLOR"):
        ctx.color = False
    elif os.environ.get("FORCE_COLOR"):
        ctx.color = True


def option_of(command: click.Command, key: str) -> click.Option | None:
    """Return the option that a key of a configuration is, by any of its long names without the dashes."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            names = [*parameter.opts, *parameter.secondary_opts]
            if any(name == f"--{key}" for name in names):
                return parameter
    return None


def long_names(command: click.Command) -> list[str]:
    """Return the keys that a configuration may have for a command."""
    found: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            found += [n[2:] for n in (*parameter.opts, *parameter.secondary_opts) if n.startswith("--")]
    return sorted(found)


def value_of(option: click.Option, key: str, value: object) -> Any:
    """Return click's form of an option's default for a value of a configuration.

    Raises:
        TypeError: with what was expected, for a value of another kind.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            raise TypeError("true or false")
        return value != (f"--{key}" in option.secondary_opts)
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, (str, int, float)) and not isinstance(item, bool) for item in items):
        raise TypeError("a text or a list of texts")
    if option.multiple:
        return [str(item) for item in items]
    if isinstance(value, list) and option.metavar != "CODES":
        raise TypeError("one value")
    return ",".join(map(str, items))
