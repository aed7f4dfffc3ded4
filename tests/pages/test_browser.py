"""Pages in a real browser: what is drawn, keyboard, dark, Chinese, sizes, and names that do nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regraft
from regraft.api.pages import write_page
from regraft.commands.sweeping import Row, added, write_tables
from regraft.ir import parse
from regraft.verification import ModuleRow, OutputRow, Report

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
SIZES = [(390, 844), (1024, 768), (1920, 1080)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("NOT TESTED: no chromium on this machine (`make browser` installs Debian's)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="NOT TESTED: no playwright (make sets it up)"
    )
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM)
        yield running
        running.close()


@dataclass
class Opened:
    """A page with what it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def run(self, code: str) -> Any:
        return self.page.evaluate(code)


@pytest.fixture
def show(browser: Any) -> Iterator[Any]:
    contexts = []

    def show(path: Path, size: tuple[int, int] = (1280, 900), scheme: str = "light") -> Opened:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.complaints.append("a dialog"), dialog.dismiss()))
        opened.page.goto(path.as_uri())
        opened.page.wait_for_selector("html[data-ready]", timeout=30_000)
        return opened

    yield show
    for context in contexts:
        context.close()


SELECTED = "document.activeElement.closest('.panel') && document.activeElement.__data__.data.key"


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_it_fits_a_screen_and_reaches_for_nothing(page: Path, show: Any, size: tuple[int, int]) -> None:
    opened = show(page, size)
    assert opened.requests == [page.as_uri()]
    assert opened.complaints == []
    assert opened.run("document.documentElement.scrollWidth") <= size[0]
    assert len(opened.page.screenshot(full_page=True)) > 50_000
    header = opened.page.locator("header").bounding_box()
    assert header["y"] + header["height"] < size[1] * 0.75, "the verdict is what a reader sees first"


def test_the_verdict_the_cause_and_the_place_are_there(compared: dict[str, Any], show: Any) -> None:
    opened = show(compared["en"])
    assert opened.text("h1") == "✗Different"
    assert compared["report"].summary() in opened.text("header")
    assert "epsilon" in opened.text("#causes pre")
    assert opened.count("figure circle.failed") > 0
    assert opened.count("#distributions figure") == 12
    panels = opened.page.locator("#structure svg[role=tree]")
    assert panels.count() == 2
    assert (
        panels.nth(0).locator("[role=treeitem]").count() == panels.nth(1).locator("[role=treeitem]").count()
    )


def test_modules_of_one_class_are_folded_and_the_wrong_one_is_red(page: Path, show: Any) -> None:
    opened = show(page)
    opened.run("trees.openAll(true)")
    labels = (
        opened.page.locator("#structure svg")
        .first.locator("[role=treeitem]")
        .evaluate_all(
            "items => items.map(i => [i.ariaLabel, i.querySelector('circle').getAttribute('fill')])"
        )
    )
    assert any(label.startswith("0 … 3, Block \u00d7 4") for label, _ in labels)
    fill = {label.split(",")[0]: colour for label, colour in labels}
    red, green = fill["blocks.2.norm"], fill["blocks.0.norm"]
    assert red != green
    channels = [int(c) for c in red[4:-1].split(",")]
    assert channels[0] > 2 * channels[2], f"{red} is no red"


def test_the_keyboard_alone_opens_closes_and_follows_pairs(page: Path, show: Any) -> None:
    opened = show(page)
    for _ in range(40):
        opened.page.keyboard.press("Tab")
        if opened.run(SELECTED) is not None:
            break
    assert opened.run(SELECTED) == ""
    press = opened.page.keyboard.press
    for key, expected in [
        ("ArrowDown", "stem"), ("ArrowDown", "blocks"), ("ArrowRight", "blocks"),
        ("ArrowRight", "blocks.0 …"),
        ("ArrowRight", "blocks.0 …"), ("ArrowDown", "blocks.0"), ("ArrowLeft", "blocks.0 …"),
        ("ArrowLeft", "blocks.0 …"), ("ArrowLeft", "blocks"), ("End", "spare"), ("Home", ""),
    ]:  # fmt: skip
        press(key)
        assert opened.run(SELECTED) == expected, key
    press("ArrowDown")
    selected = opened.page.locator("#structure .item.selected")
    assert [label.split(",")[0] for label in selected.evaluate_all("i => i.map(e => e.ariaLabel)")] == [
        "stem"
    ] * 2
    assert opened.page.locator("[role=treeitem][tabindex='0']").count() == 2, "one stop of Tab for each tree"
    press("Enter")
    assert "stem" in opened.text("#flow h3")
    assert "Conv" in opened.page.locator("#flow .box.op").first.text_content()


def test_dataflow_has_types_on_its_edges_and_leads_deeper(page: Path, show: Any) -> None:
    opened = show(page)
    edges = opened.page.locator("#flow .panel").first.locator(".edge text").all_text_contents()
    assert {"f32[N,3,6,6]", "f32[N,4,6,6]", "f32[N,5]"} <= set(edges)
    opened.page.locator("#flow .box.call").filter(has_text="blocks").first.focus()
    opened.page.keyboard.press("Enter")
    opened.page.locator("#flow .box.call").first.press("Enter")
    assert opened.text("#flow h3").endswith("blocks \u203a 0")
    boxes = opened.page.locator("#flow .panel").first.locator(".box").all_text_contents()
    assert any("Add" in box for box in boxes)
    assert any("BatchNorm2d" in box for box in boxes)


def test_the_table_sorts_and_filters(page: Path, show: Any) -> None:
    opened = show(page)
    first = opened.page.locator("#rows tbody tr").first
    opened.page.locator("#rows th button").filter(has_text="largest error").click()
    assert opened.count("#rows th[aria-sort=descending]") == 1
    errors = opened.run(
        "[...document.querySelectorAll('#rows tbody tr')].map(r => r.__data__[2]).filter(e => e !== null)"
    )
    assert errors == sorted(errors, reverse=True)
    opened.page.locator("#rows input[type=search]").fill("blocks.2.NORM")
    assert first.locator("td").first.inner_text() == "blocks.2.norm#1"
    opened.page.locator("#rows input[type=search]").fill("")
    opened.page.locator("#rows input[type=checkbox]").check()
    assert opened.count("#rows tbody tr") == opened.count("#rows tbody tr.failed") > 0
    opened.page.locator("#rows [role=tab]").first.press("ArrowRight")
    assert opened.text("#rows [role=tab][aria-selected=true]").startswith("Outputs")


def _brightness(colour: str) -> float:
    return sum(map(int, colour[colour.index("(") + 1 : -1].split(",")[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_both_readable(page: Path, show: Any, scheme: str) -> None:
    opened = show(page, scheme=scheme)
    style = "getComputedStyle(document.body)"
    back, ink = (_brightness(opened.run(f"{style}.{name}")) for name in ("backgroundColor", "color"))
    assert (back < 60) == (scheme == "dark")
    assert abs(back - ink) > 150
    assert (
        abs(_brightness(opened.run("getComputedStyle(document.querySelector('svg text')).fill")) - back) > 80
    )


def test_in_chinese(compared: dict[str, Any], show: Any) -> None:
    opened = show(compared["zh"])
    assert opened.complaints == []
    assert opened.run("document.documentElement.lang") == "zh"
    assert opened.text("h1").endswith("不一致")
    assert {"网络结构", "数据流", "权重与初始化分布"} <= set(opened.page.locator("h2").all_inner_texts())
    wide, narrow = (
        opened.run(f"(() => {{ const c = document.createElement('canvas').getContext('2d'); c.font = "
                   f"getComputedStyle(document.body).font; return c.measureText('{text}').width }})()")
        for text in ("网络", "ii")
    )  # fmt: skip
    assert wide > 2 * narrow


HOSTILE = "</script><img src=x onerror=document.title='owned'><b>\u202e\x1b[31m\"'`${1}&lt;"


def test_hostile_names_do_nothing(compared: dict[str, Any], show: Any, tmp_path: Path) -> None:
    source = compared["source"].copy()
    for module in source.modules:
        module.class_name = HOSTILE
    for parameter in source.parameters():
        parameter.name = HOSTILE
    source.outputs = [(HOSTILE, value) for _, value in source.outputs]
    for node in source.input_nodes():
        node.name = HOSTILE
    source.origin.reference = f"x.py:{HOSTILE}"
    source.origin.notes.append(HOSTILE)
    report = Report(
        HOSTILE, HOSTILE, HOSTILE,
        [OutputRow(HOSTILE, HOSTILE, (2, 5), float("nan"), float("inf"), 0.0, False, HOSTILE)],
        [ModuleRow("stem#1", HOSTILE, float("inf"), 1.0, 1e-6, passed=False, reason=HOSTILE),
         ModuleRow(f"{HOSTILE}#1", HOSTILE, reason=HOSTILE)],
        HOSTILE, [HOSTILE], unproven={HOSTILE: HOSTILE},
    )  # fmt: skip
    for lang in ("en", "zh"):
        path = write_page(tmp_path / "page.html", source, source, report, lang=lang)
        opened = show(path)
        opened.run("trees.openAll(true)")
        assert opened.requests == [path.as_uri()]
        assert opened.complaints == []
        assert opened.count("img") == opened.count("main b") == 0
        assert "owned" not in opened.page.title() or "onerror" in opened.page.title()
        assert "onerror=document.title" in opened.text("#notes li")
        assert "\u202e" not in opened.run("document.documentElement.innerHTML")


def test_no_other_script_may_run(page: Path, show: Any) -> None:
    opened = show(page)
    opened.run(
        "const script = document.createElement('script');"
        "script.text = 'window.ran = 1';"
        "document.body.append(script)"
    )
    opened.run("document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"ran = 1\">')")
    opened.page.wait_for_timeout(100)
    assert opened.run("window.ran") is None
    sent = opened.run("fetch('https://example.org').then(() => 'sent', () => 'refused')")
    assert sent == "refused"
    assert any("Content Security Policy" in line for line in opened.complaints)


def test_a_net_alone_has_a_page(compared: dict[str, Any], show: Any, tmp_path: Path) -> None:
    opened = show(write_page(tmp_path / "net.html", compared["source"]))
    assert opened.complaints == []
    assert opened.count("#structure svg[role=tree]") == 1
    assert opened.count("#rows") == 0
    assert opened.count("#flow .box") > 3


FLAT = """
graph main {
  %x = input "x" : f32[N,4]
  %w = param "w" : f32[4,2]
  %y = MatMul(%x, %w) : f32[N,2]
  return "y" = %y
}
"""


@pytest.mark.parametrize("kind", ["a symbol", "a static tree", "no modules"])
def test_every_kind_of_graph_is_drawn(show: Any, tmp_path: Path, kind: str) -> None:
    if kind == "a symbol":
        symbol = Path(__file__).resolve().parents[2] / "examples" / "shared_weight-symbol.json"
        graph = regraft.load(str(symbol), {"data": "1x1x3x3"})
    else:
        graph = parse(FLAT) if kind == "no modules" else regraft.load_tree(torch.nn.LSTM(2, 3))
    opened = show(write_page(tmp_path / "net.html", graph))
    assert opened.complaints == []
    assert (opened.count("#flow .box") > 0) == (kind != "a static tree")
    assert (opened.count("#structure [role=treeitem]") > 0) == (kind != "no modules")


def test_each_call_of_a_module_has_its_dataflow(show: Any, tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv1d(4, 4, 1)

        def forward(self, x):
            return self.layer(self.layer(x)[..., :3])

    graph = regraft.load(Twice().eval(), ["2x4x5"])
    opened = show(write_page(tmp_path / "net.html", graph))
    opened.run("flow.show('source', 'layer')")
    shown = []
    for _ in range(3):
        shown.append(
            (
                opened.text("#flow .panel .bar span"),
                opened.page.locator("#flow .edge text").first.text_content(),
            )
        )
        opened.page.locator("#flow .panel .bar button").nth(1).click()
    first, second, third = shown
    assert first == third == ("call 1 of 2", "f32[N,4,5]")
    assert second == ("call 2 of 2", "f32[N,4,3]")


def test_trees_zoom_by_keys_and_stay_in_their_panels(page: Path, show: Any) -> None:
    opened = show(page)
    height = "document.querySelector('#structure svg').getBoundingClientRect().height"
    opened.page.locator("[role=treeitem]").first.focus()
    before = opened.run(height)
    opened.page.keyboard.press("+")
    assert opened.run(height) == pytest.approx(1.2 * before, abs=0.1)
    for _ in range(3):
        opened.page.keyboard.press("-")
    assert opened.run(height) < before
    opened.page.keyboard.press("0")
    assert opened.run(height) == pytest.approx(before, abs=0.1)
    assert opened.run("document.documentElement.scrollWidth") <= 1280


@pytest.mark.slow
def test_a_large_net_opens_in_two_seconds(show: Any, tmp_path: Path) -> None:
    model = f"{Path(__file__).resolve().parents[2] / 'examples' / 'transformer.py'}:TransformerClassifier"
    graph = regraft.load(model, ["2x16:int64"], arguments={"depth": 60})
    assert len(list(graph.modules)) > 500
    names = graph.modules.call_names()
    rows = [ModuleRow(name, "Linear", 1e-7, 1e-7, 1e-6, 1e-7, True, True) for name in names.values()]
    report = Report("a", "b", "", [OutputRow("y", "N=2", (2, 5), 0.0, 0.0, 0.0, True)], rows)
    path = write_page(tmp_path / "large.html", graph, graph, report)
    assert path.stat().st_size < 4_000_000
    opened = show(path)
    assert int(opened.run("document.documentElement.dataset.ready")) < 2000
    assert opened.run("performance.memory.usedJSHeapSize") < 100e6


def test_the_table_of_a_sweep_sorts_and_searches(browser: Any, tmp_path: Path) -> None:
    rows = [
        Row(f"网络{at}", "onnx", "equal" if at % 9 else "refused", "不支持 <b>" * (not at % 9), cpu=at % 50)
        for at in range(3000)
    ]
    history = added(added([], [replace(row, verdict="different") for row in rows], "1"), rows, "2")
    worse = [replace(rows[70], verdict="equal", detail=""), replace(rows[72], verdict="equal", detail="")]
    write_tables(tmp_path, rows, worse, title="动物园", history=history)
    page, complaints = browser.new_page(viewport={"width": 1280, "height": 900}), []
    page.set_default_timeout(10_000)  # one that takes the square of the rows takes longer
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "table.html").as_uri())

    def shown() -> list[str]:
        return page.eval_on_selector_all(
            ".cases tbody tr", "rows => rows.filter(r => !r.hidden).map(r => r.cells[0].textContent)"
        )

    assert page.inner_text("h1") == "动物园"
    given = shown()
    assert given[0] == "网络72"  # the regression
    for expected in ("网络0", "网络2999", given[0]):
        page.click("th button >> text=model")
        assert shown()[0] == expected
    assert shown() == given
    for _ in range(2):
        page.click("th button >> text=CPU s")
    assert shown()[0] == "网络2999"
    page.fill("input", "网络27 REFUSED")
    assert set(shown()) == {
        f"网络{at}" for at in (27, 270, 279, 2700, 2709, 2718, 2727, 2736, 2745, 2754)
    } | {f"网络{at}" for at in (2763, 2772, 2781, 2790, 2799)}
    page.fill("input", "different")  # in the trend alone
    assert shown() == []
    assert complaints == []
    page.close()
