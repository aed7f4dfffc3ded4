"""What belongs to the whole process is as it was after every call, and threads that call in take turns."""

import gc
import locale
import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import mindspore
import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.process.state import preserve_process_state

MXNET = Path(__file__).parent.parent / "examples" / "shared_weight-symbol.json"


class Restless(nn.Module):
    """Changes everything that it can reach, in its forward and when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        np.seterr(all="raise")
        np.set_printoptions(precision=2)
        os.environ["RESTLESS"] = "1"
        os.environ.pop("HOME", None)
        warnings.simplefilter("error", ResourceWarning)
        sys.setrecursionlimit(5000)
        torch.set_num_threads(2)
        logging.getLogger("restless").setLevel(logging.DEBUG)
        logging.getLogger().setLevel(logging.ERROR)
        gc.enable()
        os.chdir("/")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return self.fc(x)


class Plain(mindspore.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = mindspore.nn.Dense(4, 3)

    def construct(self, x: mindspore.Tensor) -> mindspore.Tensor:
        return self.fc(x)


def process_state() -> dict[str, object]:
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "attention": torch.backends.mha.get_fastpath_enabled(),
        "mindspore": (mindspore.get_seed(), mindspore.get_context("mode")),
        "errors": np.geterr(),
        "printing": {k: v for k, v in np.get_printoptions().items() if k != "formatter"},
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "recursion": sys.getrecursionlimit(),
        "collector": gc.isenabled(),
        "folder": Path.cwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": (logging.root.level, logging.root.manager.disable, list(logging.root.handlers)),
        "loggers": [
            (v.level, v.disabled) for v in map(logging.getLogger, ("torch", "torch.export", "restless"))
        ],
        "signals": {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
        "streams": (sys.stdout, sys.stderr, sys.stdin, sys.excepthook, warnings.showwarning),
        "path": list(sys.path),
        "patched": (nn.MultiheadAttention.forward, nn.Module.to, mindspore.nn.Cell.__call__),
    }


def steps(model: object, given: list[str], folder: Path) -> list[tuple[str, Callable[[], object]]]:
    """Every public call on a model, in order; what one gives the next one takes."""
    made: dict[str, object] = {}

    def keep(name: str, value: object) -> object:
        made[name] = value
        return value

    graph: Callable[[], regraft.Graph] = lambda: made["graph"]  # type: ignore[return-value]  # noqa: E731
    done: Callable[[], regraft.Rewritten] = lambda: made["done"]  # type: ignore[return-value]  # noqa: E731
    onnx, source = folder / "x.onnx", folder / "source"
    return [
        ("load", lambda: keep("graph", regraft.load(model, given))),
        ("check", lambda: regraft.check(model, given)),
        ("rewrite", lambda: keep("done", regraft.rewrite(graph()))),
        ("save", lambda: regraft.save(done().graph, source, to="mindspore")),
        ("rewrite_file", lambda: regraft.rewrite_file(graph(), done(), onnx)),
        ("verify onnx", lambda: regraft.verify(graph(), onnx)),
        ("verify mindspore", lambda: regraft.verify(graph(), source)),
        ("diff", lambda: regraft.diff(source / "model.ckpt", onnx, folder / "x.renames.json")),
        (
            "convert_checkpoint",
            lambda: regraft.convert_checkpoint(
                source / "model.ckpt", folder / "back.safetensors", source / "renames.json", reverse=True
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("make", "given"),
    [(Restless, ["2x4"]), (Plain, ["2x4"]), (lambda: MXNET, ["data=1x1x3x3"])],
    ids=["torch", "mindspore", "mxnet"],
)
def test_every_call_leaves_the_process_as_it_was(
    make: Callable[[], object], given: list[str], tmp_path: Path
) -> None:
    model = make()
    for name, step in steps(model, given, tmp_path):
        before = process_state()
        step()
        after = process_state()
        assert {k: v for k, v in after.items() if v != before[k]} == {}, name


def test_what_a_call_raises_leaves_the_process_as_it_was() -> None:
    class Failing(Restless):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise ValueError("no")

    model, before = Failing(), process_state()
    with pytest.raises(regraft.RegraftError):
        regraft.load(model, ["2x4"])
    assert process_state() == before


def test_what_importing_mindspore_sets_is_undone(tmp_path: Path) -> None:
    """Environment, warning filters and recursion limit; in a process that has not imported it."""
    (tmp_path / "net.py").write_text(
        "from mindspore import nn\n\nclass Net(nn.Cell):\n"
        "    def __init__(self):\n        super().__init__()\n        self.fc = nn.Dense(4, 3)\n"
        "    def construct(self, x):\n        return self.fc(x)\n"
    )
    code = """
        import os, sys, warnings
        import numpy  # which sets filters of its own
        import regraft

        before = dict(os.environ), list(warnings.filters), sys.getrecursionlimit()
        graph = regraft.load("net.py:Net", ["2x4"])
        assert (dict(os.environ), list(warnings.filters), sys.getrecursionlimit()) == before
        assert regraft.verify(graph, graph).passed
        assert (dict(os.environ), list(warnings.filters), sys.getrecursionlimit()) == before
        assert "mindspore" in sys.modules and "torch" not in sys.modules
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Encoder(nn.Module):
    """Reads what a capture replaces: attention, dropouts, lengths."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 2, 4 * width, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[:, 0])


def test_threads_that_call_in_take_turns(tmp_path: Path) -> None:
    """Loading, rewriting and comparing models of torch and of MindSpore at once."""
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(number: int, model: object, given: list[str]) -> None:
        try:
            start.wait()
            for turn in range(2):
                graph = regraft.load(model, given)
                out = tmp_path / f"{number}-{turn}.onnx"
                _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), out)
                assert report is not None
                assert report.passed
        except BaseException as error:
            errors.append(error)

    jobs: list[tuple[object, list[str]]] = [
        *((Encoder(width), [f"2x5x{width}"]) for width in (8, 4, 8)),
        (Plain(), ["2x4"]),
    ]
    before = process_state()
    threads = [threading.Thread(target=work, args=(n, *job)) for n, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    after = process_state()
    assert [key for key, value in after.items() if value != before[key]] == []


def test_a_block_within_another_restores_nothing() -> None:
    with preserve_process_state():
        with preserve_process_state():
            random.seed(5)
        inner = random.getstate()
        random.seed(5)
        assert random.getstate() == inner


def test_numbers_below_the_smallest_normal_one_are_kept() -> None:
    class Norm(mindspore.nn.Cell):
        def construct(self, x):
            return mindspore.ops.norm(x, 1)

    small = np.full(8, 1e-40, np.float32)
    torch.set_flush_denormal(False)
    norm = Norm()
    with preserve_process_state():
        norm(mindspore.Tensor(small))  # its kernel flushes them where it runs in this thread
    assert (small * np.float32(1) > 0).all()
    with preserve_process_state():
        torch.set_flush_denormal(True)
    assert (small * np.float32(1) > 0).all()


class Halved(mindspore.nn.Cell):
    """Computes in float16, and may raise."""

    def __init__(self, inner: mindspore.nn.Cell | None = None, *, raises: bool = False) -> None:
        super().__init__()
        self.inner, self.raises = inner, raises
        self.to_float(mindspore.float16)

    def construct(self, x):
        if self.raises:
            raise ValueError
        return x * 2 if self.inner is None else self.inner(x)


def test_a_cell_in_float16_that_raises_leaves_no_precision_behind() -> None:
    x = mindspore.Tensor(np.ones((2, 2), np.float32))
    with preserve_process_state(), pytest.raises(ValueError):  # noqa: PT011 - the net's own
        Halved(Halved(raises=True))(x)
    assert mindspore.ops.matmul(x, x).dtype == mindspore.float32


def test_a_call_in_which_no_cell_raises_enters_no_precision_of_its_own() -> None:
    from mindspore.graph import api

    entered: list[bool] = []
    executor = api._pynative_executor
    original = executor.set_mixed_precision_type
    x = mindspore.Tensor(np.ones((2, 2), np.float32))
    executor.set_mixed_precision_type = lambda kind, push=True: (entered.append(push), original(kind, push))
    try:
        with preserve_process_state():
            pass
        assert not entered
        with preserve_process_state():
            Halved(Halved())(x)
        assert sorted(entered) == [False, False, True, True]
    finally:
        executor.set_mixed_precision_type = original


def test_a_call_that_is_made_again_and_raises_leaves_no_precision_to_the_next_one() -> None:
    from regraft.verification.causes.hosts import MindSporeHost
    from regraft.verification.causes.tape import Record, Site, Tape

    tape = Tape(MindSporeHost())
    x = mindspore.Tensor(np.ones((2, 2), np.float32))
    records = [
        Record(Site("", 0, "layer"), "layer", function, "layer", (x,), {}, [])
        for function in (Halved(raises=True), mindspore.ops.square)
    ]
    with tape.host.ready(Halved()):
        assert tape.run(records[0], {}) is None
        found = tape.run(records[1], {})
    assert found is not None
    assert found[0].dtype == np.float32
