"""MindSpore source is written where MindSpore is not installed, with the names that are recorded of it."""

import sys

import pytest

from regraft.backends.mindspore_source import naming
from regraft.backends.mindspore_source.dialect import NAMES
from regraft.backends.mindspore_source.recorded_names import ATTRIBUTES_OF_CELL, INITIALIZER_CLASSES


def test_the_installed_mindspore_has_no_name_that_is_not_recorded():
    assert naming.reserved_attributes() - ATTRIBUTES_OF_CELL == set()
    assert naming.initializer_classes() - INITIALIZER_CLASSES == set()


def test_without_mindspore_the_recorded_names_are_taken(monkeypatch: pytest.MonkeyPatch):
    for function in (naming.reserved_attributes, naming.initializer_classes):
        function.cache_clear()
    for name in [n for n in sys.modules if n.partition(".")[0] == "mindspore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mindspore", None)
    try:
        assert naming.reserved_attributes() is ATTRIBUTES_OF_CELL
        assert naming.initializer_classes() is INITIALIZER_CLASSES
        assert NAMES.attribute("construct") == "construct_"
    finally:
        for function in (naming.reserved_attributes, naming.initializer_classes):
            function.cache_clear()
