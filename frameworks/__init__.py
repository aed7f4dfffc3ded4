"""The facts on the layers of torch, MindSpore and MXNet, each stated once, in a file a framework."""

from .mindspore import MINDSPORE
from .mxnet import GLUON
from .record import Framework
from .torch import TORCH

FRAMEWORKS: dict[str, Framework] = {"torch": TORCH, "mindspore": MINDSPORE, "mxnet": GLUON}
