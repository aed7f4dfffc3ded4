"""Messages in Chinese, by --lang and by the environment; English where nothing is translated; codes stay."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from regraft import api
from regraft.cli import main
from regraft.commands.language import Catalogue, catalogue, read_po
from regraft.explaining import PAGES

ROOT = Path(__file__).resolve().parent.parent
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"
INPUT = ("--input", "data=1x1x3x3")
PO = ROOT / "commands" / "messages" / "zh.po"
CHINESE = re.compile("[\u4e00-\u9fff]")
NOT_TRANSLATED = re.compile(r"CF|CP|DM104|DU103|EC|EI|FG|GM|IN101|IT|LG|MS|OX|PI|TW10[13567]")
"""Codes whose meaning is English in every language: what passes do to a net that is as it should be."""


def invoke(*arguments: object, **environment: str | None) -> Result:
    given = {"LANGUAGE": None, "LC_ALL": None, "LC_MESSAGES": None, "LANG": None, **environment}
    return CliRunner().invoke(main, [str(a) for a in arguments], env=given)


def test_what_is_not_translated_is_listed() -> None:
    messages = read_po(PO.read_text(encoding="utf-8"))
    codes = {code: meaning for group in api.known_codes().values() for code, meaning in group.items()}
    missing = {code for code, meaning in codes.items() if meaning not in messages}
    assert missing == {code for code in codes if NOT_TRANSLATED.match(code)}
    for code, page in PAGES.items():
        assert page.cause in messages, code
        assert page.fix in messages, code


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
    assert "MS101  an If or a Loop" in invoke("explain", "--lang", "zh").output


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
    assert "\n提示: give --force" in again.stderr


def test_json_is_the_same_in_every_language() -> None:
    chinese, english = (invoke("check", SYMBOL, *INPUT, "--json", "--lang", lang) for lang in ("zh", "en"))
    assert json.loads(chinese.stdout) == json.loads(english.stdout)


def test_a_message_without_a_translation_stays() -> None:
    assert catalogue("zh").gettext("nobody has written this") == "nobody has written this"
    assert catalogue("en").gettext("clean") == "clean"


def test_a_name_is_not_translated() -> None:
    assert catalogue("zh").gettext("wrote clean") == "已写出 clean"


def test_what_a_message_holds_is_no_pattern() -> None:
    found = Catalogue('msgid "one {cls} is {kind}"\nmsgstr "{kind}, {cls}"\n')
    assert found.gettext("one `{what}` is {cls}\\1") == "{cls}\\1, `{what}`"
    assert found.gettext("one " + "a is " * 5000) == "one " + "a is " * 5000
