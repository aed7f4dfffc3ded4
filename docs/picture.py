"""Make the README's pictures of a report, in both languages: `python docs/picture.py`; it needs chromium.

The comparison is the README's own: a port that computes the same and starts from other distributions.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
COMPARED = (
    "cifar_resnet_torch.py:small",
    "cifar_resnet_mindspore.py:small",
    "--input",
    "2x3x32x32",
    "--train",
)
SIZE = (1280, 800)
QUALITY = 82
LANGUAGES = ("en", "zh")


def write_report(folder: Path, language: str) -> Path:
    """Write the report of the comparison, whose exit code 1 says that the nets differ."""
    page = folder / f"report-{language}.html"
    command = [sys.executable, "-m", "regraft", "verify", *COMPARED, "--html", page, "--lang", language]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        sys.exit(f"expected a report of two nets that differ, got {done.returncode}: {done.stderr}")
    return page


def photograph(page: Page, report: Path, picture: Path) -> None:
    """Write what the browser shows of a report as WebP, which playwright itself does not write."""
    page.goto(report.as_uri())
    page.wait_for_timeout(1500)  # the nets are laid out
    devtools = page.context.new_cdp_session(page)
    taken = devtools.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    picture.write_bytes(base64.b64decode(taken["data"]))
    print(f"wrote {picture}: {picture.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Make the picture of each language."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if chromium is None:
        sys.exit("expected chromium to be installed, got none\nhint: make browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        view = {"width": SIZE[0], "height": SIZE[1]}
        for language in LANGUAGES:
            page = browser.new_page(viewport=view, color_scheme="light", device_scale_factor=1)
            photograph(
                page, write_report(Path(folder), language), HERE / "static" / f"report-{language}.webp"
            )
        browser.close()


if __name__ == "__main__":
    main()
