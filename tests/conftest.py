"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens", action="store_true", help="rewrite the golden pages instead of comparing"
    )


@pytest.fixture
def update_goldens(request):
    return request.config.getoption("--update-goldens")
