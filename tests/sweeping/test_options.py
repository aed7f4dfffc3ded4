"""What a suite says of its models reaches the commands that take it: recipes, tolerances, names."""

from pathlib import Path

import pytest

from regraft.commands.sweep import _spell
from regraft.commands.sweeping import Case, read_suite
from regraft.commands.sweeping.run_case import _judge
from regraft.ir import UsageError

from .test_sweep import GOOD, invoke, write_suite

TARGETS = ["onnx", "mindspore", "mxnet"]


def cases_of(folder: Path, text: str) -> list[Case]:
    (folder / "suite.toml").write_text(text)
    return read_suite(folder / "suite.toml", TARGETS, _spell)


def test_an_option_of_one_target_is_said_to_that_target_alone(tmp_path: Path) -> None:
    text = (
        'to = ["onnx", "mindspore", "mxnet"]\nmax-shard-size = "1GB"\n[[models]]\nmodel = "net.py:Net"\n'
        'recipe = "train.py:recipe"\nemit-tests = true\ncheckpoint-format = "safetensors"\nselect = "RP"\n'
    )
    assert {case.step: case.arguments for case in cases_of(tmp_path, text)} == {
        "check": ("--select=RP",),
        "onnx": ("--max-shard-size=1GB",),
        "mindspore": (
            "--max-shard-size=1GB",
            "--recipe=train.py:recipe",
            "--emit-tests",
            "--checkpoint-format=safetensors",
        ),
        "mxnet": (),
    }


@pytest.mark.parametrize("key", ['recipe = "train.py:recipe"', "emit-tests = true", 'select = "RP"'])
def test_an_option_of_a_table_that_none_of_its_steps_takes_is_an_error(tmp_path: Path, key: str) -> None:
    table = '[[models]]\nmodel = "net.py:Net"\nto = "onnx"\ncheck = false\n'
    with pytest.raises(UsageError, match=f"a step that takes `{key.partition(' ')[0]}`, got onnx alone"):
        cases_of(tmp_path, table + key)
    assert cases_of(tmp_path, f"{key}\n{table}")[0].arguments == ()  # for all: others may take it


def test_a_model_of_two_tables_has_one_name_at_all_of_its_steps(tmp_path: Path) -> None:
    text = 'to = "onnx"\ninput = "2x3"\n' + "".join(
        f'[[models]]\nmodel = "net.py:Net"\n{further}\n'
        for further in ("", "arg = { depth = 18 }", 'arg = { depth = 50 }\nto = ["onnx", "mindspore"]')
    )
    names = ["net.py:Net"] * 2 + ["net.py:Net --arg=depth=18"] * 2 + ["net.py:Net --arg=depth=50"] * 3
    assert [case.name for case in cases_of(tmp_path, text)] == names


def test_patterns_of_a_suite_share_the_import_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text("open('imports', 'a').write('1')\ndef a(): ...\ndef b(): ...\n")
    text = '[[models]]\nmodel = ["counted:a*", "counted:b*"]\n[[models]]\nname = "x"\nmodel = "counted:*"\n'
    assert len(cases_of(tmp_path, text)) == 4
    assert (tmp_path / "imports").read_text() == "1"


def test_a_tolerance_of_the_suite_holds_besides_what_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "out"
    in_mindspore = GOOD.replace('["onnx"]', '["mindspore"]')  # in ONNX Runtime both sides are one to the bit
    for tolerance, code, said in (
        ("0.5", 0, "1 equal, 1 clean"),
        ("1e-12", 1, "1 clean, 1 different"),
        ("1e-12", 1, "(from the store)"),
    ):
        suite = write_suite(tmp_path, f"{in_mindspore}tolerance = {tolerance}\n")
        result = invoke("sweep", suite, "-o", out)
        assert result.exit_code == code
        assert said in result.output
    assert "relative apart, the suite's tolerance is 1e-12" in (out / "table.md").read_text()
    with pytest.raises(UsageError, match="expected a `tolerance` such as 1e-5, got 'small'"):
        cases_of(tmp_path, '[[models]]\nmodel = "net.py:Net"\ntolerance = "small"')


def test_what_rounding_decides_is_beyond_no_tolerance() -> None:
    def verdict(**row: object) -> str:
        case = Case("a", "onnx", "a", (), "/", 1, 2**30, tolerance=1e-5)
        output = {"name": "y", "case": "N=1", "max_abs": 0.0, "max_rel": 0.0, "tolerance": 1.0, **row}
        said = {"verified": {"verdict": "equal", "summary": "equal", "outputs": [output]}}
        return _judge(case, 0, said, "")[0]

    assert verdict() == "equal"
    assert verdict(max_abs=0.1, max_rel=2e-5) == "different"
    assert verdict(max_abs=0.1, max_rel="inf") == "different"
    assert verdict(max_abs=3.0, max_rel=3.0) == "equal"  # beyond its own bound, and passed all the same
    assert verdict(max_abs=None, max_rel=None) == "equal"
