"""Traps of a port from PyTorch: each with both frameworks' numbers, found where it is, silent elsewhere."""

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn, ops

import regraft
from regraft.diagnosis import CODES
from regraft.ir import UsageError

IMAGE = np.random.default_rng(0).standard_normal((2, 4, 9, 9)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((3, 5, 6)).astype(np.float32)


class Trap(NamedTuple):
    """One trap: the call as a port writes it, what it should be, and torch's."""

    code: str
    here: str
    right: str
    there: str
    x: np.ndarray = IMAGE


LAYERS = [
    Trap(
        "PT101",
        "nn.Conv2d(4, 5, 3, has_bias=False)",
        'nn.Conv2d(4, 5, 3, pad_mode="valid")',
        "Conv2d(4, 5, 3)",
    ),
    Trap(
        "PT101",
        "nn.Conv2d(4, 5, 3, 2)",
        'nn.Conv2d(4, 5, 3, 2, pad_mode="pad", padding=1)',
        "Conv2d(4, 5, 3, 2, 1)",
        IMAGE[:, :, :8, :8].copy(),
    ),
    Trap(
        "PT101",
        "nn.Conv2dTranspose(4, 5, 3, 2)",
        'nn.Conv2dTranspose(4, 5, 3, 2, pad_mode="pad", padding=0)',
        "ConvTranspose2d(4, 5, 3, 2)",
    ),
    Trap(
        "PT102",
        'nn.Conv2d(4, 5, 3, pad_mode="valid")',
        'nn.Conv2d(4, 5, 3, pad_mode="valid", has_bias=True)',
        "Conv2d(4, 5, 3)",
    ),
    Trap("PT103", "nn.GELU()", "nn.GELU(approximate=False)", "GELU()"),
    Trap("PT104", "nn.LeakyReLU()", "nn.LeakyReLU(alpha=0.01)", "LeakyReLU()"),
    Trap("PT105", "nn.LayerNorm((6,))", "nn.LayerNorm((6,), epsilon=1e-5)", "LayerNorm(6)", ROWS * 1e-3),
    Trap(
        "PT106",
        "nn.LayerNorm((5, 6), epsilon=1e-5)",
        "nn.LayerNorm((5, 6), 1, 1, epsilon=1e-5)",
        "LayerNorm((5, 6))",
        ROWS,
    ),
    Trap("PT110", "nn.MaxPool2d(2)", "nn.MaxPool2d(2, stride=2)", "MaxPool2d(2)"),
    Trap("PT110", "nn.AvgPool2d(3)", "nn.AvgPool2d(3, 3)", "AvgPool2d(3)"),
    Trap("PT110", "nn.MaxPool1d(2)", "nn.MaxPool1d(2, 2)", "MaxPool1d(2)", ROWS),
]

FUNCTIONS = [
    Trap("PT110", "ops.avg_pool2d(x, 2)", "ops.avg_pool2d(x, 2, stride=2)", "nn.functional.avg_pool2d(x, 2)"),
    Trap("PT113", "ops.std(x)", "ops.std(x, ddof=1)", "std(x)", ROWS),
    Trap("PT113", "x.var()", "x.var(ddof=1)", "var(x)", ROWS),
    Trap("PT104", "ops.leaky_relu(x)", "ops.leaky_relu(x, 0.01)", "nn.functional.leaky_relu(x)"),
    Trap(
        "PT114",
        "ops.meshgrid(x[0, 0], x[0, 1, :2])[0]",
        'ops.meshgrid(x[0, 0], x[0, 1, :2], indexing="ij")[0]',
        'meshgrid(x[0, 0], x[0, 1, :2], indexing="ij")[0]',
        ROWS,
    ),
    Trap("PT114", "ops.median(x)[0]", "ops.median(x.reshape(-1), axis=0)[0]", "median(x)", ROWS),
    Trap(
        "PT112",
        "ops.smooth_l1_loss(x, x * 2)",
        'ops.smooth_l1_loss(x, x * 2, reduction="mean")',
        "nn.functional.smooth_l1_loss(x, x * 2)",
        ROWS,
    ),
]


def computed(expression: str, x: np.ndarray) -> np.ndarray:
    """What MindSpore gives, every weight 0.1 and every bias 0.5."""
    made = eval(expression, {"nn": nn, "ops": ops, "x": ms.Tensor(x)})
    if isinstance(made, nn.Cell):
        for parameter in made.get_parameters():
            if "moving" not in parameter.name:
                value = 0.5 if parameter.name.endswith(("bias", "beta")) else 0.1
                parameter.set_data(ms.Tensor(np.full(parameter.shape, value, np.float32)))
        made = made(ms.Tensor(x))
    return made.asnumpy()


def expected(expression: str, x: np.ndarray) -> np.ndarray:
    """What torch gives, likewise."""
    layer = getattr(torch.nn, expression.partition("(")[0], None)
    if layer is None:
        return eval(f"torch.{expression}", {"torch": torch, "x": torch.tensor(x)}).numpy()
    made = eval(f"torch.nn.{expression}", {"torch": torch})
    for name, parameter in made.named_parameters():
        torch.nn.init.constant_(parameter, 0.5 if name.endswith("bias") else 0.1)
    with torch.no_grad():
        return made(torch.tensor(x)).numpy()


def is_near(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trap", [*LAYERS, *FUNCTIONS], ids=lambda t: f"{t.code} {t.here}")
def test_the_call_means_something_else_in_torch(trap: Trap) -> None:
    wanted = expected(trap.there, trap.x)
    if trap.code == "PT101":  # whose port has no bias
        wanted = wanted - 0.5
    try:
        assert not is_near(computed(trap.here, trap.x), wanted)
    except (ValueError, TypeError, RuntimeError):  # it cannot even run
        assert trap.code == "PT106"
    assert is_near(computed(trap.right, trap.x), wanted)


def net(init: str = "", run: str = "x", *, before: str = "", after: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in init.splitlines())
    return (
        "import mindspore as ms\nimport numpy as np\nfrom mindspore import nn, ops, Tensor\n"
        f"{before}\nclass Net(nn.Cell):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.last = nn.Identity()\n{lines}"
        f"\n    def construct(self, x):\n        return self.last({run})\n{after}"
    )


def found(folder: Path, code: str, name: str = "Net", inputs: Any = None, **options: Any) -> list[Any]:
    (folder / "port.py").write_text(code)
    reference = f"{folder / 'port.py'}:{name}"
    return [
        f for f in regraft.check(reference, inputs, ported_from="torch", **options) if f.code.startswith("PT")
    ]


@pytest.mark.parametrize("trap", LAYERS, ids=lambda t: f"{t.code} {t.here}")
def test_a_layer_is_named_with_its_line_and_silent_once_written_out(trap: Trap, tmp_path: Path) -> None:
    wrong = net(f"self.layer = {trap.here}", "self.layer(x)")
    change = next(c for c in found(tmp_path, wrong) if c.code == trap.code)
    assert change.place == "port.py:9"
    assert change.advice
    assert "`layer`" in change.message
    right = net(f"self.layer = {trap.right}", "self.layer(x)")
    (tmp_path / "right").mkdir()
    assert trap.code not in {c.code for c in found(tmp_path / "right", right)}


@pytest.mark.parametrize("trap", FUNCTIONS, ids=lambda t: f"{t.code} {t.here}")
def test_a_function_is_named_with_its_line_and_silent_once_written_out(trap: Trap, tmp_path: Path) -> None:
    (change,) = found(tmp_path, net(run=trap.here))
    assert (change.code, change.place) == (trap.code, "port.py:11")
    (tmp_path / "right").mkdir()
    assert not found(tmp_path / "right", net(run=trap.right))


TRAINING = "net = Net()\nstep = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())\n"

OTHERS = {
    "PT107": (
        net("self.bn = nn.BatchNorm2d(4, momentum=0.1)"),
        net("self.bn = nn.BatchNorm2d(4, momentum=0.9)"),
    ),
    "PT108": (net("self.drop = nn.Dropout(0.1)"), net("self.drop = nn.Dropout(p=0.1)")),
    "PT109": (
        net("self.table = nn.Embedding(9, 4)"),
        net('self.table = nn.Embedding(9, 4, embedding_table="zeros")'),
    ),
    "PT111": (net("self.norm = nn.InstanceNorm2d(4)"), net("self.norm = nn.InstanceNorm2d(4, affine=False)")),
    "PT112": (net("self.loss = nn.SmoothL1Loss()"), net('self.loss = nn.SmoothL1Loss(reduction="mean")')),
    "PT114": (
        net(run="ops.multinomial(x, 2)"),
        net(run="ops.multinomial(x, 2, replacement=False)"),
    ),
    "PT121": (net("self.norm = nn.LRN(2)"), net("self.norm = nn.LRN(2, alpha=1e-4 / 5, beta=0.75)")),
    "PT116": (
        net("self.drop = nn.Dropout(p=0.1)", after=TRAINING),
        net("self.drop = nn.Dropout(p=0.1)", after=f"{TRAINING}net.set_train()\n"),
    ),
    "PT117": (
        net("self.a = nn.Dense(2, 2)", after="o = nn.AdamWeightDecay(Net().trainable_params())\n"),
        net("self.a = nn.Dense(2, 2)", after="o = nn.Adam(Net().trainable_params())\n"),
    ),
    "PT119": (
        net(
            "self.a = nn.Dense(2, 2).to_float(ms.float32)",
            after='m = ms.amp.auto_mixed_precision(Net(), "O2")\n',
        ),
        net(
            "self.a = nn.Dense(2, 2).to_float(ms.float32)",
            after='m = ms.amp.auto_mixed_precision(Net(), "O1")\n',
        ),
    ),
}
CLASS = (
    "class Block(nn.Cell):\n    def __init__(self):\n        super().__init__({})\n"
    "        self.a = nn.Dense(2, 2)\n{}"
)
BPROP = (
    "    def construct(self, x):\n        return x\n"
    "    def bprop(self, x, out, dout):\n        return (dout,)\n"
)
STOPPED = "    def construct(self, x):\n        y = self.a(x)\n        {}\n        return y\n"
BLOCKS = {
    "PT115": (STOPPED.format("y.requires_grad = False"), STOPPED.format("y = ops.stop_gradient(y)"), ""),
    "PT118": (BPROP, BPROP.partition("    def bprop")[0], ""),
}
OTHERS |= {
    code: (
        net("self.block = Block()", "self.block(x)", before=CLASS.format(argument, wrong)),
        net("self.block = Block()", "self.block(x)", before=CLASS.format("", right)),
    )
    for code, (wrong, right, argument) in BLOCKS.items()
}
UNNAMED = "super().__init__(auto_prefix=False)"
OTHERS["PT120"] = (
    net("self.a = nn.Dense(2, 2)", "self.a(x)").replace("super().__init__()", UNNAMED),
    net(
        "self.block = Block()",
        "self.block(x)",
        before=CLASS.format("auto_prefix=False", BPROP.partition("    def bprop")[0]),
    ),
)


@pytest.mark.parametrize("code", OTHERS)
def test_the_others_likewise(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # O1 writes what it makes of the net there
    wrong, right = OTHERS[code]
    (change,) = found(tmp_path, wrong)
    assert change.code == code
    assert change.place.startswith("port.py:")
    (tmp_path / "right").mkdir()
    assert not found(tmp_path / "right", right)


def test_every_code_has_a_case() -> None:
    cases = {t.code for t in (*LAYERS, *FUNCTIONS)} | set(OTHERS)
    assert cases == {code for code in CODES if code.startswith("PT")}


def test_gelu_is_as_far_off_as_the_finding_says(tmp_path: Path) -> None:
    (change,) = found(tmp_path, net("self.act = nn.GELU()"))
    x = np.linspace(-6, 6, 100001, dtype=np.float32)
    far = np.abs(computed("nn.GELU()", x) - expected("GELU()", x)).max()
    assert f"{far:.1e} away" in change.message


def test_momentum_is_turned_round() -> None:
    here, there = nn.BatchNorm2d(4, momentum=0.9).set_train(), torch.nn.BatchNorm2d(4, momentum=0.1)
    here(ms.Tensor(IMAGE)), there(torch.tensor(IMAGE))
    np.testing.assert_allclose(here.moving_mean.asnumpy(), there.running_mean.numpy(), rtol=1e-4, atol=1e-6)
    same = nn.BatchNorm2d(4, momentum=0.1).set_train()
    same(ms.Tensor(IMAGE))
    assert np.abs(same.moving_mean.asnumpy() - there.running_mean.numpy()).max() > 1e-3


def test_dropout_keeps_and_an_embedding_is_small() -> None:
    ones = np.ones((100, 100), np.float32)
    kept = np.mean(nn.Dropout(0.1).set_train()(ms.Tensor(ones)).asnumpy() > 0)
    torch_kept = (torch.nn.Dropout(0.1)(torch.tensor(ones)) > 0).float().mean().item()
    assert kept < 0.2 < 0.8 < torch_kept
    small = nn.Embedding(100, 100).embedding_table.asnumpy().std()
    assert small < 0.02 < 0.9 < torch.nn.Embedding(100, 100).weight.std().item()


def test_padding_is_told_at_the_size_of_the_input(tmp_path: Path) -> None:
    code = net("self.c = nn.Conv2d(4, 5, 3, 2, has_bias=True)", "self.c(x)")
    (even,) = found(tmp_path, code, inputs=["1x4x8x8"])
    assert "0 before and 1 after at this input, unlike any padding of torch" in even.message
    (odd,) = found(tmp_path, code, inputs=["1x4x9x9"])
    assert "1 on each side at this input, as torch's does with padding=1" in odd.message
    tight = net("self.c = nn.Conv2d(4, 5, 2, 2, has_bias=True)", "self.c(x)")
    assert not found(tmp_path, tight, inputs=["1x4x8x8"]), "nothing is padded at this size"


@pytest.mark.parametrize(
    "init",
    [
        "self.c = nn.Conv2d(4, 5, 1, has_bias=True)",
        'self.c = nn.SequentialCell(nn.Conv2d(4, 5, 3, pad_mode="same"), nn.BatchNorm2d(5))',
        "self.c = nn.Conv2dTranspose(4, 5, 2, 2, has_bias=True)",
        "options = {'pad_mode': 'same', 'has_bias': False}\nself.c = nn.Conv2d(4, 5, 3, **options)",
        "self.c = nn.MaxPool2d(1)",
        "self.c = nn.Dropout()",
        "self.c = nn.BatchNorm2d(4)",
        "self.c = nn.TransformerEncoderLayer(8, 2)",
    ],
)
def test_right_layers_are_left_alone(init: str, tmp_path: Path) -> None:
    assert not found(tmp_path, net(init))


@pytest.mark.parametrize(("base", "codes"), [("nn.Cell", {"PT102"}), ("nn.BatchNorm2d", set())])
def test_only_what_is_a_normalisation_takes_a_bias_out(base: str, codes: set[str], tmp_path: Path) -> None:
    own = f"class BatchNorm2d({base}):\n    def construct(self, x):\n        return x * 2\n"
    made = "BatchNorm2d()" if base == "nn.Cell" else "BatchNorm2d(5)"
    layers = f'self.c = nn.SequentialCell(nn.Conv2d(4, 5, 3, pad_mode="valid"), {made})'
    assert {f.code for f in found(tmp_path, net(layers, "self.c(x)", before=own))} == codes


def test_a_live_net_is_judged_by_its_values() -> None:
    class Block(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.LeakyReLU()
            self.right = nn.LeakyReLU(0.01)

        def construct(self, x):
            return self.right(self.act(x))

    traps = [f for f in regraft.check(Block(), ported_from="torch") if f.code.startswith("PT")]
    assert [(f.code, f.place.partition(":")[0]) for f in traps] == [("PT104", Path(__file__).name)]
    assert not [f for f in regraft.check(Block()) if f.code.startswith("PT")], "only where it is asked for"


def test_comments_silence_their_statement(tmp_path: Path) -> None:
    layer = "self.c = nn.Conv2d(4, 5, 3,{}\n                       dilation=1)\nself.g = nn.GELU(){}"
    assert len(found(tmp_path, net(layer.format("", "")))) == 3
    for name, comments, left in (
        ("all", ("  # regraft: ignore", ""), ["PT103"]),
        ("one", ("  # regraft: ignore[PT101]", "  # regraft:ignore[pt103, PT999]"), ["PT102"]),
        ("text", ("", '; "# regraft: ignore"'), ["PT101", "PT102", "PT103"]),
    ):
        (tmp_path / name).mkdir()
        code = net(layer.format(*comments))
        (tmp_path / name / "port.py").write_text(code)
        result = regraft.check(f"{tmp_path / name / 'port.py'}:Net", ported_from="torch")
        assert sorted(f.code for f in result if f.code.startswith("PT")) == left
        assert result.silenced == 3 - len(left)


def test_codes_are_selected_and_ignored(tmp_path: Path) -> None:
    code = net("self.c = nn.Conv2d(4, 5, 3)\nself.g = nn.GELU()\nself.d = [nn.Dense(2, 2)]")
    assert {f.code for f in found(tmp_path, code, ignore=["PT101"])} == {"PT102", "PT103"}
    reference = f"{tmp_path / 'port.py'}:Net"
    assert {
        f.code for f in regraft.check(reference, ported_from="torch", select=["PT10", "PL"], ignore=["PT102"])
    } == {
        "PT101",
        "PT103",
        "PL101",
    }
    with pytest.raises(UsageError, match="ZZ1"):
        regraft.check(reference, select=["ZZ1"])


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "port.py").write_text(net("self.g = nn.GELU()", "self.g(x)"))
    command = [sys.executable, "-m", "regraft", "check", "port.py:Net", "--from", "torch", "--select", "PT"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("1 finding\nwarning PT103 ")
    done = subprocess.run(
        [*command, "--ignore", "PT103"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "clean")


def test_a_torch_model_is_no_port(tmp_path: Path) -> None:
    result = regraft.check(torch.nn.Sequential(torch.nn.GELU()), ported_from="torch")
    assert "not a port" in result.skipped["traps of porting"]


def test_what_regraft_writes_has_no_trap(tmp_path: Path) -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.LeakyReLU(), torch.nn.LayerNorm(16),
    )  # fmt: skip
    graph = regraft.load(net.eval(), torch.randn(2, 3, 8, 8))
    regraft.save(graph, tmp_path / "out", to="mindspore")
    written = regraft.check(f"{tmp_path / 'out' / 'model.py'}:build", ported_from="torch", select=["PT"])
    assert not written.findings
    assert "nn.Conv2d(" in (tmp_path / "out" / "model.py").read_text()
