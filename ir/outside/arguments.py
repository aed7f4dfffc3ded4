"""Hints for callers of the library: options of the command line as the arguments that they are."""

from __future__ import annotations

import re

_SWITCHES = {
    "--allow-removal": "allow_removal=True",
    "--by-order": "by_order=True",
    "--copy-weights": "copy=True",
    "--emit-tests": "emit_tests=True",
    "--force": "force=True",
    "--forward": "reverse=False",
    "--no-dynamic-batch": "dynamic_batch=False",
    "--no-fold": "fold=False",
    "--no-verify": "verified=False",
    "--own-weights": "copy=False",
    "--partial": "partial=True",
    "--reverse": "reverse=True",
    "--train": "train=True",
    "--trust": "trust=True",
}
_VALUED = {
    "--checkpoint-format": "checkpoint_format",
    "--constant": "constants",
    "--dynamic": "dynamic",
    "--input": "inputs",
    "--like": "like",
    "--map": "map",
    "--max-shard-size": "max_shard_size",
    "--oracle": "oracle",
    "--params": "params",
    "--part": "part",
    "--pass": "passes",
    "--recipe": "recipes",
    "--to": "to",
}
_INPUTS = re.compile(r"--input \w[\w.]*=[\w:]+(?: --input \w[\w.]*=[\w:]+)*")
_CONSTANTS = re.compile(r"--constant [^\s=]+=VALUE(?: --constant [^\s=]+=VALUE)*")
_FORMAT = re.compile(r"one --input \[NAME=\]SHAPE\[:DTYPE\]")
_CONSTRUCTOR = re.compile(r"--arg NAME=VALUE")
_WITH_TEXT = re.compile(r"(?:(--to|--checkpoint-format) ([a-z]+)\b|(--part) ([\w.]+))(?! \|)")
_OPTION = re.compile(r"--[a-z][a-z-]*[a-z]")


def as_arguments(text: str) -> str:
    """Return a hint with arguments of the library in place of options of the command line.

    Example:
        >>> as_arguments("give --force to replace it")
        'give force=True to replace it'
        >>> as_arguments("give --input x=2x3 --input y=4x5 with the shape it has")
        'give inputs={"x": "2x3", "y": "4x5"} with the shape it has'
    """
    if "--" not in text:
        return text
    text = _INPUTS.sub(_inputs, text)
    text = _CONSTANTS.sub(_constants, text)
    text = _FORMAT.sub("`inputs` with one SHAPE[:DTYPE] or array", text)
    text = _CONSTRUCTOR.sub('arguments={"NAME": VALUE}', text)
    text = _WITH_TEXT.sub(_with_text, text)
    return _OPTION.sub(_option, text)


def _with_text(found: re.Match[str]) -> str:
    option, value = (each for each in found.groups() if each is not None)
    return f'{_VALUED[option]}="{value}"'


def _inputs(found: re.Match[str]) -> str:
    pairs = [each.partition("=") for each in found[0].removeprefix("--input ").split(" --input ")]
    return "inputs={" + ", ".join(f'"{name}": "{shape}"' for name, _, shape in pairs) + "}"


def _constants(found: re.Match[str]) -> str:
    names = [each.partition("=")[0] for each in found[0].removeprefix("--constant ").split(" --constant ")]
    return "constants={" + ", ".join(f'"{name}": VALUE' for name in names) + "}"


def _option(found: re.Match[str]) -> str:
    """Return an option as its argument; one that the library does not have stays."""
    option = found[0]
    if option in _SWITCHES:
        return _SWITCHES[option]
    return f"`{_VALUED[option]}`" if option in _VALUED else option
