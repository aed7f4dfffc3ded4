"""One compile or two, markers for one form of call or for any: one graph comes out; N is never guessed."""

import gc
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest

from regraft.frontends.mindspore_cell import capture, read
from regraft.frontends.mindspore_cell.batch import BatchDependenceError, generalise
from regraft.frontends.mindspore_cell.compiler import quick_compiler
from regraft.frontends.mindspore_cell.markers import add_markers
from regraft.frontends.mindspore_cell.mindir import Node, Program
from regraft.frontends.options import LoadOptions
from regraft.frontends.python_file import load_object
from regraft.ir import Graph, TensorType, render

CORPUS = Path(__file__).parent.parent / "corpora" / "mindspore"
ROWS = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
IMAGES = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)


def cell(name: str) -> Any:
    ms.set_seed(1)
    net: Any = load_object(f"{CORPUS / name.replace(':', '.py:')}")
    return net.set_train(False)


def shown(graph: Graph) -> list[str]:
    calls = [f"{graph.modules.path(c.module)} in {c.parent}" for c in graph.modules.calls()]
    return [render(graph), *graph.origin.notes, *calls]


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """The arguments of every compile."""
    seen: list[list[object]] = []
    original: Callable = capture._compile

    def compile_(root: Any, arguments: list[Any]) -> object:
        seen.append([None if a is None else tuple(a.shape) for a in arguments])
        return original(root, arguments)

    monkeypatch.setattr(capture, "_compile", compile_)
    return seen


@pytest.mark.parametrize(
    ("name", "array", "number"),
    [
        ("batches:Rows", IMAGES, 1),
        ("sharing:Lists", ROWS[:, :3], 1),
        ("batches:Forms", ROWS, 1),
        ("sharing:CalledTwice", ROWS, 1),
        ("batches:Normed", ROWS, 1),
        ("batches:Joined", ROWS, 1),  # rows are added
        ("batches:Gram", ROWS, 1),
        ("batches:Deviation", ROWS, 4),  # static in the end: a compile of the example
        ("batches:Tokens", IMAGES, 1),
        ("batches:Merged", IMAGES, 1),
        ("batches:Flattened", IMAGES, 3),  # rows and -1 are other spellings, and look alike
        ("batches:Filled", ROWS, 2),  # names what makes tensors of sizes
        ("batches:Counted", ROWS, 3),  # the size is no shape
    ],
)
def test_one_compile_says_what_two_say(
    name: str,
    array: np.ndarray,
    number: int,
    compiles: list[list[object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = cell(name)
    found = shown(read(net, [("", array)], LoadOptions()))
    assert len(compiles) == number
    monkeypatch.setattr(capture, "makes_of_sizes", lambda cells: True)
    assert shown(read(net, [("", array)], LoadOptions())) == found
    monkeypatch.setattr(capture, "add_markers", partial(add_markers, as_recorded=False))
    assert shown(read(net, [("", array)], LoadOptions())) == found


def test_what_a_size_of_the_batch_was_used_for_is_seen(compiles: list[list[object]]) -> None:
    graph = read(cell("batches:Counted"), [("", ROWS)], LoadOptions())
    assert [n.op_type for n in graph.operators()].count("Shape") == 1
    assert compiles == [[(-1, 4)], [(13, 4)], [(17, 4)]]
    notes = read(cell("batches:Deviation"), [("", ROWS)], LoadOptions()).origin.notes
    assert any(n.startswith("the batch is static") for n in notes)


def test_a_construct_of_one_cell_alone_is_compiled_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    net = cell("batches:Replaced")
    own = vars(net.layer)["construct"]

    original = capture._compile
    refusals = iter([True, True, True])

    def compile_(root: Any, arguments: list[Any]) -> object:
        if next(refusals, False):
            raise RuntimeError("refused")
        return original(root, arguments)

    monkeypatch.setattr(capture, "_compile", compile_)
    graph = read(net, [("", ROWS)], LoadOptions())
    assert [n.op_type for n in graph.operators()] == ["Mul"]
    assert vars(net.layer)["construct"] is own


def test_the_compiler_reads_each_source_once_and_is_put_back() -> None:
    from mindspore.train import serialization

    parser = next(sys.modules[n] for n in ("mindspore.graph._parse.parser",) if n in sys.modules)
    executor = sys.modules[type(serialization._executor).__module__]
    with quick_compiler():
        assert parser.inspect is not inspect
        first = parser.inspect.getsourcelines(shown)
        assert first == inspect.getsourcelines(shown)
        assert parser.inspect.getsourcelines(shown) is first
        assert parser.inspect.getsourcelines(Graph) == inspect.getsourcelines(Graph)
        assert executor.gc.collect() == 0
        assert executor.gc.isenabled is gc.isenabled
    assert parser.inspect is inspect
    assert executor.gc is gc


def test_the_order_in_which_effects_are_listed_is_no_dependence_on_the_batch() -> None:
    """The compiler lists what was read before a state of memory in another order at times."""

    def program(rows: int, *, swapped: bool, reads: tuple[str, ...] = ("a", "b")) -> Program:
        kind = TensorType("float32", (rows, 2))
        held = {"a": TensorType("float32", (2,)), "b": TensorType("float32", (3, 2))}
        loads = [Node(n, "Load", (f"p{n}",), type=held[n]) for n in "ab"]
        listed = ("b", "a") if swapped else ("a", "b")
        nodes = (
            *loads,
            Node("sum", "Add", ("x", reads[0]), type=kind),
            Node("effects", "MakeTuple", listed, type=tuple(held[n] for n in listed)),
            Node("state", "UpdateState", ("effects",)),
            Node("read", "MakeTuple", reads),
        )
        parameters = {"pa": "pa", "pb": "pb"}
        return Program((("x", kind),), parameters, nodes, "sum")

    open_ = generalise(program(13, swapped=False), program(17, swapped=True), (13, 17))
    assert open_.inputs[0][1].shape == ("N", 2)
    with pytest.raises(BatchDependenceError, match="reads depends"):
        generalise(program(13, swapped=False), program(17, swapped=False, reads=("b", "a")), (13, 17))
