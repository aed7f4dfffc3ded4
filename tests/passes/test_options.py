"""Pass options on the command line."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from regraft.ir import Graph, PassError
from regraft.passes import DeduplicateModules, Pass, RenameParameters, describe, parse_pass
from regraft.passes.options import make_pass


@dataclass(frozen=True)
class Everything(Pass):
    """A pass with an option of every kind."""

    name: ClassVar[str] = "everything"

    tie: tuple[tuple[str, ...], ...] = ()
    only: tuple[str, ...] = ()
    by: Literal["storage", "value"] = "storage"
    keep_names: bool = False
    size: int = 3
    note: str = ""


def test_only_the_first_colon_separates():
    assert make_pass({"everything": Everything}, "everything:note=a:b:c").note == "a:b:c"


def test_an_option_may_repeat_and_plus_joins_values():
    made = make_pass({"everything": Everything}, "everything:tie=a.w+b.w,tie=c+d+e,only=x+y,only=z")
    assert made.tie == (("a.w", "b.w"), ("c", "d", "e"))
    assert made.only == ("x", "y", "z")


def test_values_are_converted_by_the_types_of_the_fields():
    made = make_pass({"everything": Everything}, "everything:by=value,keep-names,size=7")
    assert (made.by, made.keep_names, made.size) == ("value", True, 7)
    assert not make_pass({"everything": Everything}, "everything:keep-names=off").keep_names


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("rename-parameter", "E502", "did you mean `rename-parameters`"),
        ("xyz", "E502", "passes: "),
        ("rename-parameters:shceme=path", "E502", "did you mean `scheme`"),
        ("rename-parameters:scheme=color", "E501", "`path`, `declared`"),
        ("rename-parameters:scheme=path+declared", "E501", "expected one value"),
        ("rename-parameters:scheme=path,scheme=path", "E501", "expected one value"),
        ("expand-composites:ops=MultiHeadAttention", "E501", "did you mean MultiheadAttention"),
    ],
)
def test_a_wrong_text_is_refused_with_advice(text, code, message):
    with pytest.raises(PassError, match=message) as caught:
        parse_pass(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "text", ["everything:tie=a", "everything:tie=a+", "everything:size=x", "everything:keep-names=maybe"]
)
def test_a_value_that_does_not_fit_is_refused(text):
    with pytest.raises(PassError, match="E501"):
        make_pass({"everything": Everything}, text)


def test_the_default_is_the_dataclass_default():
    assert parse_pass("rename-parameters") == RenameParameters()


def test_describe_takes_passes_and_codes_and_suggests():
    assert "Leaves alone:" in describe("rename-parameters")
    assert describe("rp101").startswith("RP101: several parameters have one name")
    assert describe("E501").startswith("E501: ")
    with pytest.raises(PassError, match="did you mean `rename-parameters`"):
        describe("rename-parametrs")


def test_modules_of_one_structure_are_named_up_to_eight_and_all_of_them_on_demand():
    graph = Graph()
    tree = graph.modules
    root = tree.add("Net")
    for number in range(47):
        layer = tree.add("Layer")
        tree.register(root, f"layer{number}", layer)
        tree.register(layer, "act", tree.add("ReLU"))
    (change,) = [c for c in DeduplicateModules().run(graph) if c.code == "DM103"]
    assert change.message.startswith("47 modules of one structure share one class definition `Layer`: ")
    assert change.message.endswith("`layer7`, …")
    assert change.members == tuple(f"`layer{number}`" for number in range(47))
