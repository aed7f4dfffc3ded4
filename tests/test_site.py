"""The site of the documentation: it builds without a warning, in two languages with the same pages."""

import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import quote, unquote, urlsplit

import click
import pytest

import regraft
from regraft.api.explanations.lookup import known_codes
from regraft.api.targets import target_names, target_passes
from regraft.cli import main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = sorted(p.relative_to(DOCS / "en").as_posix() for p in (DOCS / "en").rglob("*.md"))
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(language: str, page: str) -> str:
    return (DOCS / language / page).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def writer() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "extensions"))
        yield imported(DOCS / "extensions" / "generated_reference.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert imported(DOCS / "build.py").build(folder) == ""
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and logs nothing."""

    def log_message(self, *_args: object) -> None:
        pass


class Loads(HTMLParser):
    """Addresses that a page loads, and those that it links."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_link = tag == "link" and given.get("rel") in ("alternate", "index", "search", "next", "prev")
        if tag == "a" or is_link:
            self.linked.append(given.get("href") or "")
        else:
            self.loaded += [given[name] or "" for name in ("src", "href", "srcset") if name in given]


class TestLanguages:
    def test_pages_are_the_same(self) -> None:
        assert len(PAGES) > 25
        assert sorted(p.relative_to(DOCS / "zh").as_posix() for p in (DOCS / "zh").rglob("*.md")) == PAGES

    @pytest.mark.parametrize("page", PAGES)
    def test_sections_and_code_are_the_same(self, page: str) -> None:
        english, chinese = read("en", page), read("zh", page)
        assert HEADING.findall(FENCE.sub("", chinese)) == HEADING.findall(FENCE.sub("", english))
        if "{include}" not in chinese:  # of the English page's tables
            assert code(chinese) == code(english)
        assert generated(chinese) == generated(english)

    @pytest.mark.parametrize("page", PAGES)
    def test_chinese_pages_are_chinese(self, page: str) -> None:
        paragraphs = [p for p in FENCE.sub("", read("zh", page)).split("\n\n") if len(p) > 60]
        assert [p for p in paragraphs if not re.search(r"[\u4e00-\u9fff]", p)] == []


def code(text: str) -> list[tuple[str, str]]:
    """Blocks of a page; comments in shell commands are words, and are translated."""
    return [
        (info, re.sub(r" *#.*", "", body) if info == "sh" else body) for info, body in FENCE.findall(text)
    ]


def generated(text: str) -> list[str]:
    return re.findall(r"^% generated: (.*)$", text, re.MULTILINE)


class TestReference:
    """What is generated is complete."""

    def test_every_command_and_option(self, writer: ModuleType) -> None:
        text = writer.generate("commands")
        assert isinstance(main, click.Group)
        for name, command in main.commands.items():
            assert f"## `regraft {name}`" in text
            for parameter in command.params:
                if isinstance(parameter, click.Option) and not parameter.hidden:
                    assert all(option in text for option in parameter.opts), (name, parameter.opts)

    def test_every_code_of_explain(self, writer: ModuleType) -> None:
        text = writer.generate("codes")
        known = {code for codes in known_codes().values() for code in codes}
        assert known == set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    def test_every_pass(self, writer: ModuleType) -> None:
        text = writer.generate("passes")
        passes = {p.name for p in regraft.available_passes()}
        passes |= {p.name for target in target_names() for p in target_passes(target)}
        assert passes == set(re.findall(r"^### `([\w-]+)`", text, re.MULTILINE))

    def test_stored_runs_of_corpora(self, writer: ModuleType, tmp_path: Path) -> None:
        run = {
            "runs": {
                "onnx": {"commit": "abc1234", "measured": "2026-11-23"},
                "mindspore": {"commit": "abc1234", "measured": "2026-11-23"},
                "torch": {"commit": "def5678", "measured": "2026-11-28"},
            },
            "table": {
                "zoo": {"onnx": [2, 3], "mindspore": [3, 3], "torch": [2, 3]},
                "ops": {"onnx": [9, 9]},
            },
            "failures": [
                {"why": "ModelError: E101 expected UTF-8 text", "target": t, "count": 1, "cases": ["zoo/`a`"]}
                for t in ("onnx", "torch")
            ],
        }
        (tmp_path / "mxnet.json").write_text(json.dumps(run))
        pages: list[list[str]] = []
        for is_chinese in (False, True):
            page = writer.Writer(is_chinese=is_chinese)
            writer.write_corpora(page, tmp_path)
            pages.append(page.lines)
        english, chinese = pages
        assert english[0] == "### MXNet symbols"
        assert english[2] == (
            "Measured on 2026-11-23, commit `abc1234`: MindSpore source, ONNX; "
            "on 2026-11-28, commit `def5678`: PyTorch source. A cell is right of counted."
        )
        assert english[4:9] == [
            "| kind | MindSpore source | PyTorch source | ONNX |",
            "| --- | ---: | ---: | ---: |",
            "| zoo | 3 / 3 | 2 / 3 | 2 / 3 |",
            "| ops |  |  | 9 / 9 |",
            "| all | 3 / 3 | 2 / 3 | 11 / 12 |",
        ]
        counts = "- 1 ONNX, 1 PyTorch"
        assert english[-2] == f"{counts} source: `ModelError: E101 expected UTF-8 text` (`` zoo/`a` ``)"
        assert chinese[-2] == f"{counts} 源码: `ModelError: E101 应为 UTF-8 文本` (`` zoo/`a` ``)"
        assert len(english) == len(chinese)

    def test_commands_and_codes_in_chinese(self, writer: ModuleType) -> None:
        assert "只输出结论和错误。" in writer.generate("commands", is_chinese=True)
        assert "| `E001` | 命令行的值或参数无法理解 |" in writer.generate("codes", is_chinese=True)

    def test_chinese_labels(self, writer: ModuleType) -> None:
        for name in writer.GENERATED:
            english, chinese = writer.generate(name), writer.generate(name, is_chinese=True)
            assert len(english.splitlines()) == len(chinese.splitlines())

    @pytest.mark.parametrize("page", [p for p in PAGES if generated(read("en", p))])
    def test_pages_name_parts_that_there_are(self, page: str, writer: ModuleType) -> None:
        assert set(generated(read("en", page))) <= set(writer.GENERATED)


@pytest.mark.slow
@pytest.mark.xdist_group("site")  # one build
class TestBuild:
    def test_pages_load_nothing_from_elsewhere_and_links_lead_somewhere(self, site: Path) -> None:
        built = sorted(site.rglob("*.html"))
        assert len(built) > 2 * len(PAGES)
        for path in built:
            found = Loads()
            found.feed(path.read_text(encoding="utf-8"))
            for address in found.loaded + found.linked:
                parts = urlsplit(address)
                if address in found.loaded:
                    assert parts.scheme in ("", "data"), f"{path}: {address}"
                if not parts.scheme and parts.path:
                    assert (path.parent / unquote(parts.path)).exists(), f"{path}: {address}"

    def test_styles_load_nothing_from_elsewhere(self, site: Path) -> None:
        for path in site.rglob("*.css"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"@import|@font-face|url\(\s*[\"']?(?:https?:)?//", text), path

    def test_every_page_links_the_same_page_in_the_other_language(self, site: Path) -> None:
        for language, other in (("en", "zh"), ("zh", "en")):
            for page in PAGES:
                path = (site / language / page).with_suffix(".html")
                text = path.read_text(encoding="utf-8")
                switch = re.search(r'<p class="other-language"><a href="([^"]+)"', text)
                assert switch is not None, path
                assert (path.parent / switch[1]).resolve() == (site / other / page).with_suffix(
                    ".html"
                ).resolve()

    def test_search_finds_chinese_words_of_any_length(self, site: Path) -> None:
        index = (site / "zh" / "searchindex.js").read_text(encoding="utf-8")
        terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"]
        assert {"算子", "检查", "查点", "图", "mindspor"} <= set(terms)
        for language in ("en", "zh"):
            script = (site / language / "_static" / "language_data.js").read_text(encoding="utf-8")
            stemmer = re.search(r"window\.Stemmer = (\w+);", script)
            assert stemmer is not None
            assert f"{stemmer[1]}=function" in script
            assert ("function splitQuery" in script) == (language == "zh")

    @pytest.mark.skipif(BROWSER is None, reason="no chromium: the search was not tried in a browser")
    @pytest.mark.parametrize("words", ["zh/search.html?q=检查点", "en/search.html?q=checkpoint"])
    def test_search_in_a_browser(self, words: str, site: Path) -> None:
        handler = functools.partial(Quiet, directory=str(site))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page, _, query = words.partition("=")
            shown = subprocess.run(
                [
                    *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu"),
                    *("--virtual-time-budget=30000", "--dump-dom"),
                    f"http://127.0.0.1:{server.server_port}/{page}={quote(query)}",
                ],
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            ).stdout
            server.shutdown()
        assert len(re.findall(r'<li class="kind-', shown)) >= 3

    def test_lines_of_chinese_are_joined_and_code_is_not(self, site: Path) -> None:
        """So that no space stands where a line of the source ends."""
        for page in PAGES:
            shown = re.sub(
                r"<pre>.*?</pre>", "", (site / "zh" / page).with_suffix(".html").read_text(), flags=re.DOTALL
            )
            assert not re.search(r"[\u4e00-\u9fff\u3001\u3002\uff0c\uff1a\uff1b]\n[\u4e00-\u9fff]", shown), (
                page
            )
        text = re.sub(
            r"<[^>]+>", "", (site / "zh" / "tutorials" / "siamese.html").read_text(encoding="utf-8")
        )
        assert "…\nwrote twin/model.py\nwrote twin/model.ckpt\n" in text

    def test_no_part_is_left_ungenerated(self, site: Path) -> None:
        for page in ("commands", "codes", "passes", "api", "operators", "coverage"):
            text = (site / "en" / "reference" / f"{page}.html").read_text(encoding="utf-8")
            assert "% generated" not in text
            assert len(re.sub(r"<[^>]+>", "", text)) > 3000, page
