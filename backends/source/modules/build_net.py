"""Turns every module of a graph into a layer, a container, or an instance of a class of the file."""

from __future__ import annotations

from ..dialect import Dialect
from .class_modules import make_instance
from .containers import make_container, make_parameter_list
from .contraction import Contraction
from .emitted_net import EmittedNet
from .layers import make_layer
from .module_plan import ModulePlan


def build_net(contraction: Contraction, dialect: Dialect, *, explicit: bool = False) -> EmittedNet:
    """Make every module, each after those that it contains and calls.

    Args:
        contraction: the bodies of the graph's calls.
        dialect: what is written.
        explicit: whether layers state the initial distributions that are the framework's defaults too.
    """
    keeps_unread = contraction.graph.origin.framework == (dialect.keeps or None)
    plan = ModulePlan(contraction.graph, contraction, keeps_unread=keeps_unread)
    net = EmittedNet(plan, dialect, explicit=explicit)
    layers = {key: make_layer(net, net.tree.module(key)) for key in net.modules.position}
    for level in net.levels:
        for key in level:
            module = net.tree.module(key)
            held = layers[key] or make_parameter_list(net, module) or make_container(net, module)
            net.by_module[key] = held or make_instance(net, module)
    net.paths = net.find_paths()
    return net
