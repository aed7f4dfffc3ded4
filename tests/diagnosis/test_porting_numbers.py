"""What both frameworks compute where a trap of a port is no call with another default."""

from collections.abc import Iterator

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn, ops

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def in_pynative() -> Iterator[None]:
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=mode)


def gradient(function, x: np.ndarray = X) -> np.ndarray:
    return ms.grad(lambda t: function(t).sum())(ms.Tensor(x)).asnumpy()


def torch_gradient(function, x: np.ndarray = X) -> np.ndarray:
    t = torch.tensor(x, requires_grad=True)
    found = function(t).sum()
    if found.requires_grad:
        found.backward()
    return np.zeros_like(x) if t.grad is None else t.grad.numpy()


def test_pt111_weights_of_an_instance_norm_are_trained() -> None:
    assert len(nn.InstanceNorm2d(4).trainable_params()) == 2
    assert not list(torch.nn.InstanceNorm2d(4).parameters())
    assert not nn.InstanceNorm2d(4, affine=False).trainable_params()


def test_pt115_requires_grad_of_a_computed_tensor() -> None:
    def here(x):
        y = x * x
        y.requires_grad = False
        return y * 3

    def there(x):
        return (x * x).detach() * 3

    np.testing.assert_allclose(gradient(here), 6 * X, rtol=1e-5)
    assert not torch_gradient(there).any()
    assert not gradient(lambda x: ops.stop_gradient(x * x) * 3).any()


def test_pt116_a_fresh_net_evaluates() -> None:
    ones = np.ones((100, 100), np.float32)
    assert (nn.Dropout(p=0.5)(ms.Tensor(ones)).asnumpy() == 1).all()
    assert not (torch.nn.Dropout(0.5)(torch.tensor(ones)).numpy() == 1).all()
    assert not (nn.Dropout(p=0.5).set_train()(ms.Tensor(ones)).asnumpy() == 1).all()


def test_pt117_first_steps_of_adam_with_decay() -> None:
    def after_steps(make) -> np.ndarray:
        parameter = ms.Parameter(ms.Tensor(WEIGHT), name="w")
        optimizer = make([parameter])
        for _ in range(3):
            optimizer((ms.Tensor(WEIGHT * 0.1),))
        return parameter.asnumpy()

    weight = torch.nn.Parameter(torch.tensor(WEIGHT))
    reference = torch.optim.AdamW([weight], lr=0.01, weight_decay=0.0, eps=1e-6)
    for _ in range(3):
        weight.grad = torch.tensor(WEIGHT * 0.1)
        reference.step()
    wanted = weight.detach().numpy()
    here = after_steps(lambda p: nn.AdamWeightDecay(p, learning_rate=0.01, weight_decay=0.0))
    right = after_steps(
        lambda p: ms.experimental.optim.AdamW(p, lr=0.01, weight_decay=0.0, eps=1e-6)  # pyright: ignore
    )
    assert np.abs(here - wanted).max() > 1e-2
    np.testing.assert_allclose(right, wanted, atol=1e-5)


class Doubling(nn.Cell):
    def construct(self, x):
        return x * 1.0

    def bprop(self, x, out, dout):
        return (dout * 2,)


class Exact(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4).to_float(ms.float32)

    def construct(self, x):
        return self.fc(x)


class TorchDoubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, *given):
        return given[0] * 2


def test_pt118_a_gradient_of_its_own_is_in_no_graph(tmp_path) -> None:
    import regraft

    net = Doubling()
    assert (gradient(net) == 2).all()
    assert (torch_gradient(TorchDoubling.apply) == 2).all()
    regraft.save(regraft.rewrite(regraft.load(net, [X])).graph, tmp_path / "net", to="mindspore")
    assert "def bprop" not in (tmp_path / "net" / "model.py").read_text()


def test_pt119_o2_casts_what_to_float_has_set(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where it writes what it makes

    def is_rounded(level: str) -> bool:
        found = ms.amp.auto_mixed_precision(Exact(), level)(ms.Tensor(X)).asnumpy()
        return bool((found == found.astype(np.float16)).all())

    assert is_rounded("O2")
    assert not is_rounded("O1")
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", enabled=False):
        assert torch.nn.Linear(4, 4)(torch.tensor(X)).dtype == torch.float32


def test_pt120_names_without_the_cell() -> None:
    class Block(nn.Cell):
        def __init__(self, **options) -> None:
            super().__init__(**options)
            self.fc = nn.Dense(2, 2)

    assert [p.name for p in Block().get_parameters()] == ["fc.weight", "fc.bias"]
    assert [p.name for p in Block(auto_prefix=False).get_parameters()] == ["weight", "bias"]
    there = torch.nn.ModuleDict({"fc": torch.nn.Linear(2, 2)})
    assert [n for n, _ in there.named_parameters()] == ["fc.weight", "fc.bias"]


def test_np101_numpy_cuts_the_gradient() -> None:
    def here(x):
        return x + ms.Tensor(np.square(x.asnumpy()))

    np.testing.assert_array_equal(gradient(here), np.ones_like(X))
    there = torch_gradient(lambda x: x + x.square())
    np.testing.assert_allclose(there, 1 + 2 * X, rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda x: x + ops.square(x)), there, rtol=1e-5)


def test_output_padding_needs_pad_mode_and_then_gives_torchs_size() -> None:
    image = np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype(np.float32)
    there = torch.nn.ConvTranspose2d(4, 3, 3, 2, output_padding=1)(torch.tensor(image))
    with pytest.raises(ValueError, match="pad_mode must be 'pad'"):
        nn.Conv2dTranspose(4, 3, 3, 2, output_padding=1)(ms.Tensor(image))
    right = nn.Conv2dTranspose(4, 3, 3, 2, pad_mode="pad", padding=0, output_padding=1)(ms.Tensor(image))
    silent = nn.Conv2dTranspose(4, 3, 3, 2)(ms.Tensor(image))
    assert right.shape == tuple(there.shape) == (1, 3, 12, 12)
    assert silent.shape == (1, 3, 10, 10)
