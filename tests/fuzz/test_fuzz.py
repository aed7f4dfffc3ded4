"""A fixed budget of fuzzing in the ordinary tests: inputs that once failed, and some seconds of new ones."""

from pathlib import Path

import pytest

from .minimise import smaller
from .mutation import MARK
from .oracle import attempt
from .registry import Target, regressions, targets
from .rounds import one_round

KNOWN = [(name, path) for name in targets() for path in regressions(name)]
READERS = "symbol,params,mindir,onnx_model,ckpt,safetensors,pth,renames,pair_map,text"
RUNNERS = "onnx,onnx_metadata,command"


@pytest.mark.parametrize(("name", "path"), KNOWN, ids=[f"{n}-{p.name}" for n, p in KNOWN])
def test_inputs_that_once_failed(name: str, path: Path, tmp_path: Path) -> None:
    code, fault = attempt(targets()[name], path.read_bytes(), tmp_path / "case")
    assert fault is None, f"{fault.key}\n{fault.detail}"
    assert code in (0, 1, 2)


@pytest.mark.parametrize("name", targets())
def test_seeds_are_right(name: str, tmp_path: Path) -> None:
    """A fuzzer whose seeds are refused tests nothing but the refusal."""
    target = targets()[name]
    codes = []
    for data in [*target.seeds()][:6]:
        code, fault = attempt(target, data, tmp_path / "case", 60)
        assert fault is None, f"{fault.key}\n{fault.detail}"
        codes.append(code)
    assert {0, 1} & set(codes), codes


@pytest.mark.parametrize(("names", "least"), [(READERS, 60), (RUNNERS, 12)])
def test_a_budget_of_new_inputs(names: str, least: int) -> None:
    codes, failures = one_round(names, 8, seed=20)
    assert not failures, "\n\n".join(
        f"{f['target']} {f['kind']}: {f['what']}\n{f['detail']}" for f in failures
    )
    assert codes.total() >= least, codes
    assert sum(count for name, count in codes.items() if name.endswith((" 0", " 1"))) > 0.05 * codes.total()


class TestOracle:
    """The oracle notices what it is there for."""

    @staticmethod
    def fault(run, tmp_path: Path, seconds: float = 10) -> str:
        _, fault = attempt(Target("test", list, lambda d, _: d, run), b"", tmp_path / "case", seconds)
        return fault.kind if fault else ""

    def test_right(self, tmp_path: Path) -> None:
        assert self.fault(lambda *_: 0, tmp_path) == ""

    def test_exception(self, tmp_path: Path) -> None:
        assert self.fault(lambda *_: {}["x"], tmp_path) == "exception"

    def test_exit_code(self, tmp_path: Path) -> None:
        assert self.fault(lambda *_: 3, tmp_path) == "exit"

    def test_error_without_a_code(self, tmp_path: Path) -> None:
        assert self.fault(lambda *_: 2, tmp_path) == "message"

    def test_characters_that_steer_a_terminal(self, tmp_path: Path) -> None:
        assert self.fault(lambda *_: print("\x1b[2J") or 0, tmp_path) == "message"

    def test_time(self, tmp_path: Path) -> None:
        def endless(*_: object) -> int:
            while True:
                pass

        assert self.fault(endless, tmp_path, 0.2) == "time"

    def test_memory(self, tmp_path: Path) -> None:
        import numpy as np

        assert self.fault(lambda *_: int(np.ones(9 << 27, np.uint8)[0]) * 0, tmp_path) == "memory"

    def test_code_that_ran(self, tmp_path: Path) -> None:
        assert self.fault(lambda _, folder: (folder / MARK).write_text("") * 0, tmp_path) == "executed"

    def test_files_left_behind(self, tmp_path: Path) -> None:
        def leaving(_: bytes, folder: Path) -> int:
            import sys

            (folder / "out").mkdir()
            (folder / "out" / "half").write_text("")
            print("error E101 no", file=sys.stderr)
            return 2

        assert self.fault(leaving, tmp_path) == "written"


def test_failures_are_made_smaller() -> None:
    assert smaller(b'{"a": [1, 2, {"bad": 3}], "b": 4}', lambda d: b"bad" in d, 5) == b'{"a": [{"bad": 3}]}'
    assert smaller(b"xxxxxxbadyyyyy", lambda d: b"bad" in d, 5) == b"bad"
