"""What is refused is said with a reason, a way out and a module that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import regraft
from regraft.frontends.torch_module.export.export_errors import trace_error
from regraft.frontends.torch_module.refusals import refusals_page, refused_operators
from regraft.ir import ModelError, UnsupportedError

from .comparison import Function

PAGE = Path(__file__).parents[3] / "docs" / "en" / "reference" / "torch-refusals.md"


class Block(nn.Module):
    def forward(self, x):
        return torch.linalg.ldl_factor_ex(x @ x.mT)[0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return self.first(x) + self.second(x + 1) + torch.linalg.eigvals(x).abs().sum()


@pytest.fixture(scope="module")
def refused() -> UnsupportedError:
    with pytest.raises(UnsupportedError) as found:
        regraft.load(Model(), (torch.ones(2, 3, 3),))
    return found.value


def test_every_operator_with_its_places_its_reason_and_a_way_out(refused):
    missing = {m.operator: m for m in refused.missing}
    factors = missing["aten.linalg_ldl_factor_ex.default"]
    assert [p.split(" ")[0] for p in factors.places] == ["first", "second"]
    assert all("test_torch_refusals.py:" in p for p in factors.places)
    assert "factorisation" in factors.reason
    assert "outside the model" in factors.instead
    assert "complex" in missing["aten.linalg_eigvals.default"].reason
    for text in ("first (Block)", "also at second (Block)", "instead: ", "class Smallest"):
        assert text in str(refused)


def test_the_smallest_module_has_that_operator(refused):
    for missing in refused.missing:
        with pytest.raises(UnsupportedError) as found:
            exec(missing.reproduction, {"torch": torch, "regraft": regraft})
        assert [m.operator for m in found.value.missing] == [missing.operator]


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="each torch has operators of its own")
def test_the_page_is_up_to_date(update_goldens):
    if update_goldens:
        PAGE.write_text(refusals_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == refusals_page(), "make golden"


def test_what_the_page_lists_has_no_lowering():
    from regraft.frontends.torch_module.expansions import EXPANSIONS
    from regraft.frontends.torch_module.operators import TABLE

    listed = {name for names in refused_operators().values() for name in names}
    covered = {n.removeprefix("aten.").removesuffix(".default") for n in (*TABLE.names(), *EXPANSIONS)}
    assert {"linalg_lstsq", "nextafter", "multinomial"} <= listed
    assert not listed & covered


def test_partial_leaves_a_cell_that_raises(tmp_path):
    from regraft.verification.runners.mindspore_runner import MindSporeRunner

    graph = regraft.load(Model(), (torch.ones(2, 3, 3),), partial=True)
    assert sum("stub to be written by hand" in note for note in graph.origin.notes) == 4
    with pytest.raises(
        regraft.RegraftError, match=r"(?s)no place for .*aten\.linalg_ldl_factor_ex\.default: 2 uses"
    ):
        regraft.save(graph, tmp_path / "model.onnx")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert text.count("class Unsupported(nn.Cell)") == 1
    assert "torch.ops.aten.linalg_ldl_factor_ex.default(x0)" in text
    with pytest.raises(regraft.RegraftError, match=r"NotImplementedError.*linalg_ldl_factor_ex.*f32\["):
        MindSporeRunner.of_folder(tmp_path / "out").run({"x": torch.ones(2, 3, 3).numpy()})


def test_a_stub_that_a_person_has_written_computes_the_model(tmp_path):
    """The second result of the operator is read nowhere, and so is not asked of the Cell."""
    import mindspore as ms

    from regraft.verification.runners.mindspore_runner import MindSporeRunner

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return torch.linalg.ldl_factor(self.layer(x))[0] + 1

    class Factorised(ms.nn.Cell):
        def construct(self, x):
            return ms.Tensor(torch.linalg.ldl_factor(torch.from_numpy(x.asnumpy()))[0].numpy())

    module = Factors().eval()
    x = torch.randn(3, 3)
    graph = regraft.load(module, (x,), partial=True)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert '"f32[3,3]",' in text
    runner = MindSporeRunner.of_folder(tmp_path / "out")
    runner._net.linalg_ldl_factor = Factorised()
    (found,) = runner.run({"x": x.numpy()}).outputs
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(found[1]), module(x), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def batched_nms(boxes, scores):
    """The boxes of scores above a half, as a detection model would select them."""
    kept = torch.nonzero(scores > 0.5).squeeze(1)
    return boxes[kept] if kept.numel() > 1 else boxes


class Proposals(nn.Module):
    def forward(self, x):
        return batched_nms(x, x.sum(1))


def test_a_model_that_selects_boxes_is_told_what_to_convert():
    net = nn.Sequential(nn.Linear(4, 4), Proposals())
    with pytest.raises(ModelError, match=r"E104 .*`1` \(in batched_nms\).*selects boxes") as found:
        regraft.load(net, (torch.ones(3, 4),))
    assert "self.head(list(self.backbone(images).values()))" in str(found.value)


def test_scripted_modules_are_named():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    traced = torch.jit.trace(nn.Linear(4, 4), torch.ones(3, 4))
    within = nn.Sequential(nn.Tanh(), scripted)
    for net, name in ((scripted, "Sequential"), (traced, "Linear"), (within, r"`1` \(Sequential\)")):
        with pytest.raises(ModelError, match=rf"E104 .*TorchScript.*{name}") as found:
            regraft.load(net, (torch.ones(3, 4),))
        assert "torch.jit.save(model" in str(found.value)


def test_tracing_in_a_factory_is_watched_without_a_warning(tmp_path, recwarn):
    (tmp_path / "net.py").write_text(
        "import torch\ndef net():\n    return torch.jit.trace(torch.nn.Linear(4, 3), torch.ones(2, 4))\n"
    )
    with pytest.raises(ModelError, match="TorchScript"):
        regraft.load(f"{tmp_path / 'net.py'}:net", ("2x4",))
    assert not [w for w in recwarn if issubclass(w.category, torch.jit.TracerWarning)]


@pytest.mark.parametrize(
    "derived",
    [
        lambda layer, x: torch.func.grad(lambda z: layer(z).sin().sum())(x),
        lambda layer, x: torch.func.vmap(torch.func.jacrev(layer))(x),
        lambda layer, x: torch.autograd.grad(layer(x.requires_grad_()).sin().sum(), x)[0],
    ],
)
def test_a_derivative_is_named_and_not_the_inputs(derived):
    class Derived(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.enable_grad():
                return derived(self.layer, x + 0)

    with pytest.raises(ModelError, match=r"E104 .*derivative that the model takes itself") as found:
        regraft.load(Derived(), (torch.ones(3, 4),))
    assert "--input" not in found.value.hint


def test_what_fails_under_torch_export_alone_is_not_the_models_fault():
    class Peeks(nn.Module):
        def forward(self, x):
            if type(x) is not torch.Tensor:
                raise AttributeError("no such tensor")
            return x + 1

    with pytest.raises(
        ModelError, match=r"E104 .*runs on these inputs: AttributeError: no such tensor"
    ) as found:
        regraft.load(Peeks(), (torch.ones(3, 4),))
    assert "test_torch_refusals.py:" in found.value.place


def test_how_many_elements_a_mask_selects_is_told_with_what_to_write():
    class Selects(nn.Module):
        def forward(self, x):
            chosen = x[x > 0]
            return chosen.mean() if len(chosen) > 3 else chosen.sum()

    with pytest.raises(ModelError, match=r"E104 .*how many elements it finds in data") as found:
        regraft.load(Selects(), (torch.ones(3, 4),))
    assert "weigh it by the mask" in found.value.hint


def test_the_line_of_what_a_second_trace_refuses_is_the_models() -> None:
    """Of the vmaps in a model torch makes operators by running its first trace again."""
    module = Function(lambda x: x @ x)
    program = torch.export.export(module, (torch.randn(3, 3),))
    with pytest.raises(RuntimeError) as caught:
        torch.fx.Interpreter(program.graph_module).run(torch.randn(3, 4))
    error = caught.value.with_traceback(caught.tb.tb_next)
    assert re.fullmatch(r".*comparison\.py:\d+", str(trace_error(module, error).place))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused_by_their_name(layout: torch.layout) -> None:
    def nested(x):
        return torch.nested.nested_tensor([x[0], x[1, :2]], layout=layout).to_padded_tensor(0.0)

    with pytest.raises(ModelError, match=r"E104 .*cannot follow nested tensors") as found:
        regraft.load(Function(nested), (torch.ones(2, 3, 4),))
    assert "pad_sequence" in found.value.hint
