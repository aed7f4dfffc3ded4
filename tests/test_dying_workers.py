"""A run of the tests ends when a worker dies, and is red: groups of pytest-xdist may wait for it for ever."""

import os
import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).resolve().parent.parent / "pyproject.toml"

TESTS = """
import os, signal, time
import pytest

@pytest.mark.parametrize("number", range(3))
def test_before(number): ...

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(3))
def test_shared(number): ...

def test_dies():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("number", range(3))
def test_after(number): ...
"""


def test_a_worker_that_dies_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", str(SETTINGS), "--rootdir", str(tmp_path)),
            *("-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", str(tmp_path)),
        ],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "crashed while running" in done.stdout
