"""What is shipped: a wheel and an sdist that work outside the checkout, the GitHub Action, the hook."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "check": False, **options}
    return subprocess.run([str(word) for word in command], **given)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the sdist, and so from nothing that the sdist has not."""
    folder = tmp_path_factory.mktemp("dist")
    tree = folder / "tree"
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT
    ).stdout.splitlines()
    assert listed, "the checkout's files are listed by git"
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    build = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1]))"
    made = run(sys.executable, "-c", build.format("sdist"), folder, cwd=tree)
    assert made.returncode == 0, made.stderr
    sdist = folder / made.stdout.split()[-1]
    with tarfile.open(sdist) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
        archive.extractall(folder / "unpacked", **safely)
    (source,) = (folder / "unpacked").iterdir()
    made = run(sys.executable, "-c", build.format("wheel"), folder, cwd=source)
    assert made.returncode == 0, made.stderr
    return folder / made.stdout.split()[-1]


@pytest.mark.slow
def test_the_wheel_works_outside_a_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    assert run(sys.executable, "-m", "venv", tmp_path / "env").returncode == 0
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("*/site-packages")
    # what regraft depends on, shared; a path in a .pth file brings no .pth files, so no editable install
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, env=environment)
    assert done.returncode == 0, done.stderr
    work = tmp_path / "work"
    work.mkdir()
    for path in SYMBOL.parent.glob("shared_weight-*"):
        shutil.copy(path, work)
    regraft = tmp_path / "env" / "bin" / "regraft"
    found = run(python, "-c", "import regraft; print(regraft.__file__)", cwd=work, env=environment)
    assert found.stdout.startswith(str(site)), found.stdout + found.stderr
    assert PROJECT["version"] in run(regraft, "--version", cwd=work, env=environment).stdout
    given = ("shared_weight-symbol.json", "--input", "data=1x1x3x3")
    for target in ("out.onnx", "out"):
        done = run(
            regraft,
            "rewrite",
            *given,
            "-o",
            target,
            "--to",
            "onnx" if "." in target else "mxnet",
            cwd=work,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (
        run(regraft, "verify", *given[:1], "out.onnx", *given[1:], cwd=work, env=environment).returncode == 0
    )
    assert "Cause:" in run(regraft, "explain", "E701", cwd=work, env=environment).stdout
    assert "原因:" in run(regraft, "explain", "E701", "--lang", "zh", cwd=work, env=environment).stdout


def test_the_version_is_one() -> None:
    import regraft

    assert regraft.__version__ == PROJECT["version"]
    assert f"version: {regraft.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_no_page_is_named_that_is_not_there() -> None:
    assert "urls" not in PROJECT


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "docs/CONTRIBUTING.md", "docs/SECURITY.md"])
def test_documents_name_files_that_are_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:docs|tests|examples|api)/[\w./-]*\w(?:\.\w+)?/?)`", text):
        assert (ROOT / path).exists(), path


class TestAction:
    def act(self, tmp_path: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str]:
        """Run the action's script as GitHub would, with this Python's regraft."""
        (tmp_path / "bin").mkdir(exist_ok=True)
        command = tmp_path / "bin" / "regraft"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regraft "$@"\n')
        command.chmod(0o755)
        summary = tmp_path / "summary.md"
        summary.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(summary),
            **inputs,
        }
        done = run("bash", ROOT / ".ci" / "action", env=environment, cwd=tmp_path)
        return done, summary.read_text()

    @pytest.mark.slow
    def test_check_and_verify_are_in_the_summary(self, tmp_path: Path) -> None:
        inputs = {"MODEL": str(SYMBOL), "INPUT": "data=1x1x3x3\n", "TARGET": str(SYMBOL), "BASE": str(SYMBOL)}
        done, summary = self.act(tmp_path, **inputs)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "### `regraft check`: clean" in summary
        assert "### `regraft verify`: equal" in summary
        assert "### `regraft diff`: equal" in summary

    def test_what_fails_fails_the_job_and_no_text_is_a_command(self, tmp_path: Path) -> None:
        done, summary = self.act(tmp_path, MODEL="$(touch pwned)`touch pwned`.json", TARGET="")
        assert done.returncode == 2
        assert "### `regraft check`: failed" in summary
        assert not (tmp_path / "pwned").exists()

    def test_its_inputs_reach_the_script_as_environment_only(self) -> None:
        text = (ROOT / ".ci" / "action.yml").read_text()
        scripts = re.findall(r"^ +run: (.*)$", text, re.MULTILINE)
        assert scripts
        assert not any("${{" in line for line in scripts)


def test_the_hook_names_options_that_there_are() -> None:
    from regraft.cli import main

    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    (entry,), (arguments,) = re.findall(r"entry: (.*)", text), re.findall(r"args: \[(.*)\]", text)
    command = main.commands[entry.split()[1]]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word.strip() for word in arguments.split(",")} <= known


FRAMEWORK_GONE = """
import sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == gone:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

gone = sys.argv[1]
sys.meta_path.insert(0, Gone())
sys.argv = ["regraft", *sys.argv[2:]]
from regraft.cli import run
run()
"""


def without(framework: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line where a framework is not installed."""
    return run(sys.executable, "-c", FRAMEWORK_GONE, framework, *arguments, cwd=cwd)


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.dense(x)
"""


@pytest.mark.slow
class TestWithOneFrameworkOnly:
    @pytest.fixture
    def net(self, tmp_path: Path) -> Path:
        (tmp_path / "net.py").write_text(NET)
        return tmp_path

    def test_torch_without_mindspore(self, net: Path) -> None:
        given = ("net.py:Net", "--input", "2x4")
        assert without("mindspore", "check", *given, cwd=net).returncode == 0
        done = without("mindspore", "rewrite", *given, "-o", "net.onnx", cwd=net)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_mindspore_source_without_mindspore_is_one_clear_error(self, net: Path) -> None:
        done = without(
            "mindspore", "rewrite", "net.py:Net", "--input", "2x4", "--to", "mindspore", "-o", "o", cwd=net
        )
        assert done.returncode == 2, done.stdout + done.stderr
        assert "E105" in done.stderr
        assert "regraft[mindspore]" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (net / "o").exists()

    def test_mxnet_with_neither(self, tmp_path: Path) -> None:
        done = without("torch", "check", SYMBOL, "--input", "data=1x1x3x3", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["clean"]
        done = without(
            "mindspore", "rewrite", SYMBOL, "--input", "data=1x1x3x3", "-o", "o.onnx", cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_torch_model_without_torch_is_one_clear_error(self, net: Path) -> None:
        done = without("torch", "check", "net.py:Net", cwd=net)
        assert done.returncode == 2
        assert "torch" in done.stderr
        assert "Traceback" not in done.stderr
