"""Every lowering of the torch frontend, merged by name."""

from __future__ import annotations

from ..lowering import LoweringTable
from .activation import ACTIVATION
from .attention import ATTENTION
from .context import Lowering
from .conv import CONV
from .creation import CREATION
from .indexing import INDEXING
from .linear import LINEAR
from .logic import LOGIC
from .math import MATH
from .norm import NORM
from .pool import POOL
from .recurrent import RECURRENT
from .reduce import REDUCE
from .resize import RESIZE
from .shape import SHAPE

TABLE: LoweringTable[Lowering] = LoweringTable("torch").include(
    CONV,
    POOL,
    NORM,
    ACTIVATION,
    ATTENTION,
    LINEAR,
    MATH,
    LOGIC,
    RECURRENT,
    REDUCE,
    SHAPE,
    INDEXING,
    CREATION,
    RESIZE,
)
"""Operator name (``aten.conv2d.default``) -> its lowering; in-place operators use their functional twins'."""

IGNORED = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
    }
)
"""Operators that check and compute nothing."""
