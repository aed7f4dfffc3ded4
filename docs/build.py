"""Build the site in both languages: `python docs/build.py [FOLDER]`; a warning is an error."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LANGUAGES = ("en", "zh")


def build(folder: Path) -> str:
    """Build both languages side by side, and a first page that chooses one.

    Args:
        folder: where the site goes.

    Returns:
        What Sphinx complained of; empty where the site is as it should be.
    """
    running = {
        language: subprocess.Popen(
            [
                *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-E"),
                *("-d", folder / ".trees" / language, HERE / language, folder / language),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for language in LANGUAGES
    }
    complaints = []
    for language, process in running.items():
        printed, _ = process.communicate()
        if process.returncode or printed.strip():
            complaints.append(f"{language}: exit code {process.returncode}\n{printed}")
    shutil.copy(HERE / "choose_language.html", folder / "index.html")
    return "\n".join(complaints)


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "out/site").resolve()
    sys.exit(build(where) or None)
