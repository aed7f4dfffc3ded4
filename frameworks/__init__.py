"""The facts on the layers of torch, MindSpore and MXNet, each stated once, in a file a framework."""

from .mindspore import MINDSPORE
from .mxnet import GLUON
from .record import Framework
from .torch import TORCH

_FRAMEWORKS = {"torch": TORCH, "mindspore": MINDSPORE, "mxnet": GLUON}


def framework_of(name: str) -> Framework:
    """Return a framework's records; none for what has no layers, as ONNX."""
    return _FRAMEWORKS.get(name) or Framework((), ())
