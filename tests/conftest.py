"""Options of the whole test suite."""

import os
import sys

import pytest
from hypothesis import settings

from regraft.frontends.mindspore_cell.mixed_precision import precision_kept
from regraft.ir.collector import freeze_live_objects
from regraft.ir.validation import verify_each
from regraft.verification.certificate.verdict import certify_by_default


def pytest_configure():
    """No verdict has a certificate but where a test asks for it: it doubles the time of a small comparison.

    Graphs are validated whole after every pass and every rewrite of a backend, in all tests.

    No example has a deadline: how busy the machine is says nothing about the code. Each of several workers
    takes its share of the cores, as the frameworks' threads would spin on those of the others. MindSpore's
    queues of operators would, too. Files that tests write leave no bytecode, which is told to be stale by
    seconds and size alone.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:  # no framework is imported yet
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    os.environ.setdefault("MS_DEV_HOST_BLOCKING_RUN", "1")  # as the command line has it
    sys.dont_write_bytecode = True  # a file that a test writes twice within a second is read twice
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    verify_each(on=True)
    certify_by_default(on=False)
    settings.register_profile("regraft", deadline=None)
    settings.load_profile("regraft")


def as_a_fresh_process_draws():
    """Torch's generator as its import leaves it: weights do not depend on which tests ran before."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.manual_seed(torch.Generator().initial_seed())


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report():
    """Modules that a test file makes as it is imported."""
    as_a_fresh_process_draws()


def pytest_runtest_setup():
    """Nets that tests themselves run in MindSpore compute one operator after another, as in our runs.

    A kernel that an earlier test ran may have left the processor flushing small numbers to zero.
    """
    as_a_fresh_process_draws()
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
    if "mindspore" in sys.modules:
        mindspore = sys.modules["mindspore"]
        mindspore.runtime.launch_blocking()
        if mindspore.get_context("mode") != mindspore.PYNATIVE_MODE:  # as a test before this one left it
            mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """What lives before a test is not searched for garbage in it.

    MindSpore searches all of the process before each compile: half a second, late in a run.
    """
    with freeze_live_objects(), precision_kept():  # which a net that raises in float16 stays in
        return (yield)


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens", action="store_true", help="rewrite the golden pages instead of comparing"
    )


@pytest.fixture
def update_goldens(request):
    return request.config.getoption("--update-goldens")


@pytest.fixture
def without_search(monkeypatch):
    """No cause is searched for in a target's methods, up to 12 seconds: the verdict alone is wanted."""
    from regraft.verification.causes import finding

    monkeypatch.setattr(finding, "_SECONDS", 0.0)
