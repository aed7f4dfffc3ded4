"""Helpers of emitted files: each is written where it is named, with those that it uses itself."""

import ast

from regraft.backends.mindspore_source.emitters.own_functions import HELPERS
from regraft.backends.source.expressions import Call, Expression, Helper
from regraft.backends.source.helpers import HelperText, helper_texts


def used(name: str, helper: HelperText) -> set[str]:
    """The helpers that the text of one reads."""
    names = {node.id for node in ast.walk(ast.parse(helper.text)) if isinstance(node, ast.Name)}
    return (names & set(HELPERS)) - {name}


def test_a_helper_says_what_it_uses_and_is_behind_it() -> None:
    assert {name: set(helper.needs) for name, helper in HELPERS.items()} == {
        name: used(name, helper) for name, helper in HELPERS.items()
    }
    order = list(HELPERS)
    behind = [(name, other) for name, helper in HELPERS.items() for other in helper.needs]
    early = {(name, other) for name, other in behind if order.index(other) > order.index(name)}
    assert early == set()


def test_a_file_has_what_its_parts_name_and_what_that_needs() -> None:
    table = {
        "a": HelperText("A"),
        "b": HelperText("B", ("a",)),
        "c": HelperText("C", ("b",)),
        "d": HelperText("D"),
    }
    asked = Expression((Call(Helper("c"), ()), "d"))
    assert helper_texts(table, [asked]) == ["A", "B", "C"]
    assert helper_texts(table, ["d"]) == []
