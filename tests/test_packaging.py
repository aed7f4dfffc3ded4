"""What is shipped: a wheel and an sdist that work outside the checkout, the GitHub Action, the hook."""

import importlib.util
import io
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
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "check": False, **options}
    return subprocess.run([str(word) for word in command], **given)


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


DIST = imported(ROOT / "tests" / "tools" / "dist.py")
VERSIONS = imported(ROOT / "tests" / "tools" / "versions.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the sdist, and so from nothing that the sdist has not."""
    return DIST.build(tmp_path_factory.mktemp("dist"))[0]


def test_an_archive_says_nothing_of_when_and_where_it_was_made(tmp_path: Path) -> None:
    packed = []
    for seconds, names in ((1, ("b", "a")), (2, ("a", "b"))):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(f"regraft/{name}")
                member.size, member.mtime, member.uid, member.uname = 1, seconds, seconds, f"user{seconds}"
                member.mode = 0o600 + seconds
                archive.addfile(member, io.BytesIO(name.encode()))
        packed.append(DIST.normal_archive(made.getvalue(), 100))
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as archive:
        assert [(m.name, m.mtime, m.mode, m.uname) for m in archive] == [
            ("regraft/a", 100, 0o644, ""),
            ("regraft/b", 100, 0o644, ""),
        ]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "https://host/o/n/blob/v1",
            "![p](https://host/o/n/blob/v1/a.png?raw=true) [t](https://host/o/n/blob/v1/b.md)",
        ),
        ("", " t"),
    ],
)
def test_links_of_the_readme_lead_somewhere_from_an_index_of_packages(address: str, expected: str) -> None:
    outside = "[o](https://o.org) [h](#here)"
    assert DIST.page_of_index(f"![p](a.png) [t](b.md) {outside}", address) == f"{expected} {outside}"
    readme = DIST.page_of_index((ROOT / "README.md").read_text(encoding="utf-8"), address)
    assert not re.search(r"\]\((?!https://|#)", readme)


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


def test_the_change_log_has_the_version() -> None:
    text = (ROOT / "docs" / "CHANGELOG.md").read_text()
    released = re.search(
        rf"^## \[{re.escape(PROJECT['version'])}\] - (\d{{4}}-\d\d-\d\d)$", text, re.MULTILINE
    )
    assert released is not None
    assert f"date-released: {released[1]}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "docs/en/start.md", "docs/zh/start.md"])
def test_users_install_what_there_is(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    installed = re.findall(r"^pip install (?:\"regraft\[([\w,]+)\]\"|(regraft)) ", text, re.MULTILINE)
    assert ("", "regraft") in installed
    extras = {extra for asked, _ in installed for extra in asked.split(",") if extra}
    assert extras >= {"torch", "mindspore"}
    assert extras <= set(PROJECT["optional-dependencies"])


class TestWorkflows:
    FOLDER = ROOT / ".github" / "workflows"

    def jobs(self, name: str) -> dict[str, dict[str, object]]:
        return yaml.safe_load((self.FOLDER / name).read_text())["jobs"]

    @pytest.mark.parametrize("name", ["release.yml", "site.yml", "versions.yml"])
    def test_no_secret_and_no_expression_in_a_script(self, name: str) -> None:
        text = (self.FOLDER / name).read_text()
        assert "secrets." not in text
        for job in self.jobs(name).values():
            assert all("${{" not in str(step.get("run", "")) for step in job["steps"])
            for step in job["steps"]:  # a target of make that there is
                for target in re.findall(r"make ([\w-]+)", str(step.get("run", ""))):
                    assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target

    def test_a_release_is_tested_before_it_is_published_by_trust(self) -> None:
        document = yaml.safe_load((self.FOLDER / "release.yml").read_text())
        assert document[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
        assert document["permissions"] == {"contents": "read"}
        jobs = document["jobs"]
        assert jobs["publish"]["needs"] == ["test", "build"]
        assert jobs["publish"]["permissions"] == {"id-token": "write"}
        assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
        assert not any("actions/checkout" in str(step.get("uses")) for step in jobs["publish"]["steps"])

    def test_every_environment_is_a_job(self) -> None:
        matrix = self.jobs("versions.yml")["smoke"]["strategy"]["matrix"]
        assert matrix["environment"] == list(VERSIONS.ENVIRONMENTS)


class TestVersions:
    def test_the_oldest_are_the_bounds(self) -> None:
        asked = VERSIONS.requirements(VERSIONS.ENVIRONMENTS["oldest"])
        bounds = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["torch"]]
        for bound in bounds:
            assert bound.partition(",")[0].replace(">=", "==") in asked

    def test_pins_go_before_bounds(self) -> None:
        asked = VERSIONS.requirements(VERSIONS.ENVIRONMENTS["numpy-2"])
        assert "numpy>=2" in asked
        assert not any(text.startswith("mindspore") for text in asked)
        assert "numpy<2" in VERSIONS.requirements(VERSIONS.ENVIRONMENTS["newest"])

    def test_what_is_claimed_was_run_and_passed(self) -> None:
        held = json.loads(VERSIONS.STORED.read_text())
        assert {"newest", "numpy-2"} <= set(held) <= set(VERSIONS.ENVIRONMENTS)
        for name, row in held.items():
            assert row["claimed"] == VERSIONS.ENVIRONMENTS[name].claimed
            assert not VERSIONS.is_broken(row), name

    @pytest.mark.parametrize("suite", VERSIONS.SUITES)
    def test_suites_name_tests_that_are_there(self, suite: str) -> None:
        assert all((ROOT / path).is_file() for path in VERSIONS.SUITES[suite])


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
        if name.partition(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

gone = sys.argv[1].split(",")
sys.meta_path.insert(0, Gone())
sys.argv = ["regraft", *sys.argv[2:]]
from regraft.cli import run
run()
"""


def without(frameworks: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line where frameworks, with commas between them, are not installed."""
    return run(sys.executable, "-c", FRAMEWORK_GONE, frameworks, *arguments, cwd=cwd)


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
        assert "--no-verify writes it" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (net / "o").exists()

    def test_no_advice_leads_to_the_next_error(self, net: Path) -> None:
        """Without the model's own framework, --no-verify writes nothing either."""
        command = ("rewrite", "net.py:Net", "--input", "2x4", "--to", "mindspore", "-o", "o")
        done = without("torch,mindspore", *command, cwd=net)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "expected `torch` to be installed, got no such module - at net.py:2" in done.stderr
        assert "--no-verify" not in done.stderr

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
