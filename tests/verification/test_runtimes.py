"""The rows of runtimes: what they state is in their files, and what no row runs is refused."""

import pytest

from regraft.backends import TARGETS
from regraft.formats.renames import write_renames
from regraft.frontends.registry import FRONTENDS
from regraft.ir import UsageError
from regraft.verification.runners.registry import RUNTIMES, runtime_of_framework, runtime_of_output
from regraft.verification.runners.select_runner import target_runner


@pytest.mark.parametrize("row", RUNTIMES, ids=lambda row: row.module)
def test_a_file_has_the_functions_that_its_row_states(row):
    module = row.load()
    assert bool(row.model) == bool(row.framework) == hasattr(module, "model_runner")
    outputs = row.load_for_outputs()
    assert bool(row.output) == bool(row.suffix or row.entry) == hasattr(outputs, "output_runner")
    assert bool(row.entry) == hasattr(outputs, "constructed")
    assert row.is_exact == hasattr(module, "exact_runner")


def test_frameworks_of_runtimes_are_those_of_frontends_with_live_models():
    live = {row.framework for row in FRONTENDS if row.classes and row.framework != "onnx"}  # data, not code
    assert {row.framework for row in RUNTIMES if row.framework} == live
    assert runtime_of_framework("mxnet") is None
    assert runtime_of_framework("") is None


def test_what_a_target_writes_is_run_or_read_back(tmp_path):
    for target in TARGETS.values():
        path = tmp_path / f"{target.name}{target.suffix}"
        if target.suffix:
            path.write_bytes(b"")
        else:
            path.mkdir()
            (path / "model.py").write_text("")
        assert target.is_read_back or runtime_of_output(path) is not None


@pytest.mark.parametrize(
    ("written_for", "runs"),
    [("mindspore", "mindspore"), ("torch", "torch"), ("", "mindspore"), ("paddle", None)],
    ids=["mindspore", "torch", "unsaid", "other"],
)
def test_a_folder_of_source_is_run_by_the_framework_that_it_was_written_for(tmp_path, written_for, runs):
    (tmp_path / "model.py").write_text("")
    if written_for:
        write_renames(tmp_path / "renames.json", [], source="torch", target=written_for)
    found = runtime_of_output(tmp_path)
    assert (None if found is None else found.framework) == runs


@pytest.mark.parametrize("name", ["missing.onnx", "folder", "folder.onnx", "model.py"])
def test_a_path_that_no_runtime_runs_is_refused(tmp_path, name):
    path = tmp_path / name
    if name.startswith("folder"):
        path.mkdir()
    elif name == "model.py":
        path.write_text("")
    assert runtime_of_output(path) is None
    with pytest.raises(UsageError, match=r"a .onnx file or an emitted folder with model.py as target"):
        target_runner(path)
