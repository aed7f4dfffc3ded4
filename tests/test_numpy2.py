"""One smoke test under NumPy 2, where MindSpore's first operation fails: regraft works all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NUMPY2 = Path(sys.prefix) / "numpy2"  # `make test` puts it there, beside the locked NumPy 1


def under_numpy2(*command: object) -> subprocess.CompletedProcess:
    if not NUMPY2.is_dir():
        pytest.fail(f"no NumPy 2 in {NUMPY2}: run `make test`, which puts it there")
    environment = {**os.environ, "PYTHONPATH": str(NUMPY2), "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"}
    return subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False
    )


def test_the_override_is_numpy_2() -> None:
    assert under_numpy2("-c", "import numpy; print(numpy.__version__)").stdout.startswith("2.")


@pytest.mark.slow
def test_rewrite_and_verify_from_mindspore(tmp_path: Path) -> None:
    model = f"{EXAMPLES / 'duplicate_names.py'}:DuplicateNames"
    done = under_numpy2(
        "-m", "regraft", "rewrite", model, "--input", "2x3x16x16", "--to", "mindspore", "-o", tmp_path / "out"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "NumPy 1.x" not in done.stderr
    assert (tmp_path / "out" / "model.ckpt").stat().st_size > 0


@pytest.mark.slow
def test_rewrite_and_verify_from_torch(tmp_path: Path) -> None:
    model = f"{EXAMPLES / 'transformer.py'}:TransformerClassifier"
    done = under_numpy2(
        "-m",
        "regraft",
        "rewrite",
        model,
        "--input",
        "2x16:int64",
        "--to",
        "mindspore",
        "-o",
        tmp_path / "out",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "NumPy 1.x" not in done.stderr
