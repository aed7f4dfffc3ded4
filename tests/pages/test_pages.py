"""Pages as files: what is vendored, what is escaped, what is binned, and the commands that write them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from regraft.api.pages import write_page
from regraft.api.pages.histograms import BINS, Tensor, bin_pairs
from regraft.api.pages.page import embed
from regraft.api.pages.telling import said_in
from regraft.api.pages.words import LANGUAGES, WORDS
from regraft.cli import main
from regraft.ir import Initializer, UsageError

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "api" / "pages"
RELEASED = {  # d3 7.9.0 and @dagrejs/dagre 3.1.3, as npm has them
    "d3.min.js": "f2094bbf6141b359722c4fe454eb6c4b0f0e42cc10cc7af921fc158fceb86539",
    "d3.LICENSE": "3e6849627f74ff73c257a3ae1efb574015d94fc1035c05ec3c15805165efcbc4",
    "dagre.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",
    "dagre.LICENSE": "6a349742a6cb219d5a2fc8d0844f6d89a6efc62e20c664450d884fc7ff2d6015",
}
TARGET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4, eps=eps)
        self.eval()

    def forward(self, x):
        return self.norm(self.conv(x))

def same(): return Net()
def other(): return Net(0.5)
"""


def invoke(*arguments: object, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, [str(a) for a in arguments])


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL
    )
    return json.loads(found[1])


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(TARGET)
    return path


class TestFile:
    @pytest.mark.parametrize("name", RELEASED)
    def test_what_is_vendored_is_what_was_released(self, name: str) -> None:
        assert hashlib.sha256((PAGES / "vendored" / name).read_bytes()).hexdigest() == RELEASED[name]

    def test_nothing_else_is_vendored(self) -> None:
        assert {path.name for path in (PAGES / "vendored").iterdir()} == set(RELEASED)

    def test_licences_of_what_is_inlined_are_in_the_page(self, page: Path) -> None:
        text = page.read_text()
        for name in ("d3", "dagre"):
            assert (PAGES / "vendored" / f"{name}.LICENSE").read_text().rstrip() in text

    def test_every_script_and_style_is_allowed_by_its_digest_alone(self, page: Path) -> None:
        text = page.read_text()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].replace(
            "&#x27;", "'"
        )
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        for tag, rule in (("script", "script-src"), ("style", "style-src")):
            found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            digests = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in found]
            assert rules[rule].split() == [f"'sha256-{digest}'" for digest in digests]
        assert "unsafe" not in policy

    def test_it_names_no_address_to_load_from(self, page: Path) -> None:
        class Loaded(HTMLParser):
            found: list[tuple[str, str | None]] = []  # noqa: RUF012 - of this class alone

            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                self.found += [
                    a for a in attrs if a[0] in ("src", "href", "srcset", "style") or a[0][:2] == "on"
                ]

        parser = Loaded()
        parser.feed(page.read_text())
        assert parser.found == []
        assert "sourceMappingURL" not in page.read_text()

    @pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028\u2029", "&lt;", '"\\', "\u202e"])
    def test_data_cannot_end_their_element(self, text: str) -> None:
        shown = embed({"name": text})
        assert not set("<>&\u2028\u2029") & set(shown)
        assert json.loads(shown) == {"name": text}

    def test_it_holds_no_weights_and_no_folders(
        self, compared: dict[str, Any], net: Path, tmp_path: Path
    ) -> None:
        page = tmp_path / "one.html"
        assert invoke("show", f"{net}:Net", "--input", "2x3x6x6", "--html", page).exit_code == 0
        assert str(tmp_path) not in page.read_text()
        weight = next(p for p in compared["source"].parameters() if p.data.shape == (4, 4, 3, 3))
        assert f"{weight.data.numpy().ravel()[5]:.6f}" not in compared["en"].read_text()


class TestWords:
    def test_all_languages_say_everything_with_the_same_blanks(self) -> None:
        for key, text in WORDS["en"].items():
            for language in LANGUAGES:
                assert WORDS[language][key]
                assert set(re.findall(r"{\w+}", WORDS[language][key])) == set(re.findall(r"{\w+}", text)), key

    def test_every_text_is_used_and_every_text_used_is_there(self) -> None:
        scripts = "".join(path.read_text() for path in (PAGES / "script").iterdir())
        asked = set(re.findall(r'say\("(\w+)"', scripts))
        assert asked <= set(WORDS["en"])
        quoted = set(re.findall(r'"(\w+)"', scripts + (PAGES / "page.py").read_text()))
        named = set(re.findall(r"[{,]\s*(equal|different|unproven):", scripts))
        assert set(WORDS["en"]) - quoted - named == set()

    def test_chinese_is_chinese(self) -> None:
        assert all(re.search("[\u4e00-\u9fff]", t) for k, t in WORDS["zh"].items() if k != "count")

    def test_another_language_is_refused(self, compared: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="expected a language of en, zh, got `fr`"):
            write_page(tmp_path / "x.html", compared["source"], lang="fr")


def binned(source: np.ndarray | None, target: np.ndarray | None, law: Initializer | None = None) -> Any:
    sides = [None if a is None else Tensor("w", lambda a=a: a, law) for a in (source, target)]
    return next(iter(bin_pairs([tuple(sides)])), None)


class TestHistograms:
    def test_equal_values_are_no_way_apart(self) -> None:
        values = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
        found = binned(values, values)
        assert found.heights[0] == found.heights[1]
        assert found.apart == 0
        assert len(found.heights[0]) == BINS
        assert max(found.heights[0]) == 999

    def test_other_values_are_apart_and_share_their_bins(self) -> None:
        random = np.random.default_rng(0)
        found = binned(random.uniform(-1, 1, 4000), random.uniform(-0.1, 0.1, 4000))
        assert (found.low, found.high) == pytest.approx((-1, 1), abs=0.01)
        assert found.apart > 0.4
        assert sum(v > 0 for v in found.heights[1]) < 6 < sum(v > 0 for v in found.heights[0])

    def test_a_law_is_drawn_where_its_values_are(self) -> None:
        values = np.random.default_rng(0).uniform(-0.5, 0.5, (64, 64))
        found = binned(values, None, Initializer.of("uniform", low=-0.5, high=0.5))
        assert np.abs(np.subtract(found.heights[0], found.laws[0])).max() < 350
        assert found.told[0] == "uniform(low=-0.5, high=0.5)"
        wrong = binned(values, None, Initializer.of("normal", mean=0.0, std=0.1))
        assert np.abs(np.subtract(wrong.heights[0], wrong.laws[0])).max() > 350

    @pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-30, 1e30])
    def test_one_value_is_one_bar(self, value: float) -> None:
        found = binned(np.full(9, value, np.float32), None)
        assert sum(v > 0 for v in found.heights[0]) == 1

    def test_what_is_no_number_is_counted(self) -> None:
        found = binned(np.array([1.0, np.nan, np.inf, 2.0]), None)
        assert found.moments[0] == pytest.approx((1.5, 0.5, 0.5))

    @pytest.mark.parametrize("array", [np.arange(3), np.zeros((0, 3)), np.array([np.nan]), np.array([True])])
    def test_without_a_number_there_is_no_histogram(self, array: np.ndarray) -> None:
        assert binned(array, None) is None


class TestCommands:
    def test_a_report_of_equal_and_of_different_nets(self, net: Path, tmp_path: Path) -> None:
        for target, code, state in (("same", 0, "equal"), ("other", 1, "different")):
            page = tmp_path / f"{target}.html"
            result = invoke("report", f"{net}:Net", f"{net}:{target}", "--input", "2x3x6x6", "-o", page)
            assert result.exit_code == code, result.output
            assert f"wrote {page}" in result.output
            assert data_of(page)["report"]["state"] == state
            assert data_of(page)["report"]["target"].startswith(f"net.py:{target} in PyTorch ")
        assert "eps 1e-05" in data_of(page)["report"]["told"]

    def test_rewrite_writes_the_page_of_what_it_wrote(self, net: Path, tmp_path: Path) -> None:
        page, out = tmp_path / "page.html", tmp_path / "net.onnx"
        result = invoke("rewrite", f"{net}:Net", "--input", "2x3x6x6", "-o", out, "--html", page)
        assert result.exit_code == 0, result.output
        rows = [" ".join(line.split()) for line in result.output.splitlines()]
        assert "BatchNormalization 1" in rows
        assert "Conv 1 1" in rows
        assert "all 2 1" in rows
        data = data_of(page)
        assert data["target"]["framework"] == "ONNX"
        assert ["conv", "Conv2d"] in [m[:2] for m in data["target"]["modules"]]
        assert [row[1] for row in data["renames"] if row[0] == "conv.weight"] == ["conv.weight"]
        assert "folded" in {row[2] for row in data["renames"]}

    def test_a_rewrite_that_fails_has_its_page_and_no_output(
        self, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = TARGET.replace("return self.norm", "return torch.full((), float('nan')) * self.norm")
        net.write_text(text)
        page, out = tmp_path / "page.html", tmp_path / "net.onnx"
        result = invoke("rewrite", f"{net}:Net", "--input", "2x3x6x6", "-o", out, "--html", page)
        assert result.exit_code == 1, result.output
        assert not out.exists()
        assert data_of(page)["report"]["state"] == "unproven"

    @pytest.mark.parametrize(
        ("environment", "options", "language"),
        [
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, [], "zh"),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, [], "en"),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, ["--lang", "en"], "en"),
            ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, ["--lang", "zh"], "zh"),
        ],
    )
    def test_the_language_is_the_one_asked_for(
        self, net: Path, tmp_path: Path, environment: dict[str, str], options: list[str], language: str
    ) -> None:
        page = tmp_path / "page.html"
        environment = {"LANGUAGE": "", "LC_MESSAGES": "", **environment}
        result = invoke("show", f"{net}:Net", "--html", page, *options, **environment)
        assert result.exit_code == 0, result.output
        assert data_of(page)["language"] == language

    @pytest.mark.parametrize("name", ["net.py", "page", "."])
    def test_what_is_no_page_by_its_name_is_never_replaced(
        self, net: Path, tmp_path: Path, name: str
    ) -> None:
        result = invoke("show", f"{net}:Net", "--html", tmp_path / name)
        assert result.exit_code == 2
        assert net.read_text() == TARGET

    def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_loaded(self, net: Path) -> None:
        net.write_text("raise SystemError('this file was run')")
        result = invoke("verify", f"{net}:Net", f"{net}:other", "--html", net / "page.html")
        assert result.exit_code == 2
        assert "expected a folder to write to" in result.output
        assert "was run" not in result.output


def test_what_was_found_is_said_in_the_page_s_language() -> None:
    row = [
        "relu#1",
        "ReLU",
        0.1,
        0.1,
        0.0,
        None,
        None,
        False,
        "other values enter it in the target",
        None,
        "",
    ]
    report = {
        "line": "DIFFERENT: 1 output and 1 of 1 module calls compared, 1 beyond tolerance",
        "covered": "covered: 1 of 1 module calls, 6 draws",
        "told": "first divergence: relu#1\n  write: momentum=0.9 - at net.py:3",
        "source": "net.py:Net in PyTorch 2.13.0 (evaluation mode, float64)",
        "target": "MindSpore 2.10.0 (PyNative, evaluation mode)",
        "yardstick": "64 units in the last place of the largest value; beyond them, 4 times as far as the "
        "source's own rounding: as its own float32 is from its float64 result; integers and booleans equal "
        "where rounding does not decide them",
        "unproven": [],
        "notes": ["captured in evaluation mode"],
        "outputs": [],
        "modules": [row],
        "nodes": [],
        "training": [],
    }
    data = {"notes": [], "report": report}
    assert said_in(data, "en") is data
    found = said_in(data, "zh")["report"]
    assert found["line"] == "不一致：比较了 1 个输出和 1 次模块调用中的 1 次，1 个超出容差"
    assert found["told"] == "第一处分歧：relu#1\n  应写: momentum=0.9 - 位于 net.py:3"
    assert found["notes"] == ["在推理模式下捕获"]
    assert found["source"] == "net.py:Net · PyTorch 2.13.0（推理模式，float64）"
    assert found["target"] == "MindSpore 2.10.0（PyNative，推理模式）"
    report["source"] = "the net in here.py:Net in PyTorch 2.13.0 (evaluation mode, float32, in pieces)"
    report["target"] = "MindSpore 2.10.0 (PyNative, evaluation mode, in pieces)"
    pieces = said_in(data, "zh")["report"]
    assert pieces["source"] == "the net in here.py:Net · PyTorch 2.13.0（推理模式，float32，分块）"
    assert pieces["target"] == "MindSpore 2.10.0（PyNative，推理模式，分块）"
    assert found["yardstick"].startswith("最大值末位的 64 个单位；")
    assert found["modules"][0][:8] == row[:8]
    assert found["modules"][0][8] == "目标中进入它的是别的值"
