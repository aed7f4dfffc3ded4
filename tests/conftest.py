"""Options of the whole test suite."""

import pytest

from regraft.ir.validation import verify_each


def pytest_configure():
    """Graphs are validated whole after every pass and every rewrite of a backend, in all tests."""
    verify_each(on=True)


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens", action="store_true", help="rewrite the golden pages instead of comparing"
    )


@pytest.fixture
def update_goldens(request):
    return request.config.getoption("--update-goldens")
