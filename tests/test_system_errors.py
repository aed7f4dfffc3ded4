"""What the system refuses: full disks, limits, permissions, odd paths. One error, and nothing left."""

import errno
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from regraft.cli import main
from regraft.ir import ModelError, UsageError, system_errors_told

from .corpora.mxnet.cases import save_params

SMALL = 64 << 10


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def symbol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net whose weights take 128 kB."""
    folder = tmp_path_factory.mktemp("symbol")
    nodes = [
        {"op": "null", "name": "data", "attrs": {"__shape__": "(1, 64)"}, "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "FullyConnected",
            "name": "fc",
            "attrs": {"num_hidden": "512", "no_bias": "True"},
            "inputs": [[0, 0], [1, 0]],
        },
    ]
    (folder / "n-symbol.json").write_text(json.dumps({"nodes": nodes, "heads": [[2, 0]]}))
    draw = np.random.default_rng(0)
    save_params(folder / "n-0000.params", {"arg:w": draw.standard_normal((512, 64)).astype(np.float32)})
    return folder / "n-symbol.json"


@pytest.fixture(scope="module")
def map_(symbol: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("map")
    assert invoke("rewrite", symbol, "-o", folder / "n.onnx", "--no-verify").exit_code == 0
    return folder / "n.renames.json"


@pytest.fixture
def disk(tmp_path: Path):
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


TARGETS = {
    "onnx": ("n.onnx", []),
    "mxnet": ("net", ["--to", "mxnet"]),
    "mindspore": ("net", ["--to", "mindspore"]),
    "safetensors": ("net", ["--to", "mindspore", "--checkpoint-format", "safetensors"]),
}


def assert_refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.output.count("error E002 ") == 1, result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.output, result.output


def assert_empty(folder: Path) -> None:
    left = list(folder.rglob("*"))
    assert not left, left


class TestFullDisk:
    @pytest.mark.parametrize("target", TARGETS)
    def test_output(self, target: str, symbol: Path, disk: Path) -> None:
        name, options = TARGETS[target]
        result = invoke("rewrite", symbol, "-o", disk / name, "--no-verify", *options)
        assert_refused(result, "no space left on device", "free space")
        assert_empty(disk)

    def test_output_that_was_verified(self, symbol: Path, disk: Path) -> None:
        result = invoke("rewrite", symbol, "-o", disk / "n.onnx")
        assert_refused(result, "no space left on device")
        assert_empty(disk)

    def test_temporary_files_do_not_matter(
        self, symbol: Path, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is compared before it is kept lies beside the output, not in TMPDIR."""
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        result = invoke("rewrite", symbol, "-o", tmp_path / "out" / "n.onnx")
        assert result.exit_code == 0, (result.output, result.exception)
        assert_empty(disk)

    @pytest.mark.parametrize("suffix", ["pth", "safetensors", "ckpt", "params"])
    def test_checkpoint(self, suffix: str, symbol: Path, map_: Path, disk: Path) -> None:
        given = symbol.with_name("n-0000.params")
        result = invoke("convert-checkpoint", given, disk / f"x.{suffix}", "--map", map_)
        assert_refused(result, "no space left on device")
        assert_empty(disk)

    def test_certificate(self, symbol: Path, disk: Path) -> None:
        result = invoke("certify", symbol, symbol, "-o", disk / "c.json")
        assert_refused(result, "no space left on device")
        assert_empty(disk)

    def test_without_a_byte_left(self, symbol: Path, disk: Path) -> None:
        (disk / "fill").write_bytes(b"0" * SMALL)
        result = invoke("rewrite", symbol, "-o", disk / "n.onnx", "--no-verify")
        assert_refused(result, "No space left on device")
        assert [p.name for p in disk.iterdir()] == ["fill"]

    def test_what_was_there_is_kept(self, symbol: Path, disk: Path) -> None:
        (disk / "n.onnx").write_bytes(b"mine")
        result = invoke("rewrite", symbol, "-o", disk / "n.onnx", "--force")
        assert_refused(result, "no space left on device")
        assert (disk / "n.onnx").read_bytes() == b"mine"
        assert [p.name for p in disk.rglob("*")] == ["n.onnx"]


@pytest.mark.parametrize("target", ["onnx", "mxnet"])
def test_limit_on_the_size_of_files(target: str, symbol: Path, tmp_path: Path) -> None:
    """`ulimit -f`, in a process of its own."""
    name, options = TARGETS[target]
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", "from regraft.cli import run; run()", "rewrite", symbol, "-o", out / name,
         "--no-verify", *options],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error E002 ") == 1
    assert "file too large" in done.stderr
    assert not out.exists()


def test_standard_output_that_is_full() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from regraft.cli import run; run()", "passes"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count("error E002 ") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "model", "code"), [(">&-", "", 0), ("<&- >&- 2>&-", "", 0), ("2>&-", "none", 2)]
)
def test_standard_streams_that_are_closed(
    closed: str, model: str, code: int, symbol: Path, tmp_path: Path
) -> None:
    """Nothing that is printed gets into a file that has their number instead."""
    command = [sys.executable, "-m", "regraft", "rewrite", f"{symbol}{model}", "-o", str(tmp_path / "n.onnx")]
    told = subprocess.run(
        ["/bin/sh", "-c", f"{shlex.join(command)} {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout, told.stderr) == (code, "", "")
    assert (tmp_path / "n.onnx").exists() == (code == 0)


class TestPaths:
    @pytest.mark.parametrize("target", TARGETS)
    def test_output_inside_a_file(self, target: str, symbol: Path, tmp_path: Path) -> None:
        name, options = TARGETS[target]
        (tmp_path / "file").write_text("mine")
        assert_refused(invoke("rewrite", symbol, "-o", tmp_path / "file" / name, "--no-verify", *options))
        assert [p.name for p in tmp_path.rglob("*")] == ["file"]

    @pytest.mark.parametrize("target", TARGETS)
    def test_name_that_is_too_long(self, target: str, symbol: Path, tmp_path: Path) -> None:
        name, options = TARGETS[target]
        out = tmp_path / ("a" * 300 + Path(name).suffix)
        assert_refused(invoke("rewrite", symbol, "-o", out, "--no-verify", *options), "file name too long")
        assert_empty(tmp_path)

    @pytest.mark.parametrize("target", TARGETS)
    def test_links_that_lead_nowhere(self, target: str, symbol: Path, tmp_path: Path) -> None:
        name, options = TARGETS[target]
        (tmp_path / "round").symlink_to("round")
        assert_refused(invoke("rewrite", symbol, "-o", tmp_path / "round" / name, "--no-verify", *options))
        assert [p.name for p in tmp_path.rglob("*")] == ["round"]

    @pytest.mark.parametrize("target", ["onnx", "mxnet", "mindspore"])
    def test_file_system_that_takes_nothing(self, target: str, symbol: Path) -> None:
        name, options = TARGETS[target]
        assert_refused(invoke("rewrite", symbol, "-o", Path("/proc/1") / name, "--no-verify", *options))

    def test_directory_of_the_name_of_the_output(self, symbol: Path, tmp_path: Path) -> None:
        (tmp_path / "n.onnx").mkdir()
        for more in ([], ["--force"]):
            assert_refused(invoke("rewrite", symbol, "-o", tmp_path / "n.onnx", "--no-verify", *more))
        assert [p.name for p in tmp_path.rglob("*")] == ["n.onnx"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_folder_that_may_not_be_written(self, symbol: Path, tmp_path: Path) -> None:
        (tmp_path / "shut").mkdir(mode=0o500)
        result = invoke("rewrite", symbol, "-o", tmp_path / "shut" / "n.onnx", "--no-verify")
        assert_refused(result, "permission")

    @pytest.mark.parametrize("name", ["x-symbol.json", "x.pt2", "x.py:Net"])
    def test_models_of_impossible_names(self, name: str, tmp_path: Path) -> None:
        for stem in ("a" * 300, "round/a"):
            (tmp_path / "round").unlink(missing_ok=True)
            (tmp_path / "round").symlink_to("round")
            result = invoke("show", tmp_path / (stem + name), "--input", "1x1")
            assert result.exit_code == 2, (result.output, result.exception)
            assert result.output.count("error E") == 1

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/stdin", "/dev/null"])
    def test_devices_are_no_files(self, device: str, symbol: Path, tmp_path: Path) -> None:
        for suffix in ("-symbol.json", ".safetensors", ".pth", ".params", ".ckpt"):
            link = tmp_path / f"x{suffix}"
            link.symlink_to(device)
            command = ("show", link) if suffix == "-symbol.json" else ("diff", link, link)
            result = invoke(*command)
            assert result.exit_code == 2, (result.output, result.exception)
            assert "E101" in result.output
        assert invoke("show", symbol, "--params", device).exit_code == 2


@pytest.mark.parametrize(
    ("number", "word"), [(errno.EDQUOT, "quota"), (errno.EROFS, "read-only"), (errno.EACCES, "permission")]
)
def test_every_reason_is_told(number: int, word: str) -> None:
    """Those that a test cannot bring about: a quota, a read-only disk."""
    with pytest.raises(UsageError, match=f"(?i){word}") as caught, system_errors_told():
        raise OSError(number, os.strerror(number), "out/x.onnx")
    assert caught.value.code == "E002"
    assert "out/x.onnx" in str(caught.value)
    assert caught.value.hint


def test_memory_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="memory") as caught, system_errors_told():
        raise MemoryError("Unable to allocate 36 TiB")
    assert caught.value.code == "E106"


def test_a_reader_that_stops_reading_is_no_fault_of_the_model(symbol: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "regraft", "check", str(symbol)]
        ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")
