"""The backend that writes Python classes: it knows no framework, and its rooms form no circle."""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType

import networkx as nx
import numpy as np
import pytest

import regraft
from regraft.backends.lowering import lower
from regraft.backends.mindspore_source import LOWERING
from regraft.backends.mindspore_source.dialect import DIALECT
from regraft.backends.source.dialect import Dialect, Net
from regraft.backends.source.emission import can_emit
from regraft.backends.source.emitting import EmitterTable, NnLayer, Refused, State, View
from regraft.backends.source.expressions import (
    ADD,
    Argument,
    Call,
    Expression,
    Literal,
    NnClass,
    infix,
    method,
)
from regraft.backends.source.lowering import passes_for
from regraft.backends.source.program import make_program
from regraft.ir import UnsupportedError, parse

BACKENDS = Path(regraft.__file__).parent / "backends"
SOURCE = BACKENDS / "source"
EXAMPLES = BACKENDS.parent / "examples"

# -- a framework of three operators -----------------------------------------------------------------

EMITTERS = EmitterTable()


@EMITTERS.layer("regraft.Linear")
def linear(view: View) -> NnLayer:
    out, inner = view.parameter(1).data.shape
    sizes = tuple(Argument("", Literal(n, hint)) for n, hint in ((inner, "inputs"), (out, "outputs")))
    return NnLayer(Call(NnClass("Linear"), sizes), (State(1, "weight"), State(2, "bias")))


@EMITTERS.call("Relu")
def relu(view: View) -> Expression:
    return method(view.atom(), "clip")


@EMITTERS.call("Add")
def add(view: View) -> Expression:
    return infix(view.use(0, ADD), "+", view.use(1, ADD + 1), ADD)


NULL = Dialect(
    "Null",
    base=NnClass("Module"),
    sequential=NnClass("Sequential", "sequential"),
    module_list=NnClass("ModuleList", "list"),
    emitters=EMITTERS,
    constant=lambda array, _: Call("null.array", (Argument("", Literal(array.tolist())),)),
    stored_constant=lambda data, _: Call("null.zeros", (Argument("", Literal(tuple(data.shape))),)),
    parameter=lambda parameter, _: Call("null.zeros", (Argument("", Literal(tuple(parameter.data.shape))),)),
    build=lambda net: build(net),
    imports=lambda names, _: ["from null import nn"] if "nn" in names else [],
)


def build(net: Net) -> str:
    return f"def build():\n    return {net.name}()\n"


TWICE = """
graph main {
  module "" Net
  module "first" Block
  module "first.linear" Linear {weight=%0, bias=%1}
  module "second" Block
  module "second.linear" Linear {weight=%2, bias=%3}
  %x = input "x" : f32[N,4]
  %0 = param "first.linear.weight" : f32[8,4]
  %1 = param "first.linear.bias" : f32[8]
  %2 = param "second.linear.weight" : f32[4,8]
  %3 = param "second.linear.bias" : f32[4]
  %a = regraft.Linear(%x, %0, %1) : f32[N,8] @ "first.linear#1"
  %b = Relu(%a) : f32[N,8] @ "first#1"
  %c = regraft.Linear(%b, %2, %3) : f32[N,4] @ "second.linear#1"
  %d = Relu(%c) : f32[N,4] @ "second#1"
  %y = Add(%x, %d) : f32[N,4] @ "#1"
  return "y" = %y
}
"""

WRITTEN = '''
from null import nn


class Block(nn.Module):
    """The source's `Block`: `first`, `second`."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = self.linear(x)
        return x.clip()


class Net(nn.Module):
    """The source's `Net`."""

    def __init__(self):
        super().__init__()
        self.first = Block(4, 8)
        self.second = Block(8, 4)

    def forward(self, x):
        first = self.first(x)
        return x + self.second(first)


def build():
    return Net()
'''


def test_a_framework_is_its_dialect() -> None:
    graph = lower(parse(TWICE), passes_for(NULL))
    text = make_program(graph, NULL, "model.npz").text
    head, _, body = text.partition('"""\n')
    assert head.startswith('"""Net for Null, rewritten from a graph by regraft.')
    assert body.strip() == WRITTEN.strip()


def test_what_a_framework_has_not_is_one_error() -> None:
    graph = parse(TWICE.replace("Relu(%c)", "Neg(%c)"))
    with pytest.raises(
        UnsupportedError, match="the Null source backend can neither emit nor expand"
    ) as raised:
        lower(graph, passes_for(NULL))
    assert [each.operator for each in raised.value.missing] == ["Neg"]


# -- rooms ------------------------------------------------------------------------------------------


def room_of(path: Path) -> str:
    """The folder of a file in the backend; a file that lies beside the folders is a room of its own."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[Path]:
    """What a file imports from the backend; imports for the type checker are none."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in node.names:
                found = (folder / f"{name.name}.py", folder / "__init__.py", folder.with_suffix(".py"))
                yield from [each for each in found if each.is_file() and SOURCE in each.parents][:1]


def test_no_file_names_a_framework() -> None:
    named = [p for p in SOURCE.rglob("*.py") if "mindspore" in p.read_text().lower()]
    assert named == []


def test_rooms_form_no_circle() -> None:
    arrows = nx.DiGraph()
    for path in SOURCE.rglob("*.py"):
        arrows.add_edges_from((room_of(path), room_of(other)) for other in imports(path))
    arrows.remove_edges_from(list(nx.selfloop_edges(arrows)))
    assert {"modules", "classes", "text", "lowering", "expressions"} <= set(arrows)
    assert arrows.number_of_edges() > 60
    assert list(nx.simple_cycles(arrows)) == []


def walk(run: Callable[[], object]) -> list[str]:
    """The folders and halls through which a run goes: at the first call of each function, in order.

    The words of the backend, the files beside the folders, are where a reader looks from everywhere and no
    rooms; `program` and `places` are.
    """
    stays: list[str] = []
    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or frame.f_code in seen or BACKENDS not in path.parents:
            return
        seen.add(frame.f_code)
        _, room, *inner = (*path.relative_to(BACKENDS).with_suffix("").parts, "")
        if (inner[:-1] or room in ("program", "places")) and stays[-1:] != [room]:
            stays.append(room)

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return stays


@pytest.mark.parametrize(
    ("name", "make", "size", "most"),
    [("reused_layer", "ReusedLayer", 64, 10), ("resnet", "resnet50", 32, 13)],
)
def test_a_walk_through_the_backend_seldom_returns(
    name: str, make: str, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES)
    model = getattr(importlib.import_module(name), make)().eval()
    graph = regraft.rewrite(regraft.load(model, (torch.zeros(2, 3, size, size),))).graph
    legal = lower(graph, LOWERING)
    stays = walk(lambda: make_program(legal, DIALECT, "model.ckpt"))
    assert {"program", "modules", "emitters", "classes", "text"} <= set(stays)
    assert len(stays) - len(set(stays)) <= most, " > ".join(stays)


def test_a_form_is_found_once_while_the_graph_stays() -> None:
    asked: list[str] = []
    table = EmitterTable()

    @table.call("Elu")
    def elu(view: View) -> Expression:
        asked.append("Elu")
        if view.operator.float("alpha") != 1:
            raise Refused
        return method(view.atom(), "elu")

    dialect = replace(NULL, emitters=table)
    graph = parse('graph main {\n  %x = input "x" : f32[4]\n  %y = Elu(%x) : f32[4]\n  return "y" = %y\n}')
    (node,) = graph.operators()
    assert [can_emit(dialect, graph, node) for _ in range(3)] == [True, True, True]
    assert len(asked) == 1
    node.attributes["alpha"] = 2.0
    assert not can_emit(dialect, graph, node)
    assert not can_emit(NULL, graph, node)
    node.attributes["alpha"] = 1.0
    assert can_emit(dialect, graph, node)
    before = len(asked)
    graph.add_constant(np.zeros(1, np.float32))
    assert can_emit(dialect, graph, node)
    assert len(asked) == before + 1
    (twin,) = graph.copy().operators()
    assert twin.form is None
