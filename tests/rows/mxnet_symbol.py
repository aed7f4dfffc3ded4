"""Cases of the MXNet frontend's rows that no recorded model has: row -> (its attributes, its inputs, how many
outputs where there are several). What follows a blank in a row's name tells its cases apart.

Whoever adds a row adds a line here and records it with `tests/tools/record_mxnet.py`, which imports this file
in MXNet's own Python: it is Python 3.8 and needs nothing but NumPy.
"""

import numpy as np

_RANDOM = np.random.RandomState(0)
_X = _RANDOM.standard_normal((2, 3)).astype(np.float32)
_Y = _RANDOM.standard_normal((2, 3)).astype(np.float32)
_WIDE = _RANDOM.standard_normal((2, 1, 4)).astype(np.float32)
_TALL = _RANDOM.standard_normal((1, 3, 4)).astype(np.float32)
_SOME = np.array([[0, 1, -2], [1, 0, 1]], np.float32)
_MORE = np.array([[1, 1, 0], [1, 0, -2]], np.float32)
_HOLES = np.array([[1, np.nan, 3], [np.nan, 2, 4]], np.float32)
_SQUARE = _RANDOM.standard_normal((2, 3, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)
_GOOD = np.matmul(_SQUARE, _SQUARE.transpose(0, 2, 1))
_BESIDE = _RANDOM.standard_normal((2, 3, 2)).astype(np.float32)
_FLAT = _BESIDE.transpose(0, 2, 1).copy()
_TRIANGLE, _GRID = (
    np.arange(12, dtype=np.float32).reshape(2, 6),
    np.arange(16, dtype=np.float32).reshape(1, 4, 4),
)
_RIGHT = {"rightside": "True", "transpose": "True", "lower": "False", "alpha": "0.5"}

MATRICES = {
    "_linalg_gemm": ({"transpose_a": "True", "alpha": "2", "beta": "0.5"}, [_SQUARE, _BESIDE, _BESIDE]),
    "_linalg_gemm2": ({"transpose_b": "True", "alpha": "2"}, [_BESIDE, _BESIDE]),
    "_linalg_syrk": ({"transpose": "True", "alpha": "2"}, [_BESIDE]),
    "_linalg_syrk plain": ({}, [_BESIDE]),
    "_linalg_trmm": ({}, [_SQUARE, _BESIDE]),
    "_linalg_trmm right": (_RIGHT, [_SQUARE, _FLAT]),
    "_linalg_trsm": ({"transpose": "True"}, [_SQUARE, _BESIDE]),
    "_linalg_trsm right": (_RIGHT, [_SQUARE, _FLAT]),
    "_linalg_trsm beside": ({"rightside": "True"}, [_SQUARE, _FLAT]),
    "_linalg_potrf": ({}, [np.tril(_GOOD)]),
    "_linalg_potrf upper": ({"lower": "False"}, [np.triu(_GOOD)]),
    "_linalg_potri": ({}, [_SQUARE]),
    "_linalg_potri upper": ({"lower": "False"}, [_SQUARE]),
    "_linalg_inverse": ({}, [_SQUARE]),
    "_linalg_det": ({}, [_SQUARE]),
    "_linalg_slogdet": ({}, [-_SQUARE], 2),
    "_linalg_gelqf": ({}, [_FLAT], 2),
    "_linalg_syevd": ({}, [_SQUARE], 2),
    "_linalg_extractdiag": ({"offset": "1"}, [_SQUARE]),
    "_linalg_makediag": ({"offset": "-1"}, [_X]),
    "_linalg_extracttrian": ({}, [_SQUARE]),
    "_linalg_extracttrian upper": ({"lower": "False"}, [_SQUARE]),
    "_linalg_extracttrian above": ({"offset": "1"}, [_GRID]),
    "_linalg_extracttrian below": ({"offset": "-1"}, [_SQUARE]),
    "_linalg_maketrian": ({}, [_TRIANGLE]),
    "_linalg_maketrian upper": ({"lower": "False"}, [_TRIANGLE]),
    "_linalg_maketrian above": ({"offset": "1"}, [_TRIANGLE]),
    "_linalg_sumlogdiag": ({}, [_GOOD]),
    **{f"_linalg_{name} single": ({}, [_GOOD[0]]) for name in ("det", "sumlogdiag", "extractdiag")},
}

_SCORES = 2 * _RANDOM.standard_normal((6, 3, 5)).astype(np.float32)
_LABELS = np.array([[1, 2, 2], [3, 0, 0], [1, 0, 2]], np.float32)
_FRAMES, _COUNTS = np.array([6, 4, 2], np.float32), np.array([3, 1, 0], np.float32)
_LENGTHS = {"use_data_lengths": "True", "use_label_lengths": "True"}

ALIGNMENTS = {
    "CTCLoss": ({}, [_SCORES, _LABELS]),
    "CTCLoss last": ({"blank_label": "last"}, [_SCORES, _LABELS - 1]),
    "CTCLoss lengths": (_LENGTHS, [_SCORES, _LABELS, _FRAMES, _COUNTS]),
    "CTCLoss short": ({}, [_SCORES[:3], _LABELS]),
    "CTCLoss labels": ({"use_label_lengths": "True"}, [_SCORES, _LABELS, _COUNTS]),
}


def _boxes(*lead, side=1.0):
    """Boxes in corners, of which many overlap."""
    start = _RANDOM.uniform(0, 0.6, (*lead, 2))
    return (
        np.concatenate([start, start + _RANDOM.uniform(0.1, 0.5, (*lead, 2))], -1).astype(np.float32) * side
    )


def _detections(*lead, classes=3):
    """Rows of class, score and box; each score is there once but for two that are equal."""
    kinds = _RANDOM.randint(-1, classes, (*lead, 1))
    scores = _RANDOM.permutation(int(np.prod(lead))).reshape(*lead, 1) / float(np.prod(lead))
    scores[..., 1, :] = scores[..., 2, :]
    return np.concatenate([kinds, scores, _boxes(*lead)], -1).astype(np.float32)


_FOUND = _detections(2, 12)
_PLAIN = np.concatenate([_FOUND[..., 2:], _FOUND[..., 1:2]], -1)
_ANCHORS, _OTHERS = _boxes(1, 7), _boxes(2, 5)
_MOVES = _RANDOM.standard_normal((2, 7, 4)).astype(np.float32)
_PROBABLE = np.abs(_RANDOM.standard_normal((2, 3, 7))).astype(np.float32)
_PROBABLE = (_PROBABLE / _PROBABLE.sum(1, keepdims=True)).astype(np.float32)
_SECOND = {"coord_start": "2", "score_index": "1", "id_index": "0", "valid_thresh": "0.1"}
_DETECTED = [_PROBABLE, _MOVES.reshape(2, 28), _ANCHORS]

BOXES = {
    "_contrib_box_nms": (dict(_SECOND), [_FOUND]),
    "_contrib_box_nms together": (dict(_SECOND, force_suppress="True", overlap_thresh="0.3"), [_FOUND]),
    "_contrib_box_nms background": (dict(_SECOND, background_id="1", topk="6"), [_FOUND]),
    "_contrib_box_nms one": ({"coord_start": "0", "score_index": "4"}, [_PLAIN[0]]),
    "_contrib_box_nms deep": (
        {"coord_start": "0", "score_index": "4", "topk": "5"},
        [_PLAIN.reshape(2, 2, 6, 5)],
    ),
    "_contrib_box_nms center": (dict(_SECOND, in_format="center", topk="9"), [_FOUND]),
    "_contrib_box_nms to center": (dict(_SECOND, out_format="center"), [_FOUND]),
    "_contrib_box_nms centers": (dict(_SECOND, in_format="center", out_format="center"), [_FOUND]),
    "_contrib_box_nms nothing": (dict(_SECOND, valid_thresh="2"), [_FOUND]),
    "_contrib_box_nms unlimited": (dict(_SECOND, topk="0"), [_FOUND]),
    "_contrib_box_iou": ({}, [_OTHERS, _ANCHORS[0]]),
    "_contrib_box_iou center": ({"format": "center"}, [_OTHERS[0], _boxes(3)]),
    "_contrib_box_decode": ({"std0": "0.1", "std3": "0.2"}, [_MOVES, _ANCHORS]),
    "_contrib_box_decode clip": ({"format": "corner", "clip": "0.5"}, [_MOVES, _ANCHORS]),
    "_contrib_box_encode": (
        {},
        [
            np.array([[1, 0, 1, -1, 1, 1, 0]] * 2, np.float32),
            _RANDOM.randint(0, 5, (2, 7)).astype(np.float32),
            np.concatenate([_ANCHORS, _boxes(1, 7)]),
            _OTHERS,
            np.array([0, 0.1, 0, 0], np.float32),
            np.array([0.1, 0.1, 0.2, 0.2], np.float32),
        ],
        2,
    ),
    "_contrib_bipartite_matching": ({"threshold": "0.3"}, [_RANDOM.rand(2, 4, 6).astype(np.float32)], 2),
    "_contrib_bipartite_matching least": (
        {"threshold": "0.6", "is_ascend": "True", "topk": "1"},
        [_RANDOM.rand(5, 3).astype(np.float32)],
        2,
    ),
    "_contrib_MultiBoxPrior": (
        {"sizes": "(0.5, 0.2)", "ratios": "(1, 2, 0.5)", "steps": "(0.3, 0.2)", "clip": "True"},
        [np.zeros((1, 2, 3, 4), np.float32)],
    ),
    "_contrib_MultiBoxPrior bare": ({"offsets": "(0.3, 0.7)"}, [np.zeros((2, 1, 5, 3), np.float32)]),
    "_contrib_MultiBoxDetection": ({"threshold": "0.4"}, _DETECTED),
    "_contrib_MultiBoxDetection few": ({"nms_topk": "3", "nms_threshold": "0.2", "clip": "False"}, _DETECTED),
    "_contrib_MultiBoxDetection together": ({"force_suppress": "True", "nms_threshold": "0.1"}, _DETECTED),
    "_contrib_MultiBoxDetection all": ({"nms_threshold": "-1", "threshold": "0.5"}, _DETECTED),
}

_MAP = _RANDOM.standard_normal((2, 8, 9, 11)).astype(np.float32)
_REGIONS = np.concatenate([_RANDOM.randint(0, 2, (6, 1)), _boxes(6, side=40)], -1).astype(np.float32)
_ABSENT = np.concatenate([_REGIONS, [[-1, 0, 0, 9, 9]]]).astype(np.float32)
_POOLED = {"pooled_size": "(2, 2)", "spatial_scale": "0.25"}
_PROPOSED = {
    "rpn_pre_nms_top_n": "40", "rpn_post_nms_top_n": "8", "rpn_min_size": "6", "feature_stride": "8",
    "scales": "(1, 2)", "ratios": "(0.5, 1)", "threshold": "0.6",
}  # fmt: skip
_RATED = _RANDOM.permutation(2 * 8 * 30).reshape(2, 8, 5, 6).astype(np.float32) / 480
_SHIFTED = [_RATED, 0.2 * _RANDOM.standard_normal((2, 16, 5, 6)).astype(np.float32)]
_SIZES = np.array([[38, 45, 1], [40, 48, 1.5]], np.float32)
_WINDOW = {"kernel": "(3, 3)", "num_filter": "4", "pad": "(1, 1)"}
_PLACES = 1.5 * _RANDOM.standard_normal((2, 2 * 18, 9, 11)).astype(np.float32)
_KERNEL = _RANDOM.standard_normal((4, 8, 3, 3)).astype(np.float32)
_GROUPED = _RANDOM.standard_normal((4, 4, 3, 3)).astype(np.float32)

REGIONS = {
    "_contrib_ROIAlign": (dict(_POOLED, sample_ratio="2"), [_MAP, _REGIONS]),
    "_contrib_ROIAlign adaptive": (_POOLED, [_MAP, _REGIONS]),
    "_contrib_ROIAlign aligned": (dict(_POOLED, sample_ratio="3", aligned="True"), [_MAP, _REGIONS]),
    "_contrib_ROIAlign parts": (dict(_POOLED, sample_ratio="2", position_sensitive="True"), [_MAP, _REGIONS]),
    "ROIPooling": (_POOLED, [_MAP, _ABSENT]),
    "_contrib_Proposal": (_PROPOSED, [_RATED[:1], _SHIFTED[1][:1], _SIZES[:1]]),
    "_contrib_Proposal scored": (
        dict(_PROPOSED, output_score="True", iou_loss="True", rpn_post_nms_top_n="50"),
        [_RATED[:1], 5 * _SHIFTED[1][:1], _SIZES[:1]],
        2,
    ),
    "_contrib_MultiProposal": (_PROPOSED, [*_SHIFTED, _SIZES]),
    "_contrib_DeformableConvolution": (
        dict(_WINDOW, num_deformable_group="2", num_group="2"),
        [_MAP, _PLACES, _GROUPED, np.arange(4, dtype=np.float32)],
    ),
    "_contrib_ModulatedDeformableConvolution": (
        dict(_WINDOW, no_bias="True"),
        [_MAP, _PLACES[:, :18], _RANDOM.rand(2, 9, 9, 11).astype(np.float32), _KERNEL],
    ),
}

_STEPS = _RANDOM.standard_normal((5, 3, 2)).astype(np.float32)
_ENDS = np.array([5, 2, 0], np.float32)
_ATTENDED = _RANDOM.standard_normal((4, 2, 12)).astype(np.float32)

OTHERS = {
    "SequenceMask": ({"use_sequence_length": "True", "value": "-7"}, [_STEPS, _ENDS]),
    "SequenceMask batch": (
        {"use_sequence_length": "True", "axis": "1"},
        [_STEPS, np.array([3, 1, 0, 2, 3], np.float32)],
    ),
    "SequenceReverse": ({"use_sequence_length": "True"}, [_STEPS, np.array([5, 2, 1], np.float32)]),
    "SequenceReverse whole": ({}, [_STEPS]),
    "_rnn_param_concat": ({"dim": "0", "num_args": "2"}, [_X.ravel(), _Y.ravel()[:4]]),
    "GridGenerator": (
        {"transform_type": "affine", "target_shape": "(3, 4)"},
        [_X[:, [0, 1, 2, 0, 1, 2]] + 1],
    ),
    "GridGenerator warp": ({"transform_type": "warp"}, [2 * _MAP[:, :2]]),
    "BilinearSampler": ({}, [_MAP, 1.2 * np.tanh(_MAP[:, :2, :4, :5])]),
    "SpatialTransformer": (
        {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(4, 6)"},
        [_MAP, np.array([[1, 0.2, 0, -0.1, 0.8, 0.1], [0.5, 0, 0.3, 0, 1.2, -0.2]], np.float32)],
    ),
    "im2col": ({"kernel": "(2, 3)", "stride": "(2, 1)", "pad": "(1, 0)", "dilate": "(1, 2)"}, [_MAP[:, :3]]),
    "col2im": ({"output_size": "(4, 5)", "kernel": "(2, 2)"}, [_RANDOM.rand(2, 12, 12).astype(np.float32)]),
    "Correlation": (
        {"kernel_size": "1", "max_displacement": "2", "stride2": "2", "pad_size": "2"},
        [_MAP, _MAP[::-1].copy()],
    ),
    "Correlation apart": (
        {
            "kernel_size": "3",
            "max_displacement": "1",
            "stride1": "2",
            "pad_size": "3",
            "is_multiply": "False",
        },
        [_MAP, _MAP[::-1].copy()],
    ),
    "_contrib_quantize_v2": ({"out_type": "int8"}, [_X], 3),
    "_contrib_quantize_v2 known": (
        {"out_type": "auto", "min_calib_range": "0", "max_calib_range": "1.5"},
        [_X],
        3,
    ),
    "_contrib_dequantize": (
        {},
        [np.array([[-128, 3, 127]], np.int8), np.array([-2], np.float32), np.array([1.5], np.float32)],
    ),
    "_image_to_tensor": ({}, [_RANDOM.randint(0, 256, (3, 4, 3)).astype(np.uint8)]),
    "_image_normalize": (
        {"mean": "(0.1, 0.2, 0.3)", "std": "(0.5, 1.5, 2)"},
        [_RANDOM.rand(3, 4, 5).astype(np.float32)],
    ),
    "scatter_nd": (
        {"shape": "(2, 4)"},
        [np.array([2, 3, 4], np.float32), np.array([[1, 1, 0], [0, 1, 3]], np.float32)],
    ),
    "_backward_gather_nd": (
        {"shape": "(2, 4)"},
        [np.array([2, 3, 4], np.float32), np.array([[1, 1, 0], [0, 0, 3]], np.float32)],
    ),
    "_contrib_index_copy": ({}, [np.zeros((4, 3), np.float32), np.array([3, 0], np.float32), _X]),
    "_contrib_index_array": ({}, [_X]),
    "_contrib_index_array axes": ({"axes": "(1, 0)"}, [_STEPS]),
    "_slice_assign": ({"begin": "(None, 2)", "end": "(None, 0)", "step": "(None, -1)"}, [_X, _Y[:, :2]]),
    "_slice_assign_scalar": ({"begin": "(1,)", "end": "(2,)", "scalar": "5"}, [_X]),
    "_ravel_multi_index": ({"shape": "(3, 4, 5)"}, [np.array([[2, 0], [3, 1], [4, 2]], np.float32)]),
    "_unravel_index": ({"shape": "(3, 4, 5)"}, [np.array([59, 7, 20], np.float32)]),
    "_contrib_SyncBatchNorm": (
        {"fix_gamma": "False", "eps": "0.01", "ndev": "2", "key": "bn"},
        [_STEPS, _ENDS[:3] + 1, _ENDS[:3], _ENDS[:3] / 5, _ENDS[:3] + 0.5],
    ),
    "khatri_rao": ({"num_args": "3"}, [_X, _Y, _X[:1]]),
    "softmax_cross_entropy": ({}, [_X, np.array([2, 0], np.float32)]),
    "_contrib_gradientmultiplier": ({"scalar": "3"}, [_X]),
    "IdentityAttachKLSparseReg": ({}, [np.tanh(_X) ** 2, np.zeros(3, np.float32)]),
    "_contrib_quadratic": ({"a": "2", "b": "-1", "c": "0.5"}, [_X]),
    "_contrib_allclose": ({"rtol": "0", "atol": "10"}, [_X, _Y]),
    "_contrib_allclose holes": ({}, [_HOLES, _HOLES]),
    "_contrib_allclose other holes": ({"equal_nan": "False"}, [_HOLES, _HOLES]),
    "_contrib_allclose not": ({"equal_nan": "True"}, [_HOLES, _HOLES + 1]),
    "_histogram": (
        {"bin_cnt": "4", "range": "(-1, 1)"},
        [np.array([-1, -0.5, 0, 0.2, 1, 1.1, -3], np.float32)],
        2,
    ),
    "_histogram bins": ({}, [_X, np.array([-1, 0, 0.3, 2], np.float32)], 2),
    "_np_cumsum": ({"axis": "1"}, [_X]),
    "_np_cumsum all": ({}, [_X]),
    "diag": ({"k": "1"}, [_X]),
    "diag vector": ({"k": "-2"}, [_X[0]]),
    "diag deep": ({"axis1": "0", "axis2": "2", "k": "-1"}, [_STEPS]),
    "_contrib_interleaved_matmul_encdec_qk": ({"heads": "3"}, [_ATTENDED, np.repeat(_ATTENDED[:3], 2, 2)]),
    "_contrib_interleaved_matmul_encdec_valatt": (
        {"heads": "3"},
        [np.repeat(_ATTENDED[:3], 2, 2), _RANDOM.rand(6, 4, 3).astype(np.float32)],
    ),
}

RANDOM = {
    "_random_uniform": ({"low": "-1", "high": "3", "shape": "(4000,)"}, []),
    "_random_normal": ({"loc": "2", "scale": "0.5", "shape": "(2, 2000)"}, []),
    "_random_uniform_like": ({"low": "-1", "high": "3"}, [np.zeros((2, 2000), np.float32)]),
    "_random_normal_like": ({"loc": "2", "scale": "0.5"}, [np.zeros((2, 2000), np.float32)]),
    "_sample_multinomial": ({"shape": "2000"}, [np.array([[0.2, 0.8], [0.5, 0.5]], np.float32)]),
    "_random_exponential": ({"lam": "2", "shape": "(4000,)"}, []),
    "_random_exponential_like": ({"lam": "2"}, [np.zeros((2, 2000), np.float32)]),
    "_random_randint": ({"low": "-2", "high": "3", "shape": "(2, 2000)"}, []),
    "_sample_uniform": ({"shape": "(2000,)"}, [np.array([-1, -1], np.float32), np.array([3, 3], np.float32)]),
    "_sample_normal": ({"shape": "2000"}, [np.array([2, 2], np.float32), np.array([0.5, 0.5], np.float32)]),
    "_sample_exponential": ({"shape": "2000"}, [np.array([2, 2], np.float32)]),
    "_shuffle": ({}, [np.arange(4000, dtype=np.float32)]),
}
"""Of these the laws are compared, as each run draws numbers of its own."""

_IMAGE = _RANDOM.standard_normal((1, 2, 4, 5)).astype(np.float32)
_COUNTS_OF = np.array([[3, 1, 2], [0, 5, -5]], np.int32)

TYPES = {
    "argmax int32": ({"axis": "1"}, [_COUNTS_OF]),
    "argmin float16": ({}, [_X.astype(np.float16)]),
    "ones_like int32": ({"dtype": "int32"}, [_X]),
    "zeros_like float64": ({}, [_X.astype(np.float64)]),
    "mean int32": ({"axis": "1"}, [_COUNTS_OF]),
    "exp float64": ({}, [_X.astype(np.float64)]),
    "one_hot float16": ({"depth": "4", "dtype": "float16"}, [_SOME]),
    "gather_nd negative": ({}, [_X, np.array([[0, -1], [-2, 1]], np.float32)]),
}

_SCALED = {"scale_height": "0.5", "scale_width": "1.5"}
SIZES = {
    "_contrib_BilinearResize2D odd_scale": ({"mode": "odd_scale", **_SCALED}, [_IMAGE]),
    **{
        f"_contrib_BilinearResize2D {mode}": ({"mode": mode}, [_IMAGE])
        for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
    },
}

_WHOLE = np.array([[3, 1, 4], [1, 5, 2]], np.int32)
_SIGNED = np.array([[-3, 1, 4], [1, -5, 2]], np.int32)
_TWO = np.array([[2, 2, -2]], np.int32)
_PART = {"scalar": "1.5", "is_int": "False"}
_DEEP = _RANDOM.standard_normal((3, 2, 4)).astype(np.float32)
_POSITIVE = np.abs(_X) + np.float32(0.1)
_ONES = np.full((4,), 1, np.float32)

NUMBERS = {
    **{f"{row} whole": ({}, [_WHOLE]) for row in ("exp", "sqrt", "reciprocal", "cbrt", "floor", "degrees")},
    **{f"{row} whole": (dict(_PART), [_WHOLE]) for row in ("_plus_scalar", "_rdiv_scalar", "_mod_scalar")},
    **{f"{row} whole": (dict(_PART), [_WHOLE]) for row in ("_greater_scalar", "_maximum_scalar")},
    "_power_scalar bytes": ({"scalar": "2"}, [_WHOLE.astype(np.uint8)]),
    "_rpower_scalar negative": ({"scalar": "-2"}, [_WHOLE]),
    "_hypot_scalar whole": ({"scalar": "2"}, [_SIGNED]),
    "broadcast_power whole": ({}, [_SIGNED, abs(_TWO)]),
    "smooth_l1 whole": ({"scalar": "2"}, [_SIGNED]),
    "smooth_l1 none": ({"scalar": "0"}, [_X]),
    "add_n whole": ({"num_args": "3"}, [_WHOLE, _SIGNED, _WHOLE]),
    "sum bytes": ({"axis": "1"}, [_WHOLE.astype(np.uint8)]),
    "mean long": ({"axis": "1"}, [_SIGNED.astype(np.int64)]),
    "nansum whole": ({"axis": "1"}, [_SIGNED]),
    "argsort bytes": ({"axis": "1"}, [_WHOLE.astype(np.uint8)]),
    "topk mask": ({"k": "2", "ret_typ": "mask", "axis": "0"}, [_X]),
    "topk mask of all": ({"k": "2", "ret_typ": "mask", "axis": "None", "is_ascend": "True"}, [_X]),
    "_arange whole": ({"start": "-2.7", "stop": "3", "step": "1.5", "dtype": "int32"}, []),
    "_arange half": ({"start": "0.5", "stop": "3", "step": "1.75", "dtype": "float16"}, []),
    "softmax wide": ({"dtype": "float64", "temperature": "2"}, [_X]),
    "LayerNorm moments": (
        {"axis": "1", "output_mean_var": "True", "eps": "0.1"},
        [_DEEP, _X[0, :2], _X[1, :2]],
        3,
    ),
    "Pooling last": (
        {"kernel": "(2, 2)", "layout": "NHWC", "pool_type": "avg", "pad": "(1, 1)", "stride": "(2, 2)"},
        [_RANDOM.standard_normal((1, 5, 6, 3)).astype(np.float32)],
    ),
    "_linalg_gemm2 axis": ({"axis": "0", "transpose_a": "True"}, [_DEEP, _DEEP]),
    "Dropout axes": ({"axes": "(1,)", "p": "0.3"}, [_DEEP]),
    "_contrib_BilinearResize2D one": (
        {"height": "1", "width": "3", "align_corners": "False"},
        [_RANDOM.standard_normal((1, 2, 4, 5)).astype(np.float32)],
    ),
}

_NUMPY_BINARY = ("add", "subtract", "multiply", "true_divide", "power")
_FLAGS = np.array([True, False])
NUMPY = {
    **{f"_npi_{row}": ({}, [_POSITIVE, _POSITIVE[:1]]) for row in _NUMPY_BINARY},
    "_npi_true_divide whole": ({}, [_WHOLE, _TWO]),
    "_npi_add mixed": ({}, [_X, _WHOLE]),
    **{f"_npi_{row}_scalar": (dict(_PART), [_POSITIVE]) for row in _NUMPY_BINARY},
    **{f"_npi_r{row}_scalar": (dict(_PART), [_POSITIVE]) for row in ("subtract", "true_divide", "power")},
    "_npi_rtrue_divide_scalar whole": (dict(_PART), [_WHOLE]),
    **{
        f"_npi_{row}": ({}, [_SOME, _MORE])
        for row in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    },
    **{
        f"_npi_{row}_scalar": ({"scalar": "0.5", "is_int": "False"}, [_WHOLE])
        for row in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    },
    "_npi_logical_not": ({}, [_FLAGS]),
    **{
        row: ({}, [_DEEP])
        for row in ("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean", "_npi_std", "_npi_var")
    },
    "_np_sum whole": ({"axis": "(0, -1)", "keepdims": "True"}, [_WHOLE]),
    "_npi_mean whole": ({"axis": "1"}, [_WHOLE]),
    "_npi_argmax": ({}, [_DEEP]),
    "_npi_argmin": ({"axis": "-1", "keepdims": "True"}, [_DEEP]),
    "_np_reshape": ({"newshape": "(3, -1)"}, [_DEEP]),
    "_npx_reshape": ({"newshape": "(-6, 1, 3, -5)"}, [_DEEP]),
    "_np_transpose": ({"axes": "(1, 2, 0)"}, [_DEEP]),
    "_np_moveaxis": ({"source": "(0,)", "destination": "(-1,)"}, [_DEEP]),
    "_np_squeeze": ({}, [_X[:1, :1]]),
    "_npi_concatenate": ({"axis": "None", "num_args": "2"}, [_X, _DEEP]),
    "_npi_stack": ({"axis": "-1", "num_args": "2"}, [_X, _Y]),
    "_npi_where": ({}, [_SOME, _X, _Y[:1]]),
    "_npi_broadcast_to": ({"shape": "(4, 2, 3)"}, [_X]),
    "_npi_matmul": ({}, [_DEEP, _DEEP[0].T.copy()]),
    "_np_dot": ({}, [_ONES, _ONES]),
    "_npi_tensordot_int_axes": ({"axes": "2"}, [_DEEP, _DEEP.reshape(2, 4, 3)]),
    "_npi_zeros": ({"shape": "(2, 3)", "dtype": "int32"}, []),
    "_npi_ones": ({"shape": "()"}, []),
    "_np_copy": ({}, [_X]),
    "_npx_relu": ({}, [_X]),
    "_npx_sigmoid": ({}, [_X]),
}
"""Operators of ``mx.np`` and ``mx.npx``."""

CASES = {
    **MATRICES,
    **ALIGNMENTS,
    **BOXES,
    **REGIONS,
    **OTHERS,
    **TYPES,
    **SIZES,
    **NUMBERS,
    **NUMPY,
    **{
        row: ({}, [_SOME, _MORE]) for row in ("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser")
    },
    **{row: ({}, [_SOME, _MORE]) for row in ("_lesser_equal", "_logical_and", "_logical_or", "_logical_xor")},
    **{row: ({}, [_X, _Y]) for row in ("_hypot", "_minimum", "_mod")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_greater_equal_scalar", "_lesser_equal_scalar")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_logical_and_scalar", "_logical_or_scalar")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_logical_xor_scalar", "_not_equal_scalar")},
    **{row: ({"scalar": "0.7"}, [_X]) for row in ("_hypot_scalar", "_minus_scalar", "_mod_scalar")},
    **{row: ({"scalar": "0.7"}, [_X]) for row in ("_rdiv_scalar", "_rmod_scalar", "_rpower_scalar")},
    **{row: ({}, [_WIDE, _TALL]) for row in ("broadcast_hypot", "broadcast_maximum", "broadcast_sub")},
    **{row: ({}, [3 * _X]) for row in ("gamma", "gammaln")},
    "erfinv": ({}, [np.tanh(_X)]),
    **{row: ({"axis": "1"}, [_X]) for row in ("min", "prod")},
    **{row: ({"axis": "1", "keepdims": "True"}, [_HOLES]) for row in ("nanprod", "nansum")},
}
