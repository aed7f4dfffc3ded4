"""What is replaced in torch while a module is captured: all of it by the registry, all of it put back."""

import ast
from pathlib import Path

import pytest
import torch
from torch.torch_version import TorchVersion

from regraft import load
from regraft.frontends.torch_module.export import patches
from regraft.frontends.torch_module.export.patches import PATCHES, Patch, find_home, original, patched
from regraft.frontends.torch_module.export.strategies import SIZES, TRACINGS
from regraft.frontends.torch_module.export.vmap_regions import _regions_end
from regraft.ir import ModelError

FRONTEND = Path(patches.__file__).parents[1]


@pytest.mark.parametrize("row", PATCHES, ids=lambda p: f"{p.home}.{p.name}")
def test_the_installed_torch_has_what_a_row_names(row: Patch) -> None:
    is_older = TorchVersion(torch.__version__) < "2.13"
    assert row.name in dir(find_home(row.home)) or (is_older and row.saves_only)
    assert row.why


def test_every_row_is_used_and_every_use_has_a_row() -> None:
    used = set()
    for path in FRONTEND.rglob("*.py"):
        tree = ast.parse(path.read_text())
        homes = {
            node.targets[0].id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "patched":
                home = node.args[0]
                name = home.value if isinstance(home, ast.Constant) else homes[home.id]
                used |= {(name, keyword.arg) for keyword in node.keywords}
    assert used == {(row.home, row.name) for row in PATCHES}


def test_a_region_of_vmap_ends_with_a_trace_that_raises() -> None:
    """In one that lasts, torch refuses to draw random numbers."""

    def leave_within() -> None:
        with _regions_end():
            torch._C._functorch._vmap_increment_nesting(2, "error")
            raise LookupError

    with pytest.raises(LookupError):
        leave_within()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.randn(2).shape == (2,)


def test_all_is_put_back_even_where_a_capture_fails() -> None:
    class Refused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return sum(x * i for i in range(int(x.sum())))

    before = [original(row.home, row.name) for row in PATCHES]
    load(torch.nn.Linear(3, 2), ["2x3"])
    with pytest.raises(ModelError):
        load(Refused(), ["2x3"])
    assert all(a is b for a, b in zip(before, [original(r.home, r.name) for r in PATCHES], strict=True))


def test_what_no_row_names_is_not_replaced() -> None:
    with pytest.raises(KeyError), patched("torch.nn:Module", forward=None):
        pass


def test_a_torch_without_a_needed_function_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch.export._trace._fakify_params_buffers")
    with (
        pytest.raises(ModelError, match="_fakify_params_buffers") as raised,
        patched("torch.export._trace", _fakify_params_buffers=print),
    ):
        pass
    assert torch.__version__ in str(raised.value)


def test_a_torch_without_a_saving_is_captured_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch.utils._traceback._extract_symbolized_tb")
    with patched("torch.utils._traceback", _extract_symbolized_tb=print):
        assert original("torch.utils._traceback", "_extract_symbolized_tb") is None


def test_ways_have_names_of_their_own() -> None:
    for ways in (TRACINGS, SIZES):
        assert len({way.name for way in ways}) == len(ways)
