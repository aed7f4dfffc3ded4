"""One compile or two, markers for one form of call or for any: one graph comes out; N is never guessed."""

import gc
import inspect
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from regraft.frontends.mindspore_cell import capture, read
from regraft.frontends.mindspore_cell.batch import BatchDependenceError, generalise
from regraft.frontends.mindspore_cell.compiler import quick_compiler, settled_parameters
from regraft.frontends.mindspore_cell.live_state import borrow
from regraft.frontends.mindspore_cell.markers import add_markers
from regraft.frontends.mindspore_cell.mindir import Node, Program
from regraft.frontends.options import LoadOptions
from regraft.frontends.python_file import load_object
from regraft.ir import Graph, ModelError, TensorType, render

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


def test_the_compiler_asks_for_each_place_once() -> None:
    parsers = sys.modules["mindspore.graph._parse.parser"]
    own = parsers.Parser.get_location
    parser = parsers.Parser(shown)
    _, tree = parser.parse()
    function = tree.body[0]
    expected = [own(parser, function), own(parser, function.body), own(parser, [])]
    with quick_compiler():
        found = [parser.get_location(function), parser.get_location(function.body), parser.get_location([])]
        assert parser.get_location(function) is found[0]
    assert found == expected
    assert found[0][:2] == [__file__, shown.__code__.co_firstlineno]
    assert found[0] != found[1]
    assert parsers.Parser.get_location is own


def test_names_of_parameters_are_read_without_a_wait_and_then_as_before() -> None:
    own = vars(ms.Parameter)["param_info"]
    parameter = ms.Parameter(ms.Tensor([1.0]), name="before")
    with settled_parameters():
        assert vars(ms.Parameter)["param_info"] is not own
        assert parameter.name == "before"
        parameter.name, parameter.requires_grad = "after", False
        assert ms.Parameter(ms.Tensor([1.0]), name="new").name == "new"
    assert vars(ms.Parameter)["param_info"] is own
    assert (parameter.name, parameter.requires_grad) == ("after", False)


class Drawn(nn.Cell):
    """Writes its values when it is made, and never again."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor([1.0]))
        self.draw()

    def draw(self) -> None:
        self.weight.set_data(ms.Tensor([2.0]))

    def construct(self, x):
        return x * self.weight


class Counting(Drawn):
    """Writes in each call, by way of a method that nothing but a text names."""

    def construct(self, x):
        getattr(self, "dr" + "aw")()
        return x * self.weight


def counted(construct):
    def count(self, x):
        self.weight.set_data(self.weight + 1)
        return construct(self, x)

    return count


class Decorated(Drawn):
    @counted
    def construct(self, x):
        return x * self.weight


class Helped(Drawn):
    """Writes in a function that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.helper = bump

    def construct(self, x):
        return self.helper(self.weight) * x


def bump(weight):
    return write(weight)


def write(weight):
    weight[0] = 3.0
    return weight


@pytest.mark.parametrize(("kind", "copies"), [(Drawn, 0), (Counting, 1), (Decorated, 1), (Helped, 1)])
def test_values_are_copied_where_a_run_may_write_them(
    kind: type[Any], copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    net: Any = kind()
    asked: list[object] = []
    own = ms.Tensor.asnumpy
    monkeypatch.setattr(ms.Tensor, "asnumpy", lambda t: asked.append(t) or own(t))
    with borrow([net], [net.weight]):
        assert len(asked) == copies
        net(ms.Tensor([5.0]))
        changed = own(net.weight).tolist() != [2.0]
    assert changed is (kind in (Decorated, Helped))
    assert own(net.weight).tolist() == [2.0]


@pytest.mark.parametrize("theirs", [False, True])
def test_operators_are_computed_one_after_another_and_as_before_behind_it(theirs: bool) -> None:
    from mindspore._c_expression import MSContext, ms_ctx_param

    context, name = MSContext.get_instance(), ms_ctx_param.pynative_synchronize
    before, net = context.get_param(name), Drawn()
    context.set_param(name, theirs)
    try:
        with borrow([net], [net.weight]):
            assert context.get_param(name)
        assert context.get_param(name) is theirs
    finally:
        context.set_param(name, before)


ALONE = """
from pathlib import Path
from regraft.frontends.mindspore_cell.capture import start_mindspore
start_mindspore()
import mindspore as ms
from regraft.frontends.mindspore_cell.live_state import waiting_for_operators
x, layer = ms.Tensor([[1.0, 2.0]]), ms.nn.Dense(2, 3)
with waiting_for_operators():
    for _ in range(20):
        layer(x).asnumpy()
print(*(task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="names of threads are read from /proc")
def test_the_first_operator_of_a_process_starts_no_queue() -> None:
    """Where it does, operators wait in a queue for one another in spite of the setting ever after."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert "python" in done.stdout
    assert "frontend_queue" not in done.stdout


def test_a_cell_is_left_as_one_whose_names_are_to_be_looked_at() -> None:
    net = ms.nn.SequentialCell(ms.nn.Dense(2, 2))
    before = [cell._is_check_and_refresh for cell in (net, net[0])]
    with borrow([net, net[0]], list(net.get_parameters())):
        net(ms.Tensor([[1.0, 2.0]]))
    assert [cell._is_check_and_refresh for cell in (net, net[0])] == before == [False, False]


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


class Sliced(nn.Cell):
    """Parts of lists, of which MindSpore makes new lists that rename their parameters alike."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([nn.Dense(4, 4) for _ in range(3)])
        self.tail = nn.SequentialCell([nn.Dense(4, 4), nn.ReLU(), nn.Dense(4, 2)])

    def construct(self, x):
        for block in self.blocks[:2]:
            x = x + block(x)
        return self.tail[:2](self.blocks[2](x))


def test_slices_of_lists_leave_the_names_alone() -> None:
    net = Sliced().set_train(False)
    getters = nn.CellList.__getitem__, nn.SequentialCell.__getitem__
    names = [p.name for p in net.get_parameters()]
    graph = read(net, [("", ROWS)], LoadOptions())
    assert [p.name for p in net.get_parameters()] == names
    assert (nn.CellList.__getitem__, nn.SequentialCell.__getitem__) == getters
    linear = [n for n in graph.operators() if n.op_type == "Linear"]
    weights = [graph.parameter(graph.operands(n.key)[1].node).declared for n in linear]  # pyright: ignore
    assert weights == ["blocks.0.weight", "blocks.1.weight", "blocks.2.weight", "tail.0.weight"]


class Unnamed(nn.Cell):
    def construct(me, x):
        named = {"a": x}
        return next(named[key] for key in sorted(named))


def test_a_construct_without_self_is_told() -> None:
    with pytest.raises(
        ModelError, match="expected the first argument of `construct` to be called `self`"
    ) as e:
        read(Unnamed(), [("", ROWS)], LoadOptions())
    line = inspect.getsourcelines(Unnamed.construct)[1]
    assert e.value.place == f"test_mindspore_compiles.py:{line}"
