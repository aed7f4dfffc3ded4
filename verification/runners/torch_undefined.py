"""Watches for NaN that enters operators of torch whose documents leave open what they give of it."""

from __future__ import annotations

from typing import Any

_NAMES = """
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d amax amin aminmax argmax argmin
argsort bincount bucketize celu clamp clamp_max clamp_min cummax cummin elu erf
fractional_max_pool2d fractional_max_pool3d gelu glu grid_sampler_2d grid_sampler_3d gru
hardshrink hardsigmoid hardswish hardtanh heaviside histc index_reduce kthvalue leaky_relu
log_sigmoid_forward lstm max max_pool2d_with_indices max_pool3d_with_indices maximum median min
minimum mish mkldnn_rnn_layer mode prelu relu relu6 rrelu scatter_reduce searchsorted selu
sigmoid sign silu softplus softshrink sort tanh threshold topk unique_consecutive unique_dim
_unique2 _prelu_kernel _thnn_fused_gru_cell _thnn_fused_lstm_cell
"""

_OPEN = frozenset(_NAMES.split())
"""Operators that order numbers, or end somewhere, without the underscore of those that work in place."""

_PLACES = frozenset(["_to_copy", "grid_sampler_2d", "grid_sampler_3d"])
"""Operators that turn a number into a place or an integer, for which infinities are undefined too."""


def watch() -> Any:
    """Return a with block that sets its attribute `met` once NaN enters such an operator."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    integers = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

    class Watch(TorchDispatchMode):
        supports_higher_order_operators = True
        met = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            name = getattr(getattr(func, "overloadpacket", None), "__name__", "")
            name = name if name in _OPEN or not name.endswith("_") else name[:-1]
            narrowed = name == "_to_copy" and given.get("dtype") in integers
            length = name == "abs" and args[0].is_complex()  # torch's own vectors make numbers of some NaN
            if not self.met and (name in _OPEN or narrowed or length):
                self.met = any(_is_undefined(a, name in _PLACES) for a in args)  # before one works in place
            return func(*args, **given)

    def _is_undefined(value: Any, infinities: bool) -> bool:
        if isinstance(value, (list, tuple)):
            return any(_is_undefined(v, infinities) for v in value)
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return False
        return bool((~torch.isfinite(value) if infinities else torch.isnan(value)).any())

    return Watch()
