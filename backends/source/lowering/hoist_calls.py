"""hoist-calls: a call is made by a module that contains the module called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ....ir import Graph, ModuleTree
from ....passes.base import Change, Pass
from ....passes.deduplicate_modules import holds_parameters
from ..borrowed_layers import borrowed_layers
from ..names import Names
from ..regions import home_of, is_region


@dataclass(frozen=True)
class HoistCalls(Pass):
    """Move calls up until their caller contains the module called.

    What it does:
        Makes a call of a module that its caller does not contain one of the caller's caller, and so on.

    Why:
        A `construct` reaches the modules of its own class and those below; what calls an embedding of another
        branch is written where both can be reached.

    Leaves alone:
        Regions, which move with their operator, and layers that a plain sequence is given by the class around
        it: ``Sequential(self.conv, nn.ReLU())``. In models of a framework whose registrations are all
        written, calls of what the caller has registered once more.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "embed" Linear {weight=%0} called from ["head#1"]
        ...   module "head" Head
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "embed.weight" : f32[4,4]
        ...   %y = regraft.Linear(%x, %0) : f32[N,4] @ "embed#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in HoistCalls().run(graph):
        ...     print(change)
        MS120 is called by a module that contains it - at embed
    """

    name: ClassVar[str] = "hoist-calls"
    codes: ClassVar[dict[str, str]] = {"MS120": "a module is called by one that contains it"}

    names: Names = field(default_factory=Names)
    shares: str = ""

    def run(self, graph: Graph) -> list[Change]:
        """Hoist; see the class."""
        tree = graph.modules
        changes: list[Change] = []
        shares = graph.origin.framework == (self.shares or None)
        for call in tree.calls():
            stays = shares and call.parent is not None and _holds(tree, call.parent, call.module)
            if not stays and not is_region(tree, call.module) and _hoist(tree, call.key, self.names):
                text = "is called by a module that contains it"
                changes.append(Change("MS120", text, tree.path(call.module)))
        return changes


def _holds(tree: ModuleTree, caller: int, module: int) -> bool:
    """Whether a call's module has another registered with its parameters, be it first or once more."""
    home = home_of(tree, tree.call(caller).module)
    return module in tree.below(home) and holds_parameters(tree, module)


def _hoist(tree: ModuleTree, key: int, names: Names) -> bool:
    """Move one call up; False where it may stay."""
    call = tree.call(key)
    path = tree.path(call.module)
    before = call.parent
    while call.parent is not None:
        caller = home_of(tree, tree.call(call.parent).module)
        above, held = tree.path(caller), borrowed_layers(tree, caller, names)
        up = tree.call(call.parent).parent
        if up is None or path.startswith(f"{above}." if above else "") or call.module in held:
            break
        tree.replace_call(key, module=call.module, parent=up)
        call = tree.call(key)
    return call.parent != before
