"""Second names of MXNet's operators: former ones, those of ``mx.np`` and ``mx.npx``, and of sparse arrays."""

from __future__ import annotations

_FORMER = {
    "_Plus": "elemwise_add",
    "_plus": "elemwise_add",
    "_add": "elemwise_add",
    "_grad_add": "elemwise_add",
    "_Minus": "elemwise_sub",
    "_minus": "elemwise_sub",
    "_sub": "elemwise_sub",
    "_Mul": "elemwise_mul",
    "_mul": "elemwise_mul",
    "_Div": "elemwise_div",
    "_div": "elemwise_div",
    "_PlusScalar": "_plus_scalar",
    "_MinusScalar": "_minus_scalar",
    "_RMinusScalar": "_rminus_scalar",
    "_MulScalar": "_mul_scalar",
    "_DivScalar": "_div_scalar",
    "_RDivScalar": "_rdiv_scalar",
    "_PowerScalar": "_power_scalar",
    "_RPowerScalar": "_rpower_scalar",
    "_ModScalar": "_mod_scalar",
    "_RModScalar": "_rmod_scalar",
    "_HypotScalar": "_hypot_scalar",
    "_MaximumScalar": "_maximum_scalar",
    "_MinimumScalar": "_minimum_scalar",
    "_EqualScalar": "_equal_scalar",
    "_NotEqualScalar": "_not_equal_scalar",
    "_GreaterScalar": "_greater_scalar",
    "_GreaterEqualScalar": "_greater_equal_scalar",
    "_LesserScalar": "_lesser_scalar",
    "_LesserEqualScalar": "_lesser_equal_scalar",
    "_LogicalAndScalar": "_logical_and_scalar",
    "_LogicalOrScalar": "_logical_or_scalar",
    "_LogicalXorScalar": "_logical_xor_scalar",
    **{
        name: name.lower()
        for name in (
            *("_Maximum", "_Minimum", "_Power", "_Mod", "_Hypot", "_Equal", "_Not_Equal", "_Greater"),
            *("_Greater_Equal", "_Lesser", "_Lesser_Equal", "_Logical_And", "_Logical_Or", "_Logical_Xor"),
        )
    },
    "ElementWiseSum": "add_n",
    "_sum": "add_n",
    **{
        f"linalg_{name}": f"_linalg_{name}"
        for name in (
            *("det", "extractdiag", "extracttrian", "gelqf", "gemm", "gemm2", "inverse", "makediag"),
            *("maketrian", "potrf", "potri", "slogdet", "sumlogdiag", "syevd", "syrk", "trmm", "trsm"),
        )
    },
    "Softmax": "SoftmaxOutput",
    "ctc_loss": "CTCLoss",
    "_contrib_CTCLoss": "CTCLoss",
    "_contrib_ctc_loss": "CTCLoss",
    "_contrib_SparseEmbedding": "Embedding",
    "_contrib_box_non_maximum_suppression": "_contrib_box_nms",
    "_contrib_round_ste": "round",
    "_contrib_sign_ste": "sign",
    "_copyto": "_copy",
    "_CrossDeviceCopy": "_copy",
    "_crop_assign": "_slice_assign",
    "_crop_assign_scalar": "_slice_assign_scalar",
    "_scatter_elemwise_div": "elemwise_div",
    "_scatter_minus_scalar": "_minus_scalar",
    "_scatter_plus_scalar": "_plus_scalar",
    "_zeros_without_dtype": "_zeros",
    "concat": "Concat",
    "choose_element_0index": "pick",
    "cumsum": "_np_cumsum",
    "flatten": "Flatten",
    "reshape": "Reshape",
    "split": "SliceChannel",
    "swapaxes": "SwapAxis",
    "cast": "Cast",
    "pad": "Pad",
    "crop": "slice",
    "flip": "reverse",
    "stop_gradient": "BlockGrad",
    "make_loss": "MakeLoss",
    "identity": "_copy",
    "sum_axis": "sum",
    "max_axis": "max",
    "min_axis": "min",
    "broadcast_axes": "broadcast_axis",
    "broadcast_plus": "broadcast_add",
    "broadcast_minus": "broadcast_sub",
    "normal": "_random_normal",
    "random_normal": "_random_normal",
    "uniform": "_random_uniform",
    "random_uniform": "_random_uniform",
    "sample_multinomial": "_sample_multinomial",
    "ravel_multi_index": "_ravel_multi_index",
    "unravel_index": "_unravel_index",
}

_NUMPY = {
    **{
        f"_npi_{name}": name
        for name in (
            *(
                "abs",
                "arccos",
                "arccosh",
                "arcsin",
                "arcsinh",
                "arctan",
                "arctanh",
                "argsort",
                "cbrt",
                "ceil",
            ),
            *("clip", "cos", "cosh", "degrees", "exp", "expand_dims", "expm1", "fix", "floor", "gather_nd"),
            *("log", "log10", "log1p", "log2", "negative", "radians", "reciprocal", "rint", "sign", "sin"),
            *("sinh", "slice", "sort", "sqrt", "square", "take", "tan", "tanh", "tile", "trunc"),
        )
    },
    **{
        f"_npx_{name}": name
        for name in (
            *(
                "batch_dot",
                "erf",
                "erfinv",
                "gamma",
                "gammaln",
                "gather_nd",
                "log_softmax",
                "one_hot",
                "pick",
            ),
            *("reshape_like", "shape_array", "slice", "smooth_l1", "softmax", "topk"),
        )
    },
    "_np_repeat": "repeat",
    "_npi_reshape": "_npx_reshape",
    "_npi_absolute": "abs",
    "_npi_cast": "Cast",
    "_npi_det": "_linalg_det",
    "_npi_full": "_full",
    "_npi_histogram": "_histogram",
    "_npi_hypot_scalar": "_hypot_scalar",
    "_npi_inv": "_linalg_inverse",
    "_npi_linspace": "_linspace",
    "_npi_maximum": "broadcast_maximum",
    "_npi_maximum_scalar": "_maximum_scalar",
    "_npi_minimum": "broadcast_minimum",
    "_npi_minimum_scalar": "_minimum_scalar",
    "_npi_rnn_param_concat": "_rnn_param_concat",
    "_npi_slice_assign": "_slice_assign",
    "_npi_slice_assign_scalar": "_slice_assign_scalar",
    "_npi_slogdet": "_linalg_slogdet",
    "_npi_split": "_split_v2",
    "_npi_swapaxes": "SwapAxis",
    "_npx__image_normalize": "_image_normalize",
    "_npx__image_to_tensor": "_image_to_tensor",
    "_npx_activation": "Activation",
    "_npx_arange_like": "_contrib_arange_like",
    "_npx_batch_flatten": "Flatten",
    "_npx_batch_norm": "BatchNorm",
    "_npx_cast": "Cast",
    "_npx_convolution": "Convolution",
    "_npx_deconvolution": "Deconvolution",
    "_npx_dropout": "Dropout",
    "_npx_embedding": "Embedding",
    "_npx_fully_connected": "FullyConnected",
    "_npx_layer_norm": "LayerNorm",
    "_npx_leaky_relu": "LeakyReLU",
    "_npx_multibox_detection": "_contrib_MultiBoxDetection",
    "_npx_multibox_prior": "_contrib_MultiBoxPrior",
    "_npx_pooling": "Pooling",
    "_npx_rnn": "RNN",
    "_npx_roi_pooling": "ROIPooling",
    "_npx_sequence_mask": "SequenceMask",
}

_ALIASES = {**_FORMER, **_NUMPY}
_SPARSE, _OF_SPARSE_ARRAYS = "_sparse_", frozenset(["retain", "adagrad_update", "cast_storage"])


def canonical(name: str) -> str:
    """Return the name under which MXNet 1.9.1 saves an operator.

    Example:
        >>> canonical("_Plus"), canonical("_sparse_broadcast_plus"), canonical("_npx_convolution")
        ('elemwise_add', 'broadcast_add', 'Convolution')
    """
    if name.startswith(_SPARSE) and name.removeprefix(_SPARSE) not in _OF_SPARSE_ARRAYS:
        name = name.removeprefix(_SPARSE)  # of dense arrays, which all are here, it computes the same
    return _ALIASES.get(name, name)
