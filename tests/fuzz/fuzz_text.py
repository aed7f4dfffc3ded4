"""Graphs in the IR's text form."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import click

from .fuzz_mxnet import small_cases
from .mutation import mutate_lines
from .registry import Target


@cache
def texts() -> list[bytes]:
    """Nets of the corpus as text, with modules, tied parameters, constants and branches."""
    import regraft
    from regraft.ir import render

    found = [_ALIASES.encode()]
    names = sorted(small_cases())
    nets = [n for n in names if not n.startswith("op/")]
    for case in map(small_cases().__getitem__, [*nets[:4], *names[::40]]):
        with tempfile.TemporaryDirectory() as folder:
            found.append(render(regraft.load(str(case.write(Path(folder))), case.inputs())).encode())
    return found


_ALIASES = """graph main {
  module "" Net
  module "fc" Linear {weight=%w, bias=%b}
  module "again" = "fc"
  module "list" Layers [sequential] never called
  %x = input "x" : f32[N,4]
  %w = param "fc.weight" : f32[4,4] {declared="w", init=he_uniform(a=2.236, mode="fan_in"), role="weight"}
  %b = param "fc.bias" : f32[4] {buffer}
  %m = const tensor [[1.0, -inf, 0.5, nan]]:f32[1,4] : f32[1,4]
  %0 = Add(%x, %m) : f32[N,4] @ "#1"
  %1 = regraft.Linear(%0, %w, %b) : f32[N,4] @ "fc#1"
  %2 = Clip(%1, _, _) : f32[N,4]
  return "y" = %2
  update %b = %b
}
"""


def run_text(data: bytes, _folder: Path) -> int:
    """Parse, validate, and render what was parsed."""
    from regraft.ir import RegraftError, parse, render, validate

    try:
        graph = parse(data.decode("utf-8", "surrogatepass"))
        validate(graph)
        parse(render(graph))
    except RegraftError as error:
        click.echo(f"error {error}", err=True)
        return 2
    return 0


TARGETS = [Target("text", texts, mutate_lines, run_text)]
