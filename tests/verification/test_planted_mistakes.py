"""Mistakes that people make when they port a net by hand: named with the line, and mended by `fix`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

import regraft
from regraft.cli import main
from regraft.ir import Graph

PORTS = Path(__file__).parent / "ports"
SHAPE = ("--input", "2x3x16x16")


class Mistake(NamedTuple):
    """What is written wrong in a port.

    Attributes:
        right: the text of the port.
        wrong: what stands in its place.
        cause: what the first lines of `verify` say.
        write: what they say to write.
        at: a text of the line that they name.
        mended: a text that `fix` writes; empty where it leaves the edit to the user.
    """

    right: str
    wrong: str
    cause: str
    write: str
    at: str
    mended: str = ""


IN_MINDSPORE = {
    "initial law": Mistake(
        "self.up = dense(8, 24)",
        "self.up = nn.Dense(8, 24, weight_init='normal', bias_init=Uniform(1 / math.sqrt(8)))",
        "he_uniform(a=2.236) in the source, normal(std=0.01) in the target",
        "weight_init=HeUniform(math.sqrt(5))",
        "self.up =",
        "nn.Dense(8, 24, weight_init=HeUniform(math.sqrt(5)), bias_init=Uniform(1 / math.sqrt(8)))",
    ),
    "BatchNorm's momentum": Mistake(
        "self.second_norm = nn.BatchNorm2d(channels, momentum=0.9)",
        "self.second_norm = nn.BatchNorm2d(channels, momentum=0.1)",
        "momentum 0.9 against 0.1",
        "momentum=0.9",
        "self.second_norm =",
        "self.second_norm = nn.BatchNorm2d(channels, momentum=0.9)",
    ),
    "padding, in a function that makes several": Mistake(
        '        pad_mode="pad",\n        padding=kernel // 2,\n',
        "",
        "padding [1, 1] against [0, 0, 1, 1]",
        'pad_mode="pad", padding=kernel // 2',
        "return nn.Conv2d(",
        '        pad_mode="pad",\n        padding=kernel // 2,\n',
    ),
    "LayerNorm's epsilon": Mistake(
        "nn.LayerNorm((8,), epsilon=1e-5)",
        "nn.LayerNorm((8,))",
        "epsilon 1e-05 against 1e-07",
        "epsilon=1e-05",
        "self.scale =",
        "nn.LayerNorm((8,), epsilon=1e-05)",
    ),
    "GELU": Mistake(
        "nn.GELU(approximate=False)",
        "nn.GELU()",
        "approximate False against True",
        "approximate=False",
        "self.gelu =",
        "nn.GELU(approximate=False)",
    ),
    "Dropout's ratio": Mistake(
        "nn.Dropout(p=0.1)", "nn.Dropout(p=0.9)", "ratio 0.1 against 0.9", "p=0.1", "nn.Dropout", "p=0.1"
    ),
    "transposed weight": Mistake(
        "return self.out(self.blend(x))",
        "return self.out(ops.matmul(x, self.blend.weight))",
        "weight multiplied as (out, in) against (in, out): Dense `blend`",
        "`blend.weight.T` in that product",
        "def construct(self, images)",
    ),
    "initial law, by set_data": Mistake(
        "self.entry = conv(3, 8, 3, bias=True)",
        "self.entry = conv(3, 8, 3, bias=True)\n"
        "        from mindspore.common.initializer import initializer\n"
        "        self.entry.weight.set_data(initializer('normal', self.entry.weight.shape))",
        "he_uniform(a=2.236) in the source, normal(std=0.01) in the target",
        "layer.weight.set_data(initializer(HeUniform(math.sqrt(5)), layer.weight.shape))",
        "self.entry.weight.set_data",
        "self.entry.weight.set_data(initializer(HeUniform(math.sqrt(5)), self.entry.weight.shape))",
    ),
    "strides, of two calls of a function": Mistake(
        "self.first = conv(channels, channels, 3, 2)\n"
        "        self.first_norm = nn.BatchNorm2d(channels, momentum=0.9)\n"
        "        self.second = conv(channels, channels, 3)\n",
        "self.first = conv(channels, channels, 3)\n"
        "        self.first_norm = nn.BatchNorm2d(channels, momentum=0.9)\n"
        "        self.second = conv(channels, channels, 3, 2)\n",
        "strides [2, 2] against [1, 1]",
        "stride=2",
        "self.first =",
    ),
    "a shortcut that is computed and not added": Mistake(
        "return ops.relu(self.second_norm(self.second(y)) + self.skip(x))",
        "self.skip(x)\n        return ops.relu(self.second_norm(self.second(y)))",
        "call `self.bn2(self.conv2(out)) + self.shortcut(x)` (grader_torch.py:18) against none",
        "self.second_norm(self.second(y)) + self.skip(x) before `ops.relu`",
        "return ops.relu(self.second_norm(self.second(y)))",
    ),
    "no bias": Mistake(
        "self.out = dense(8, 5)",
        "self.out = nn.Dense(8, 5, has_bias=False)",
        "only in the source: `head.bias`",
        "has_bias=True in `out`",
        "self.out =",
        "nn.Dense(8, 5, has_bias=True",
    ),
}

IN_TORCH = {
    "initial law": Mistake(
        "self.head = nn.Linear(8, 5)",
        "self.head = nn.Linear(8, 5)\n        nn.init.normal_(self.wide.weight, 0, 0.02)",
        "he_uniform(a=2.236) in the source, normal(std=0.02) in the target",
        "nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5))",
        "nn.init.normal_(self.wide",
        "nn.init.kaiming_uniform_(self.wide.weight, a=math.sqrt(5))",
    ),
    "BatchNorm's momentum": Mistake(
        "self.bn2 = nn.BatchNorm2d(width)",
        "self.bn2 = nn.BatchNorm2d(width, 1e-5, 0.9)",
        "momentum 0.9 against 0.1",
        "momentum=0.1",
        "self.bn2 =",
        "nn.BatchNorm2d(width, 1e-5, 0.1)",
    ),
    "padding": Mistake(
        "self.stem = nn.Conv2d(3, 8, 3, padding=1)",
        "self.stem = nn.Conv2d(3, 8, 3)",
        "padding [1, 1] against [0, 0]",
        "padding=1",
        "self.stem =",
        "nn.Conv2d(3, 8, 3, padding=1)",
    ),
    "LayerNorm's epsilon": Mistake(
        "nn.LayerNorm(8)",
        "nn.LayerNorm(8, eps=1e-3)",
        "eps 1e-05 against 0.001",
        "eps=1e-05",
        "self.norm =",
        "eps=1e-05",
    ),
    "GELU": Mistake(
        "nn.GELU()",
        'nn.GELU(approximate="tanh")',
        "approximate none against tanh",
        'approximate="none"',
        "self.act =",
        'nn.GELU(approximate="none")',
    ),
    "Dropout's ratio": Mistake(
        "nn.Dropout(0.1)",
        "nn.Dropout(0.5)",
        "ratio 0.1 against 0.5",
        "p=0.1",
        "nn.Dropout",
        "nn.Dropout(0.1)",
    ),
    "transposed weight": Mistake(
        "return self.head(self.mix(x))",
        "return self.head(x @ self.mix.weight)",
        "weight multiplied as (out, in) against (in, out): Linear `mix`",
        "`mix.weight.T` in that product",
        "return self.head(",
    ),
}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def planted(port: str, mistakes: Iterable[Mistake], tmp_path: Path) -> Path:
    text = (PORTS / port).read_text()
    for mistake in mistakes:
        assert text.count(mistake.right) == 1
        text = text.replace(mistake.right, mistake.wrong)
    path = tmp_path / port
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def sources() -> Callable[[str], Graph]:
    """The right ports, each loaded once."""
    return cache(lambda name: regraft.load(name, (SHAPE[1],)))


def assert_named(mistake: Mistake, path: Path, target: str, source: Graph) -> None:
    """The cause, what to write and the line stand in the first ten lines, of a screenful.

    What is asserted of is what `regraft verify SOURCE TARGET --train` prints.
    """
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if mistake.at in text)
    report = regraft.verify(source, f"{path}:{target}", train=True)
    text = report.render(brief=True).rstrip()
    assert not report.passed, text
    first = "\n".join(text.splitlines()[:10])
    assert mistake.cause in first, text
    assert f"write: {mistake.write}" in first, text
    assert f"{path.name}:{line}" in first, text
    assert len(text.splitlines()) <= 45, text


TORCH_NET = f"{PORTS / 'grader_torch.py'}:Grader"
MINDSPORE_NET = f"{PORTS / 'grader_mindspore.py'}:Marker"


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_MINDSPORE)
def test_a_mistake_of_a_port_to_mindspore(name: str, tmp_path: Path, sources: Callable[[str], Graph]) -> None:
    path = planted("grader_mindspore.py", [IN_MINDSPORE[name]], tmp_path)
    assert_named(IN_MINDSPORE[name], path, "Marker", sources(TORCH_NET))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["initial law", "padding, in a function that makes several", "no bias"])
def test_the_command_prints_that_and_fails(name: str, tmp_path: Path) -> None:
    path = planted("grader_mindspore.py", [IN_MINDSPORE[name]], tmp_path)
    found = invoke("verify", TORCH_NET, f"{path}:Marker", *SHAPE, "--train")
    assert found.exit_code == 1, found.output
    assert found.stdout.startswith("DIFFERENT")
    first = "\n".join(found.stdout.splitlines()[:10])
    assert IN_MINDSPORE[name].cause in first
    assert f"write: {IN_MINDSPORE[name].write}" in first


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TORCH)
def test_a_mistake_of_a_port_to_torch(name: str, tmp_path: Path, sources: Callable[[str], Graph]) -> None:
    path = planted("grader_torch.py", [IN_TORCH[name]], tmp_path)
    assert_named(IN_TORCH[name], path, "Grader", sources(MINDSPORE_NET))


@pytest.mark.parametrize(
    ("port", "target", "mistakes", "source"),
    [
        ("grader_mindspore.py", "Marker", IN_MINDSPORE, TORCH_NET),
        ("grader_torch.py", "Grader", IN_TORCH, MINDSPORE_NET),
    ],
)
def test_all_of_them_are_mended_at_once(
    port: str, target: str, mistakes: dict[str, Mistake], source: str, tmp_path: Path
) -> None:
    wrong = [m for m in mistakes.values() if m.mended]
    path = planted(port, wrong, tmp_path)
    done = invoke("fix", f"{path}:{target}", "--like", source, *SHAPE)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{len(wrong)} findings solved, 0 left"), done.stdout
    assert f"outputs: those of {source}, equal" in done.stdout
    for mistake in wrong:
        assert mistake.mended in path.read_text()


def test_what_no_argument_mends_is_left_with_what_to_write(tmp_path: Path) -> None:
    mistake = IN_MINDSPORE["transposed weight"]
    path = planted("grader_mindspore.py", [mistake], tmp_path)
    wrong = path.read_text()
    done = invoke("fix", f"{path}:Marker", "--like", TORCH_NET, *SHAPE)
    assert done.exit_code == 1, done.output
    assert f"write: {mistake.write}" in done.stdout
    assert path.read_text() == wrong


@pytest.mark.parametrize("turned", [False, True])
def test_right_ports_are_equal_both_ways_and_left_as_they_are(turned: bool, tmp_path: Path) -> None:
    source, target = (MINDSPORE_NET, TORCH_NET) if turned else (TORCH_NET, MINDSPORE_NET)
    found = invoke("verify", source, target, *SHAPE, "--train")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("equal: ")
    copy = tmp_path / Path(target.rpartition(":")[0]).name
    copy.write_text(Path(target.rpartition(":")[0]).read_text())
    fixed = invoke("fix", f"{copy}:{target.rpartition(':')[2]}", "--like", source, *SHAPE)
    assert fixed.exit_code == 0, fixed.output
    assert "nothing to fix" in fixed.stdout
    assert [p.name for p in tmp_path.iterdir()] == [copy.name]


def test_a_weight_that_stands_alone_is_the_weight_of_a_layer(
    tmp_path: Path, sources: Callable[[str], Graph]
) -> None:
    text = (PORTS / "grader_mindspore.py").read_text()
    text = text.replace("from mindspore import nn, ops", "from mindspore import Parameter, nn, ops")
    text = text.replace("HeUniform, Uniform", "HeUniform, Uniform, initializer")
    layer = "nn.Dense(8, 8, has_bias=False, weight_init=HeUniform(math.sqrt(5)))"
    assert layer in text
    text = text.replace(
        layer, "Parameter(initializer(HeUniform(math.sqrt(5)), (8, 8)), name='blend')"
    ).replace("self.blend(x)", "ops.matmul(x, self.blend.T)")
    path = tmp_path / "alone.py"
    path.write_text(text)
    report = regraft.verify(sources(TORCH_NET), f"{path}:Marker")
    assert report.passed, report.render()


def test_a_layer_constructed_otherwise_keeps_its_differences_in_training(tmp_path: Path) -> None:
    net = "from {0} import nn\n\n\nclass Net(nn.{1}):\n    def __init__(self):\n        super().__init__()\n"
    net += "        self.norm = nn.BatchNorm2d(3{2})\n\n    def {3}(self, x):\n        return self.norm(x)\n"
    mine, port = tmp_path / "mine.py", tmp_path / "port.py"
    mine.write_text(net.format("torch", "Module", ", eps=1e-3", "forward"))
    port.write_text(net.format("mindspore", "Cell", ", momentum=0.1", "construct"))
    report = regraft.verify(f"{mine}:Net", f"{port}:Net", ["2x3x4x4"])
    assert report.nets is not None
    assert {row.write for row in report.nets.settings} == {"eps=0.001", "momentum=0.9"}
