"""Every row of the torch frontend, run by ONNX Runtime against the operator of torch's that it is of."""

from __future__ import annotations

import pytest

from regraft.frontends.torch_module.operators import TABLE

from ..frontends.torch_module.comparison import check
from .recording import rows_that_run
from .torch_module import FAMILIES
from .torch_module.case import Group

GROUPS = {f"{family}-{i}": g for family, groups in FAMILIES.items() for i, g in enumerate(groups)}
NAMED = [case.row for group in GROUPS.values() for case in group.cases]


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_rows_are_torchs(group: Group) -> None:
    with rows_that_run(TABLE, "renamed", "functions") as ran:
        check(group, *group.arrays, dynamic=group.dynamic, atol=group.atol)
    assert {case.row for case in group.cases} <= ran


def test_every_row_has_a_case() -> None:
    assert set(TABLE.names()) - set(NAMED) == set(), "declare a case in tests/rows/torch_module"
    assert set(NAMED) - set(TABLE.names()) == set(), "no such row"
