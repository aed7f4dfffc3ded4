"""Graphs in the IR's text form."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import click

from .fuzz_mxnet import _cases
from .mutation import mutate_lines
from .registry import Target


@cache
def texts() -> list[bytes]:
    """Nets of the corpus as text, with modules, tied parameters, constants and branches."""
    import tempfile

    from regraft import api
    from regraft.ir import render

    found = [_BRANCHES.encode()]
    for name in ("legacy/lenet_v905", "legacy/siamese_v903", "legacy/mlp_v901", "op/arange/arange-001"):
        case = _cases().get(name)
        if case is not None:
            with tempfile.TemporaryDirectory() as folder:
                found.append(render(api.load(str(case.write(Path(folder))), case.inputs())).encode())
    return found


_BRANCHES = """graph main {
  module "" Net
  module "fc" Linear {weight=%w, bias=%b}
  module "again" = "fc"
  module "list" List [list]
  %x = input "x" : f32[N,4]
  %w = param "fc.weight" : f32[4,4] {declared="w", init=he_uniform(a=2.236, mode="fan_in"), role="weight"}
  %b = param "fc.bias" : f32[4] {buffer}
  %0 = Less(%x, %b) : bool[N,4]
  %1 = const tensor [[1.0, -inf], [nan, 3.0]]:f32[2,2] : f32[2,2]
  %2 = regraft.Linear(%x, %w, %b) : f32[N,4] @ "fc#1"
  %3 = Clip(%2, _, %b) {a=[1, 2], b="text", c=1.5, d=True} : ?
  return "y" = %3
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
