"""A fixed budget of random programs of each frontend."""

import os

import pytest

from .search import FRONTENDS, search

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mindspore")]

PROGRAMS = {"torch": 12, "mindspore": 6, "mxnet": 6}
"""How many: a few seconds of each."""


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_random_programs_compute_what_the_framework_does(frontend: str) -> None:
    if frontend == "mxnet" and not os.environ.get("REGRAFT_MXNET_PYTHON"):
        pytest.skip("REGRAFT_MXNET_PYTHON names no Python that has MXNet")
    assert search(frontend, programs=PROGRAMS[frontend], seed=0) == ""
