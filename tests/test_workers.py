"""What the suite relies on of pytest-xdist: groups stay together, and a run whose worker dies ends."""

import os
import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).resolve().parent.parent / "pyproject.toml"

DIES = """
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

GROUPED = """
import os, time
import pytest

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_shared(number):
    time.sleep(0.05)
    with open({said!r}, "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)

@pytest.mark.parametrize("number", range(6))
def test_alone(number):
    time.sleep(0.05)
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests as `make test` does."""
    (folder / "test_some.py").write_text(tests)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", str(SETTINGS), "--rootdir", str(folder)),
            *("-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", str(folder)),
        ],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_worker_that_dies_ends_the_run(tmp_path: Path) -> None:
    """Groups may else wait for it for ever."""
    done = run(tmp_path, DIES)
    assert done.returncode == 1, done.stdout
    assert "crashed while running" in done.stdout


def test_a_group_runs_in_one_worker(tmp_path: Path) -> None:
    """Torn apart, as under pytest 9.2, what tests share is made in each worker: 45 minutes instead of 27."""
    done = run(tmp_path, GROUPED.format(said=str(tmp_path / "workers")))
    assert done.returncode == 0, done.stdout
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1
