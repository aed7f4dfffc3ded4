"""`check --for` and `fix --for`: what releases of MindSpore remove, change and mark for removal."""

import importlib
import re
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import mint, nn, ops

import regraft
from regraft.cli import main
from regraft.diagnosis.versions import SOURCES, facts, find_uses
from regraft.diagnosis.versions.facts import BY_NAME_ALONE, NUMBER_FIRST, REPLACED
from regraft.diagnosis.versions.marked import marked_names

GOLDENS = sorted((Path(__file__).resolve().parents[1] / "backends" / "golden").rglob("*.py"))

SCRIPT = """\
import mindspore as ms
from mindspore import context, nn, ops
from mindspore.ops import top_k

EPS = 1e-5
context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
ms.set_context(
    device_target="CPU",
    device_id=0,
    deterministic="ON",
)
ms.set_context(mode=ms.PYNATIVE_MODE, max_call_depth=500, max_device_memory="8GB")


class Net(nn.Cell):
    def construct(self, x):
        y = ops.less(EPS, x) + ops.equal(1, (x + 2))  # kept
        z = ops.Less()(-1.0, x)
        values, _ = top_k(x, 2)
        ones = ops.fill(ms.float32, (2, 2), 1.0)
        self.register_forward_hook(None, True)
        return ops.floor_div(x, 3) + ops.expand_dims(x, 0)[0]


where = ms.get_context("device_target")
"""

RENEWED = """\
import mindspore as ms
from mindspore import context, nn, ops
from mindspore.ops import topk, top_k

EPS = 1e-5
ms.set_device("CPU")
context.set_context(mode=context.GRAPH_MODE)
ms.set_device("CPU", 0)
ms.set_deterministic(True)
ms.set_recursion_limit(500)
ms.runtime.set_memory(max_size="8GB")
ms.set_context(mode=ms.PYNATIVE_MODE)


class Net(nn.Cell):
    def construct(self, x):
        y = ops.greater(x, EPS) + ops.equal(x + 2, 1)  # kept
        z = ops.Greater()(x, -1.0)
        values, _ = topk(x, 2)
        ones = ops.full((2, 2), 1.0, dtype=ms.float32)
        self.register_forward_hook(None, with_kwargs=True)
        return ops.floor_divide(x, 3) + ops.unsqueeze(x, 0)[0]


where = ms.get_current_device().device_target
"""

SILENT = (
    "ops.less(x, 1e-5)",
    "ops.greater(1.0, x)",  # which takes one still
    "1.0 < x",
    "ops.less(y, x)",
    "less(1.0, x)",  # a function of the file
    "numpy.expand_dims(x, 0)",
    "self.register_forward_hook(hook, with_kwargs=True)",
    'ms.get_context("mode")',
    "ms.set_context(mode=ms.GRAPH_MODE)",
    "ms.set_device('CPU')",
)


def _script(line: str) -> str:
    head = "import numpy\nimport mindspore as ms\nfrom mindspore import ops\ndef less(a, b): ...\n"
    return f"{head}def run(self, x, y, hook):\n    return {line}\n"


def _codes(path: Path, release: str) -> list[tuple[str, int]]:
    uses = find_uses([path], release)
    return [
        (u.change.code, int(u.change.place.rpartition(":")[2])) for u in uses if u.change.severity != "note"
    ]


class TestFacts:
    """The rows, run in the installed release."""

    def test_every_row_has_a_source_and_a_release(self) -> None:
        for fact in facts():
            assert fact.source in SOURCES
            assert re.fullmatch(r"2\.\d+", fact.since)

    def test_comparisons_refuse_a_number_first(self) -> None:
        x = ms.Tensor(np.array([1.0, 2.0, np.nan], np.float32))
        for fact in NUMBER_FIRST:
            module = mint if ".mint." in fact.name else ops
            name = fact.name.rpartition(".")[2]
            old, new = getattr(module, name), getattr(module, fact.rename)
            if name[0].isupper():
                old, new = old(), new()
            with pytest.raises(TypeError):
                old(1.0, x)
            computed = new(x, 1.0).asnumpy()
            numbers = x.asnumpy()
            expected = 1.0 == numbers if name.lower() in ("equal", "eq") else 1.0 < numbers  # noqa: SIM300
            np.testing.assert_array_equal(computed, expected)

    def test_removed_arguments_raise(self) -> None:
        for argument in ("exception_dump", "precompile_only", "grad_for_scalar"):
            with pytest.raises(ValueError, match="has been removed"):
                ms.set_context(**{argument: "1" if argument == "exception_dump" else False})
        for method in BY_NAME_ALONE:
            with pytest.raises(TypeError):
                getattr(nn.ReLU(), method)(lambda *_: None, True)

    def test_every_marked_name_has_the_mark(self) -> None:
        names = [*marked_names(), *(fact.name for fact in REPLACED)]
        without = []
        for name in names:
            module, _, last = name.rpartition(".")
            text = getattr(importlib.import_module(module), last).__doc__ or ""
            if not re.search(r"deprecated|will be\s+removed", text):
                without.append(name)
        # what MindSpore replaces in its own list of renamed operators, not in docstrings
        assert without == []

    def test_renamed_calls_compute_the_same_and_are_not_marked(self) -> None:
        x = ms.Tensor(np.array([[1.0, -2.0], [0.3, 5.0]], np.float32))
        operands = {"floor_div": (x, 0.7), "top_k": (x, 2), "reverse": (x, (1,)), "expand_dims": (x, -1)}
        renamed = [fact for fact in REPLACED if fact.rename]
        assert len(renamed) >= 6
        for fact in renamed:
            name = fact.name.rpartition(".")[2]
            given = operands.get(name, (x,))
            old, new = getattr(ops, name)(*given), getattr(ops, fact.rename)(*given)
            pairs = zip(old, new, strict=True) if isinstance(old, tuple) else [(old, new)]
            for one, other in pairs:
                np.testing.assert_array_equal(one.asnumpy(), other.asnumpy(), err_msg=name)
            assert f"mindspore.ops.{fact.rename}" not in marked_names()
        assert ops.full((2, 1), 3, dtype=ms.int32).asnumpy().tolist() == [[3], [3]]


def test_uses_are_named_with_code_and_line(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(SCRIPT)
    assert _codes(path, "2.10") == [
        ("MV103", 6),
        ("MV103", 8),
        ("MV103", 9),
        ("MV103", 10),
        ("MV103", 12),
        ("MV103", 12),
        ("MV102", 17),
        ("MV102", 17),
        ("MV102", 18),
        ("MV104", 19),
        ("MV104", 20),
        ("MV101", 21),
        ("MV104", 22),
        ("MV104", 22),
        ("MV104", 25),
    ]


def test_fix_renews_a_script_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(SCRIPT)
    fixed = regraft.fix(str(path), release="2.10")
    assert path.read_text() == RENEWED
    assert not fixed.left
    assert len(fixed.solved) == 15
    assert fixed.backup is not None
    assert fixed.backup.read_text() == SCRIPT
    assert _codes(path, "2.11") == []


def test_fix_of_a_net_proves_equal_outputs(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(
        "from mindspore import nn, ops\n\n\nclass Net(nn.Cell):\n    def construct(self, x):\n"
        "        return ops.floor_div(ops.expand_dims(x, 1), 0.7)\n"
    )
    fixed = regraft.fix(f"{path}:Net", ["2x3"], release="installed")
    assert "ops.floor_divide(ops.unsqueeze(x, 1), 0.7)" in path.read_text()
    assert [c.code for c in fixed.solved] == ["MV104", "MV104"]
    assert any(line.startswith("outputs: unchanged") for line in fixed.proof)


@pytest.mark.parametrize("line", SILENT)
def test_what_stays_is_left_alone(line: str, tmp_path: Path) -> None:
    path = tmp_path / "new.py"
    path.write_text(_script(line))
    assert _codes(path, "2.11") == []


def test_removals_hold_from_their_release_on(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text("import mindspore as ms\nms.set_context(precompile_only=False, mode=ms.GRAPH_MODE)\n")
    assert _codes(path, "2.9") == [("MV103", 2)]
    assert _codes(path, "2.10") == [("MV101", 2)]
    regraft.fix(str(path), release="2.10")
    assert path.read_text() == "import mindspore as ms\nms.set_context(mode=ms.GRAPH_MODE)\n"


def test_a_file_of_torch_has_none(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("import torch as ops\n\n\ndef run(x):\n    return ops.less(1.0, x)\n")
    assert find_uses([path], "2.11") == []


def test_the_command_names_uses_of_a_script_that_raises_by_them(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import mindspore as ms\nms.set_context(grad_for_scalar=True)\n")
    result = CliRunner().invoke(main, ["check", str(path), "--for", "installed"])
    assert result.exit_code == 1
    assert "train.py: 1 finding\n" in result.output
    assert "error MV101 `set_context` refuses `grad_for_scalar` since MindSpore 2.10" in result.output
    assert "train.py:2" in result.output
    silenced = CliRunner().invoke(main, ["check", str(path), "--for", "2.10", "--ignore", "MV"])
    assert silenced.exit_code == 0


def test_what_regraft_emits_has_none() -> None:
    assert len(GOLDENS) > 20
    found = [use.change for use in find_uses(GOLDENS, "2.11")]
    assert [str(change) for change in found if change.severity != "note"] == []
