"""Messages in Chinese, by --lang and by the environment; English where nothing is translated; codes stay."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from regraft.api.explanations.lookup import PAGES, known_codes
from regraft.backends import TARGETS
from regraft.cli import invoke as run
from regraft.cli import main
from regraft.commands.language import language_of
from regraft.ir.recipe import COUPLED, DECOUPLED, KIND
from regraft.process.messages import Catalogue, catalogue, read_po, say, say_lines, width_of
from regraft.verification.recipes.report import RecipeRow

from .tools.messages import Template, templates

ROOT = Path(__file__).resolve().parent.parent
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"
INPUT = ("--input", "data=1x1x3x3")
PO = ROOT / "process" / "messages" / "zh.po"
CHINESE = re.compile("[\u4e00-\u9fff]")
NOT_TRANSLATED = {
    "backends/mindspore_source/templates/": "comments of emitted source, which are English",
    "backends/torch_source/templates/": "comments of emitted source, which are English",
    "backends/mindspore_source/dialect.py": "comments of emitted source, which are English",
    "backends/source/program.py": "comments of emitted source, which are English",
    "backends/source/recorded_tests.py": "comments of emitted source, which are English",
    "backends/source/text/": "comments of emitted source, which are English",
    "ir/validation.py": "an excerpt of a graph",
    "diagnosis/findings/plain_list.py": "code",
    "commands/sweeping/suite.py:5": "code",
}
"""Place of a template -> why it has no entry."""
TERMS = frozenset(
    (
        "backward",
        "buffer",
        "class",
        "construct",
        "dropout",
        "dtype",
        "epsilon",
        "forward",
        "fsspec",
        "identity",
        "initializer",
        "install",
        "mindspore",
        "null",
        "opset",
        "order",
        "pass",
        "pip",
        "projected",
        "query",
        "range",
        "regraft",
        "reshape",
        "ruff",
        "safetensors",
        "source",
        "stride",
        "true",
        "tanh",
        "target",
        "torch",
    )
)
"""English words that a Chinese message may keep: names, and terms that have no other name."""
SLOT = re.compile(r"\{(\w+)\}")
NAMES = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'|Zq\w*|[\w.]*[._(=:/\[{-]\S*|[^\x00-\x7f]")
"""What is no word of a sentence: code, options, paths, what stands in a slot, and Chinese."""


def invoke(*arguments: object, **environment: str | None) -> Result:
    given = {"LANGUAGE": None, "LC_ALL": None, "LC_MESSAGES": None, "LANG": None, **environment}
    return CliRunner().invoke(main, [str(a) for a in arguments], env=given)


def said(template: Template) -> str:
    """A message of that form in Chinese, with a name in each slot."""
    return say_lines(SLOT.sub("Zq7", template.text), "zh")


def test_what_is_not_translated_is_listed() -> None:
    messages = read_po(PO.read_text(encoding="utf-8"))
    for code, meaning in ((c, m) for group in known_codes().values() for c, m in group.items()):
        assert meaning in messages, code
    for code, page in PAGES.items():
        assert page.cause in messages, code
        assert page.fix in messages, code


@pytest.mark.xdist_group("messages")  # which are read once
def test_every_message_of_the_code_has_an_entry() -> None:
    found = templates()
    assert len(found) > 900
    for kind, least in {"error": 450, "hint": 190, "finding": 120, "note": 90, "advice": 25}.items():
        assert sum(each.kind == kind for each in found) > least, kind
    left = [
        f"{each.kind} at {each.place}: {each.text}"
        for each in found
        if not CHINESE.search(said(each))
        and re.search("[a-z]{3,} [a-z]{3,}", SLOT.sub("", each.text))
        and not each.place.startswith(tuple(NOT_TRANSLATED))
    ]
    assert left == []


@pytest.mark.xdist_group("messages")
def test_no_message_is_half_translated() -> None:
    for each in templates():
        text = said(each)
        if CHINESE.search(text):
            words = set(NAMES.sub(" ", text).split()) & set(SLOT.sub(" ", each.text).split())
            left = {word for word in words if word.isalpha() and word.islower() and len(word) > 2}
            assert left <= TERMS, f"{each.place}: {text}"


def helps() -> list[tuple[str, ...]]:
    return [(), *((name,) for name in main.commands)]


@pytest.mark.parametrize("command", helps(), ids=lambda command: " ".join(command) or "regraft")
def test_help_is_chinese_and_says_the_same_options(command: tuple[str, ...]) -> None:
    english = invoke(*command, "--help", COLUMNS="100").output
    chinese = invoke(*command, "--help", "--lang", "zh", COLUMNS="100").output
    assert chinese == invoke(*command, "--help", LANG="zh_CN.UTF-8", COLUMNS="100").output
    assert not CHINESE.search(english)
    options = [set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) for text in (english, chinese)]
    assert options[0] == options[1]
    body = chinese.split("示例：")[0].splitlines()
    prose = [line for line in body if re.search("[a-z]{3,} [a-z]{3,} [a-z]{3,}", line)]
    assert prose == [] or command == ("completion",)
    assert all(width_of(line) <= 80 for line in body), max(body, key=width_of)


def test_usage_errors(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["chekc", "--lang", "zh"]) == 2
    assert "错误: 没有命令 'chekc'" in capfd.readouterr().err
    assert run(["rewrite", "x.onnx", "--lang=zh"]) == 2
    assert "缺少选项 '-o' / '--output'。" in capfd.readouterr().err
    assert run(["show", "x.onnx", "--columns", "width", "--lang", "zh"]) == 2
    assert "列应为 input, output" in capfd.readouterr().err
    assert run(["--lang", "zh", "show", "nowhere.py:Net"]) == 2
    assert capfd.readouterr().err.startswith("错误 E101 没有文件 `nowhere.py`\n提示: 当前目录是 `")


def test_the_command_line_tells_the_language_wherever_it_does() -> None:
    assert language_of(["check", "a.py", "--lang", "zh"]) == "zh"
    assert language_of(["--lang=zh", "check"]) == "zh"
    assert language_of(["check", "--lang"]) == "en"
    assert language_of(["check", "--", "--lang", "zh"]) == "en"


def test_patterns_keep_the_names_that_messages_hold() -> None:
    for source, target in read_po(PO.read_text(encoding="utf-8")).items():
        slots = [set(re.findall(r"\{(\w+)\}", text)) for text in (source, target)]
        if slots[0]:
            assert slots[0] == slots[1], source
        assert CHINESE.search(target) or not CHINESE.search(source), source
        for word in re.findall(r"`(regraft[^`]*)`", source):
            assert word in target, source


def test_explain_and_codes() -> None:
    text = invoke("explain", "RP101", "--lang", "zh").output
    assert text.startswith("RP101: 几个参数同名")
    assert "\n原因:\n" in text
    assert "regraft.unique_names(net)" in text
    assert "MS101  If 或 Loop 写成 Python 的" in invoke("explain", "--lang", "zh").output


@pytest.mark.parametrize("target", TARGETS)
def test_every_pass_says_what_it_does(target: str) -> None:
    rows = json.loads(invoke("passes", "--to", target, "--json").stdout)
    assert [row["name"] for row in rows if not CHINESE.search(say(row["summary"], "zh"))] == []


@pytest.mark.parametrize("variable", ["LANG", "LC_ALL", "LANGUAGE"])
def test_the_environment_tells_the_language(variable: str) -> None:
    assert CHINESE.search(invoke("explain", "E701", **{variable: "zh_CN.UTF-8"}).output)
    assert not CHINESE.search(invoke("explain", "E701", **{variable: "de_DE.UTF-8"}).output)
    assert not CHINESE.search(invoke("explain", "E701", "--lang", "en", **{variable: "zh_CN"}).output)


def test_verdicts_findings_and_errors(tmp_path: Path) -> None:
    done = invoke("rewrite", SYMBOL, *INPUT, "-o", tmp_path / "o.onnx", "--lang", "zh")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].startswith("与所读取的一致")
    assert f"已写出 {tmp_path / 'o.onnx'}" in done.stdout
    again = invoke("rewrite", SYMBOL, *INPUT, "-o", tmp_path / "o.onnx", "--lang", "zh")
    assert again.stderr.startswith("错误 E002 ")
    assert "\n提示: 给出 --force" in again.stderr


def test_json_is_the_same_in_every_language() -> None:
    chinese, english = (invoke("check", SYMBOL, *INPUT, "--json", "--lang", lang) for lang in ("zh", "en"))
    assert json.loads(chinese.stdout) == json.loads(english.stdout)


def test_a_message_without_a_translation_stays() -> None:
    assert catalogue("zh").gettext("nobody has written this") == "nobody has written this"
    assert catalogue("en").gettext("clean") == "clean"


def test_the_root_is_a_place_and_no_name() -> None:
    use = "  aten.rand_like.default: 1 use, e.g. the root module (Net), net.py:3"
    assert say_lines(use, "zh") == "  aten.rand_like.default：用到 1 次，例如 根模块 (Net), net.py:3"
    error = "error E702 expected a module that can train, got an exported program - at the root module"
    assert say_lines(error, "zh").endswith(" - 位于 根模块")


def test_a_name_is_not_translated() -> None:
    assert catalogue("zh").gettext("wrote clean") == "已写出 clean"


def test_what_a_message_holds_is_no_pattern() -> None:
    found = Catalogue('msgid "one {cls} is {kind}"\nmsgstr "{kind}, {cls}"\n')
    assert found.gettext("one `{what}` is {cls}\\1") == "{cls}\\1, `{what}`"
    assert found.gettext("one " + "a is " * 5000) == "one " + "a is " * 5000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "first divergence: (root)#1: alpha 0.5 against 1; call `F.elu` (a.py:1) against `f.elu` (b.py:2)",
            "第一处分歧：(root)#1：alpha 0.5 对 1；调用 `F.elu` (a.py:1) 对 `f.elu` (b.py:2)",
        ),
        ("operands in another order against as they are: N `a`", "操作数换成另一种顺序 对 保持原样：N `a`"),
        ("factor 2 against none: N `a`", "系数 2 对 无：N `a`"),
        ("write: the operands exchanged - at b.py:12", "应写: 交换操作数 - 位于 b.py:12"),
        ("write: operands 1 and 3 exchanged - at b.py:12", "应写: 交换第 1 个和第 3 个操作数 - 位于 b.py:12"),
        (
            "write: what the source's `F.elu` computes before `x * 2` - at b.py:12",
            "应写: 在 `x * 2` 之前写与源模型的 `F.elu` 相同的计算 - 位于 b.py:12",
        ),
        ("write: `q` and `k` exchanged - at b.py:12", "应写: 交换 `q` 与 `k` - 位于 b.py:12"),
        ("`q`, `k` exchanged against as they are: N `a`", "`q` 与 `k` 互换 对 保持原样：N `a`"),
        (
            "write: `ops.elu(x)` in place of `ops.relu(x)` - at b.py:12",
            "应写: 用 `ops.elu(x)` 代替 `ops.relu(x)` - 位于 b.py:12",
        ),
        ("call none against `f.elu` (b.py:2): N `a`", "源模型中没有，目标调用 `f.elu` (b.py:2)：N `a`"),
        ("call `Div` (node) against none: N `a`", "调用 `Div` (node)，目标中没有：N `a`"),
        (
            "first divergence: (root)#1: call none against `f.elu` (b.py:2)",
            "第一处分歧：(root)#1：源模型中没有，目标调用 `f.elu` (b.py:2)",
        ),
        ("axes of `x` (0, 2, 1) against as they are: N `a`", "`x` 的轴 (0, 2, 1) 对 保持原样：N `a`"),
        (
            "write: what is `x` in the source, in place of `o` - at b.py:3",
            "应写: 用源模型中 `x` 所对应的值代替 `o` - 位于 b.py:3",
        ),
        ("operator `+` against `-`: N `a`", "运算符 `+` 对 `-`：N `a`"),
        (
            "write: `fc.weight` as it is in that product, or convert the weight transposed - at b.py:3",
            "应写: 在该乘积中原样使用 `fc.weight`，或在转换时转置该权重 - 位于 b.py:3",
        ),
    ],
)
def test_the_cause_in_a_method(line: str, said: str) -> None:
    assert say_lines(line, "zh") == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (RecipeRow("clip norm", "1", "none"), "按范数裁剪梯度：源中为 1，目标中为 无"),
        (RecipeRow("nesterov", "no", "yes"), "nesterov：源中为 否，目标中为 是"),
        (
            RecipeRow("learning rate", "at step 2: 0.01, 0.001", "at step 2: 0.1, 0.1"),
            "学习率：源中为 第 2 步起 0.01, 0.001，目标中为 第 2 步起 0.1, 0.1",
        ),
        (
            RecipeRow("loss", "cross entropy (`nn.CrossEntropyLoss`)", "squared error (`nn.MSELoss`)"),
            "loss：源中为 交叉熵 (`nn.CrossEntropyLoss`)，目标中为 平方误差 (`nn.MSELoss`)",
        ),
        (
            RecipeRow(KIND, COUPLED, DECOUPLED),
            "衰减方式：源中为 加到梯度上（L2），目标中为 与梯度分开（解耦）",
        ),
        (
            RecipeRow("epsilon", "1e-08", "1e-06", parameters=("a.w", "b.v")),
            "epsilon：源中为 1e-08，目标中为 1e-06，涉及 2 个参数：`a.w`, `b.v`",
        ),
        (
            RecipeRow("trained", "no", "yes", parameters=("a.w",)),
            "是否训练：源中为 否，目标中为 是，涉及 1 个参数：`a.w`",
        ),
    ],
)
def test_a_setting_of_a_recipe(row: RecipeRow, said: str) -> None:
    assert say_lines(row.lines()[0], "zh").strip() == said


def test_a_sentence_in_a_cell_of_a_table() -> None:
    row = "of the net  B=2, steps of the target, step 3  2x4  0.1  passed"
    assert say_lines(row, "zh") == "of the net  B=2，目标逐步，第 3 步            2x4  0.1  通过"
    assert say_lines("logits  B=2, one pass of the source  2x4  0.1", "zh").startswith(
        "logits  B=2，源一次前向 "
    )
