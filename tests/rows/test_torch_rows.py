"""Every row of the torch frontend, run by ONNX Runtime against the operator of torch's that it is of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.torch_version import TorchVersion

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import expansions, read
from regraft.frontends.torch_module.operators import TABLE
from regraft.ir import UnsupportedError

from ..frontends.torch_module.comparison import Function, check
from .recording import rows_that_run
from .torch_module import FAMILIES, REFUSED
from .torch_module.case import ABSENT, KEPT_SINCE, SINCE, UNTIL, Group, Refused

INSTALLED = TorchVersion(torch.__version__)
GROUPS = {f"{family}-{i}": g for family, groups in FAMILIES.items() for i, g in enumerate(groups)}
NAMED = [case.row for group in GROUPS.values() for case in group.cases] + [case.row for case in REFUSED]
ROWS = {
    name
    for name in (*TABLE.names(), *expansions.EXPANSIONS, *expansions.IN_PARTS)
    if not name.startswith("torchvision.")  # of which test_torchvision_operators.py has the cases
}


@contextmanager
def running() -> Iterator[set[str]]:
    with (
        rows_that_run(TABLE, "renamed", "functions") as lowered,
        rows_that_run(expansions, "EXPANSIONS") as expanded,
        rows_that_run(expansions.complex_numbers, "table") as in_parts,
    ):
        found: set[str] = set()
        yield found
        found |= lowered | expanded | in_parts


@pytest.mark.parametrize("group", [pytest.param(g, id=i) for i, g in GROUPS.items()])
def test_rows_are_torchs(group: Group) -> None:
    with running() as ran:
        check(group, *group.arrays, dynamic=group.dynamic, atol=group.atol)
    rows = {case.row for case in group.cases}
    assert {row for row in rows if KEPT_SINCE.get(row, "0") <= INSTALLED} <= ran


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.row)
def test_row_says_why_it_refuses(case: Refused) -> None:
    group = Group([case])
    with pytest.raises(UnsupportedError, match=f"{case.row}(.|\\n)*{case.says}"):
        read(Function(group), [("", a) for a in group.arrays], LoadOptions())


def test_every_row_has_a_case() -> None:
    added = {row for row, version in SINCE.items() if version > INSTALLED}
    removed = {row for row, version in UNTIL.items() if version <= INSTALLED}
    assert added | removed >= ABSENT, "torch has no such operator"
    assert ROWS - set(NAMED) - ABSENT == set(), "declare a case in tests/rows/torch_module"
    assert set(NAMED) - ROWS == set(), "no such row"
