"""Suites of models: what hangs, eats memory or dies is one row, nothing is lost, and nothing is run twice."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from regraft.cli import main
from regraft.commands.sweeping import Case, Row, Sweep, read_suite, sweep
from regraft.commands.sweeping.case import LASTING
from regraft.commands.sweeping.comparing import compare_rows, summary
from regraft.commands.sweeping.fingerprint import environment, fingerprint, forget
from regraft.commands.sweeping.run_case import blame_limits, last_line
from regraft.commands.sweeping.store import Store, read_rows
from regraft.commands.sweeping.tables import write_tables
from regraft.ir import UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

BAD = {
    "hangs.py": "import time; time.sleep(600)",
    "hangs_outside.py": "import subprocess; subprocess.run(['sleep', '611'])",
    "eats.py": "x = bytearray(2**33)",
    "eats_numpy.py": "import numpy; x = numpy.ones(2**33)",
    "dies.py": "import os; os.kill(os.getpid(), 9)",
    "crashes.py": "import ctypes; ctypes.string_at(0)",
    "exits.py": "import os; os._exit(0)",
    "raises.py": "raise RuntimeError('the weights are on strike')",
    "prints.py": "print('{\"clean\": true}'); import sys; sys.stdout.flush(); raise SystemExit(0)",
}


def install_another() -> None:
    """Let a worker's process take itself for one of another installation."""
    environment.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platform.machine", lambda: "another")
        environment()


def spell(_: str, key: str, value: object) -> list[str]:
    return [f"--{key}={value}"]


def is_running(*command: str) -> bool:
    wanted = "".join(f"{word}\0" for word in command).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if path.read_bytes() == wanted:
                return True
    return False


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def write_suite(folder: Path, text: str) -> Path:
    for file in EXAMPLES.glob("shared_weight*"):
        shutil.copy(file, folder)
    path = folder / "suite.toml"
    path.write_text(text)
    return path


GOOD = """
to = ["onnx"]
[[models]]
model = "*-symbol.json"
input = { data = "1x1x3x3" }
"""


class TestSuites:
    def cases(self, folder: Path, text: str) -> list[Case]:
        return read_suite(write_suite(folder, text), ["onnx", "mindspore"], spell)

    def test_files_and_names_are_found_without_running_them(self, tmp_path: Path) -> None:
        (tmp_path / "nets").mkdir()
        for name in ("a", "b"):
            (tmp_path / "nets" / f"{name}.py").write_text(
                "raise SystemExit\nclass Net1: ...\nclass Net2: ...\nclass _Net3: ...\ndef other(): ...\n"
            )
        text = '[[models]]\nmodel = "nets/*.py:Net*"\ncheck = false\nto = "onnx"'
        found = [(c.model, c.step) for c in self.cases(tmp_path, text)]
        assert found == [(f"nets/{f}.py:Net{n}", "onnx") for f in "ab" for n in (1, 2)]

    def test_names_of_a_package_are_its_public_callables(self, tmp_path: Path) -> None:
        (tmp_path / "zoo").mkdir()
        (tmp_path / "zoo" / "__init__.py").write_text("from .nets import *\nsize = 3")
        (tmp_path / "zoo" / "nets.py").write_text("def net18(): ...\ndef net50(): ...\ndef other(): ...")
        found = self.cases(tmp_path, '[[models]]\nmodel = "zoo:net*"')
        assert [c.model for c in found] == ["zoo:net18", "zoo:net50"]

    def test_what_stands_at_the_top_is_for_all(self, tmp_path: Path) -> None:
        text = """
            to = ["onnx", "mindspore"]
            seconds = 5
            memory = "512 MiB"
            arg = "width=3"
            [[models]]
            model = "net.py:Net"
            [[models]]
            model = "net.py:Other"
            to = []
            seconds = 7.5
        """
        cases = self.cases(tmp_path, text)
        assert [(c.name, c.step, c.seconds) for c in cases] == [
            ("net.py:Net", "check", 5),
            ("net.py:Net", "onnx", 5),
            ("net.py:Net", "mindspore", 5),
            ("net.py:Other", "check", 7.5),
        ]
        assert {c.memory for c in cases} == {512 * 2**20}
        assert {c.arguments for c in cases} == {("--arg=width=3",)}

    def test_one_model_with_two_arguments_is_two_cases(self, tmp_path: Path) -> None:
        entry = '[[models]]\nmodel = "net.py:Net"\narg = "depth={}"\n'
        cases = self.cases(tmp_path, entry.format(18) + entry.format(50))
        assert [c.name for c in cases] == ["net.py:Net --arg=depth=18", "net.py:Net --arg=depth=50"]

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("models = 3", r"\[\[models\]\]"),
            ("[[models]]", "`model`"),
            ('[[models]]\nmodel = "nets/*.py"', "no file or function matches"),
            ('[[models]]\nmodel = "a.py:A"\nto = "caffe"', "targets of onnx, mindspore"),
            ('[[models]]\nmodel = "a.py:A"\ncheck = false', "`to`"),
            ('[[models]]\nmodel = "a.py:A"\nto = 3', "names as `to`, got 3"),
            ('[[models]]\nmodel = "a.py:A"\ncheck = "no"', "true or false as `check`"),
            ('[[models]]\nmodel = "a.py:A"\nseconds = -1', "seconds"),
            ('[[models]]\nmodel = "a.py:A"\nseconds = nan', "seconds"),
            ('[[models]]\nmodel = "a.py:A"\nmemory = "much"', "8 GiB"),
            ('[[models]]\nmodel = "no.such:net*"', "cannot be imported"),
            ('[[models]]\nmodel = "a.py:A"\n[[models]]\nmodel = "a.py:A"', "once"),
            ("[[models", "TOML"),
        ],
    )
    def test_what_is_not_right_is_one_error(self, tmp_path: Path, text: str, word: str) -> None:
        with pytest.raises(UsageError, match=word):
            self.cases(tmp_path, text)

    @pytest.mark.parametrize(
        ("text", "key", "near", "place"),
        [
            (GOOD + "colour = 3", "colour", "color", "suite.toml: [[models]] number 1"),
            (GOOD + "secnods = 3", "secnods", "seconds", "suite.toml: [[models]] number 1"),
            ("inptu = 3" + GOOD, "inptu", "input", "suite.toml\n"),
        ],
    )
    def test_an_option_that_no_command_has_is_refused(
        self, tmp_path: Path, text: str, key: str, near: str, place: str
    ) -> None:
        result = invoke("sweep", write_suite(tmp_path, text), "-o", tmp_path / "out")
        assert result.exit_code == 2
        assert f"`{key}` - at {tmp_path}/{place}" in result.output
        assert near == "color" or f"did you mean `{near}`?" in result.output  # a sweep decides the colours


class TestLimits:
    @pytest.mark.parametrize(
        ("complained", "verdict"),
        [
            ("error E002 cannot read or write files: no space left on device\nhint: free space", "fault"),
            ("error E002 cannot read or write `x.onnx`: file too large\nhint: `ulimit -f`", "fault"),
            ("error E106 not enough memory\nhint: give smaller inputs", "over memory"),
        ],
    )
    def test_what_the_machine_lacks_is_no_refusal_of_the_model(self, complained: str, verdict: str) -> None:
        found = blame_limits(Case("a", "onnx", "a", (), "/", 1, 2**30), last_line(complained))
        assert found is not None
        assert found[0] == verdict
        assert found[0] not in LASTING

    def test_what_goes_wrong_is_one_row_each(self, tmp_path: Path) -> None:
        for name, text in BAD.items():
            (tmp_path / name).write_text(text)
        suite = write_suite(
            tmp_path,
            'memory = "2 GiB"\nto = "onnx"\ncheck = false\n[[models]]\nmodel = "hangs*.py:Net"\nseconds = 5\n'
            '[[models]]\nmodel = "[!h]*.py:Net"',
        )
        began = time.monotonic()
        cases = read_suite(suite, ["onnx"], spell)
        rows = {row.name.partition(".")[0]: row for row in sweep(cases, Sweep(str(tmp_path / "store"), 4))}
        assert time.monotonic() - began < 100
        assert {name: row.verdict for name, row in rows.items()} == {
            "hangs": "over time",
            "hangs_outside": "over time",
            "eats": "over memory",
            "eats_numpy": "over memory",
            "dies": "died",
            "crashes": "died",
            "exits": "refused",
            "raises": "refused",
            "prints": "refused",
        }
        assert rows["raises"].code == "E102"
        assert "on strike" in rows["raises"].detail
        assert not is_running("sleep", "611")

    def test_what_a_sweep_started_ends_with_it(self, tmp_path: Path) -> None:
        (tmp_path / "hangs.py").write_text("import subprocess; subprocess.run(['sleep', '612'])")
        suite = write_suite(tmp_path, '[[models]]\nmodel = "hangs.py:Net"')
        command = [sys.executable, "-m", "regraft", "sweep", str(suite), "-o", str(tmp_path / "out")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            until = time.monotonic() + 60
            while not is_running("sleep", "612"):
                assert time.monotonic() < until
                time.sleep(0.1)
            process.send_signal(signal.SIGKILL)
        until = time.monotonic() + 10
        while is_running("sleep", "612"):
            assert time.monotonic() < until, "it still runs"
            time.sleep(0.1)


class TestStore:
    def test_nothing_is_run_twice_until_something_changes(self, tmp_path: Path) -> None:
        suite = write_suite(tmp_path, GOOD)
        first = invoke("sweep", suite, "-o", tmp_path / "out")
        assert "from the store" not in first.output
        assert "equal: shared_weight-symbol.json -> onnx" in first.output
        again = invoke("sweep", suite, "-o", tmp_path / "out")
        assert again.output.count("from the store") == 2
        rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
        assert [(r["step"], r["cached"]) for r in rows] == [("check", True), ("onnx", True)]
        assert rows[1]["verdict"] == "equal"
        assert rows[1]["cpu"] > 0.1
        assert rows[1]["memory"] > 2**24

    def test_a_key_is_of_sources_weights_and_options(self, tmp_path: Path) -> None:
        (tmp_path / "net.py").write_text("x = 1")
        (tmp_path / "layers.py").write_text("x = 1")
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "p.py").write_text("x = 1")
        (tmp_path / "x.npy").write_text("1")
        (tmp_path / "w.params").write_text("1")
        (tmp_path / "n-symbol.json").write_text("{}")
        (tmp_path / "n-0000.params").write_text("1")
        case = Case(
            "a",
            "onnx",
            "net.py:Net",
            ("--params=w.params", "--input=x=@x.npy", "--pass=own/p.py:P"),
            str(tmp_path),
            1,
            1,
        )
        symbol = replace(case, model="n-symbol.json", arguments=())
        (tmp_path / "onnx").mkdir()
        (tmp_path / "onnx" / "m.onnx").write_text("1")
        (tmp_path / "onnx" / "any.bin").write_text("1")
        (tmp_path / "onnx" / "other.onnx").write_text("1")
        file = replace(case, model="onnx/m.onnx", arguments=())

        def keys() -> tuple[str, str, str]:
            forget()
            return fingerprint(case), fingerprint(symbol), fingerprint(file)

        before = keys()
        assert keys() == before
        assert fingerprint(replace(case, name="b", seconds=2, memory=3)) == before[0]
        assert fingerprint(replace(case, arguments=())) != before[0]
        assert fingerprint(replace(case, step="check")) != before[0]
        files = dict.fromkeys(("layers.py", "w.params", "x.npy", "own/p.py"), 0)
        files |= {"n-0000.params": 1, "n-symbol.json": 1, "onnx/m.onnx": 2, "onnx/any.bin": 2}
        for name, changed in files.items():
            (tmp_path / name).write_text("2")
            after = keys()
            differ = [at for at, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) == 2]
            assert differ == [changed], name
            before = after
        (tmp_path / "onnx" / "other.onnx").write_text("2")
        assert keys() == before

    def test_a_row_that_is_cut_off_or_foreign_is_run_again(self, tmp_path: Path) -> None:
        store, row = Store(str(tmp_path)), Row("a", "onnx", "equal", key="0123")
        store.put(row)
        assert store.get("0123") == replace(row, cached=True)
        place = tmp_path / "01" / "0123" / "row.json"
        for text in (place.read_text()[:20], "[]", '{"verdict": "equal"}', '{"name":1}', "\udcff"):
            place.write_bytes(text.encode(errors="surrogateescape"))
            assert store.get("0123") is None

    @pytest.mark.parametrize("verdict", ["over time", "over memory", "died", "fault"])
    def test_what_may_be_the_machines_fault_is_run_again(self, tmp_path: Path, verdict: str) -> None:
        store = Store(str(tmp_path))
        store.put(Row("a", "onnx", verdict, key="0123"))
        assert store.get("0123") is None

    def test_outputs_are_kept_at_any_url_and_two_runs_share_no_file(self, tmp_path: Path) -> None:
        import fsspec

        output = tmp_path / "output"
        output.mkdir()
        (output / "model.onnx").write_text("1")
        row = Row("a", "onnx", "equal", key="0123")
        with ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(lambda _: Store("memory://zoo").put(row, output), range(8)))
        assert len({r.output for r in rows}) == 8
        for each in rows:
            assert fsspec.filesystem("memory").cat_file(f"{each.output}/model.onnx") == b"1"
        kept = Store("memory://zoo").get("0123")
        assert kept is not None
        assert kept.output in {r.output for r in rows}

    def test_what_a_full_store_took_half_is_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = tmp_path / "output"
        output.mkdir()
        (output / "model.onnx").write_text("1")
        store = Store(str(tmp_path / "store"))

        def fill(path: str, _: bytes) -> None:
            Path(path).write_text("{")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(store._files, "pipe_file", fill)
        row = store.put(Row("a", "onnx", "equal", key="0123"), output)
        assert (row.verdict, row.output, row.unkept) == ("equal", "", "No space left on device")
        assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]

    def test_what_is_kept_can_be_opened(self, tmp_path: Path) -> None:
        suite = write_suite(tmp_path, GOOD + "check = false\n")
        result = invoke("sweep", suite, "-o", tmp_path / "out", "--keep", "--json")
        assert result.exit_code == 0, result.output
        [row] = json.loads(result.stdout)
        assert (Path(row["output"]) / "model.onnx").stat().st_size > 100

    @pytest.mark.parametrize("url", ["nope://x", "memory://x"])
    def test_a_url_that_nothing_opens_or_that_nothing_outlives_is_an_error(
        self, tmp_path: Path, url: str
    ) -> None:
        result = invoke("sweep", write_suite(tmp_path, GOOD), "-o", tmp_path / "out", "--store", url)
        assert result.exit_code == 2
        assert url in result.output


class TestTables:
    BEFORE = (
        Row("a", "onnx", "equal", cpu=10),
        Row("b", "onnx", "equal", cpu=10),
        Row("c", "onnx", "refused", cpu=1),
        Row("d", "onnx", "equal", cpu=1),
        Row("e", "onnx", "equal", cpu=1),
        Row("f", "onnx", "different", cpu=1),
    )
    NOW = (
        Row("a", "onnx", "equal", cpu=14),
        Row("b", "onnx", "different", "DIFFERENT in a|b <script>\x1b[31m", cpu=10),
        Row("c", "onnx", "equal", cpu=1),
        Row("d", "onnx", "equal", cpu=2.5),
        Row("f", "onnx", "different", cpu=1),
        Row("g", "onnx", "equal", cpu=1),
    )

    def test_regressions_come_first(self) -> None:
        compared = compare_rows(self.NOW, self.BEFORE)
        assert [(c.row.name, c.change) for c in compared] == [
            ("b", "regression"),
            ("e", "gone"),
            ("g", "new"),
            ("a", "slower"),
            ("c", "mended"),
            ("f", ""),
            ("d", ""),
        ]
        assert summary(self.NOW, compared) == (
            "6 cases: 4 equal, 2 different; 1 regression, 1 gone, 1 new, 1 slower, 1 mended"
        )

    def test_names_are_no_markup(self, tmp_path: Path) -> None:
        write_tables(tmp_path, self.NOW, self.BEFORE, title="<zoo>")
        page = (tmp_path / "table.html").read_text()
        assert page.count("<script") == 1
        assert "&lt;zoo&gt;" in page
        assert "\x1b" not in page
        assert "a\\|b \\<script\\>" in (tmp_path / "table.md").read_text()
        assert read_rows(tmp_path / "rows.jsonl") == list(self.NOW)

    def test_exit_codes_are_for_ci(self, tmp_path: Path) -> None:
        (tmp_path / "raises.py").write_text(BAD["raises.py"])
        suite = write_suite(
            tmp_path, GOOD + 'check = false\n[[models]]\nmodel = "raises.py:Net"\ncheck = false'
        )
        out = tmp_path / "out"
        assert invoke("sweep", suite, "-o", out).exit_code == 1
        rows = read_rows(out / "rows.jsonl")
        assert [r.verdict for r in rows] == ["equal", "refused"]
        earlier = tmp_path / "earlier.jsonl"
        shutil.copy(out / "rows.jsonl", earlier)
        assert invoke("sweep", suite, "-o", out, "--against", earlier).exit_code == 0
        write_tables(tmp_path, [rows[0], replace(rows[1], verdict="equal")])
        worse = invoke("sweep", suite, "-o", out, "--against", tmp_path / "rows.jsonl")
        assert worse.exit_code == 1
        assert "1 regression" in worse.output

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"name": "a", "step": "b", "verdict": "fine"}', '{"cpu": "x"}']
    )
    def test_rows_that_are_none_are_an_error_with_a_line(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_text(text)
        with pytest.raises(UsageError, match=r"rows\.jsonl:1"):
            read_rows(path)


class TestDask:
    """A real scheduler, with workers in processes of their own."""

    def test_a_worker_that_is_killed_loses_nothing(self, tmp_path: Path) -> None:
        import distributed

        local: Any = distributed.LocalCluster  # whose calls are typed as coroutines
        connect: Any = distributed.Client
        mark = tmp_path / "started"
        (tmp_path / "slow.py").write_text(
            f"import os, time\nopen({str(mark)!r}, 'a').write('1')\n"
            f"time.sleep(600 if os.path.getsize({str(mark)!r}) == 1 else 0)\nraise RuntimeError('ran again')"
        )
        suite = write_suite(
            tmp_path, GOOD + 'check = false\n[[models]]\nmodel = "slow.py:Net"\ncheck = false'
        )
        cases = read_suite(suite, ["onnx"], lambda c, k, v: ["--input=data=1x1x3x3"])
        with (
            local(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            connect(cluster) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            how = Sweep(str(tmp_path / "store"), scheduler=cluster.scheduler_address)
            other = min(client.scheduler_info()["workers"])
            client.run(install_another, workers=[other])
            with pytest.raises(UsageError, match=f"on 1 of 2: {other}"):
                next(sweep(cases, how))
            client.run(environment.cache_clear, workers=[other])
            running = pool.submit(lambda: list(sweep(cases, how)))
            until = time.monotonic() + 100
            while not mark.exists():
                assert time.monotonic() < until
                time.sleep(0.1)
            busy = [
                address
                for address, tasks in client.processing().items()
                if any("slow" in t or tasks for t in tasks)
            ]
            pids = client.run(os.getpid)
            for address in busy:
                os.kill(pids[address], signal.SIGKILL)
            rows = {row.name: row for row in running.result(timeout=200)}
        assert {name: row.verdict for name, row in rows.items()} == {
            "shared_weight-symbol.json": "equal",
            "slow.py:Net": "refused",
        }
        assert "ran again" in rows["slow.py:Net"].detail
        assert mark.read_text() == "11"

    @pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
    def test_an_address_without_a_scheduler_is_an_error(
        self, tmp_path: Path, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody is there; or a server that says nothing, or what a scheduler would not."""
        monkeypatch.setattr("regraft.commands.sweeping.runs._CONNECT", 1)
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            address = f"tcp://127.0.0.1:{9 if answer is None else server.getsockname()[1]}"
            accepted = None if answer is None else pool.submit(server.accept)
            said = pool.submit(lambda: accepted and accepted.result()[0].sendall(answer or b""))
            suite = write_suite(tmp_path, GOOD)
            result = invoke("sweep", suite, "-o", tmp_path / "out", "--scheduler", address)
            said.result()
        assert result.exit_code == 2
        assert f"the address of a Dask scheduler, got `{address}`" in result.output
