"""Names that MindSpore's own documents mark as deprecated and for which they name nothing else to write."""

from __future__ import annotations

MARKED: dict[str, str] = {
    "2.8": """
      : async_ckpt_thread_status dtype_to_nptype dtype_to_pytype get_py_obj_dtype load_mindir
        pytype_to_dtype save_mindir
      nn: DiceLoss FocalLoss LRN MatrixDiag MatrixDiagPart Moments MultiClassDiceLoss SampledSoftmaxLoss
        TimeDistributed
      ops: AdamNoUpdateParam ApproximateEqual BasicLSTMCell CheckNumerics CompareAndBitpack
        ComputeAccidentalHits ConfusionMatrix Conv2DBackpropInput DataFormatDimMap DataFormatVecPermute
        Dilation2D EditDistance EuclideanNorm ExtractGlimpse ExtractVolumePatches FractionalAvgPool
        FusedAdaFactor FusedSparseAdam FusedSparseFtrl FusedSparseLazyAdam FusedSparseProximalAdagrad
        HSVToRGB ListDiff LowerBound MapCacheIdx MapUniform NoRepeatNGram NonDeterministicInts
        NthElement NuclearNorm ParallelConcat ParameterizedTruncatedNormal RGBToHSV ScaleAndTranslate
        ScatterAddWithAxis ScatterNonAliasingAdd SegmentMax SegmentMean SegmentMin SegmentProd
        SegmentSum SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradV2 SparseApplyFtrl
        SparseApplyFtrlV2 SparseApplyProximalAdagrad SparseApplyRMSProp SparseSlice SparseTensorDenseAdd
        SparseTensorDenseMatmul SubAndFilter UniqueWithPad UpperBound batch_dot poisson
        sparse_segment_mean
    """,
    "2.9": """
      nn: AdaSumByDeltaWeightWrapCell AdaSumByGradWrapCell BiDense EmbeddingLookup ExponentialDecayLR
        FTRL FastGelu FractionalMaxPool3d InverseDecayLR MAELoss Momentum MultiFieldEmbeddingLookup
        NaturalExpDecayLR OptTFTWrapper Pad PolynomialDecayLR ProximalAdagrad RMSELoss
        SoftmaxCrossEntropyWithLogits WarmUpLR cosine_decay_lr exponential_decay_lr get_activation
        inverse_decay_lr natural_exp_decay_lr no_init_parameters piecewise_constant_lr
        polynomial_decay_lr warmup_lr
      ops: assign assign_add assign_sub batch_to_space_nd bessel_k0 bessel_k0e bessel_k1 bias_add bessel_k1e
        bidense bounding_box_decode bounding_box_encode check_valid choice_with_mask clip_by_global_norm
        clip_by_norm col2im coo_abs coo_acos coo_acosh coo_add coo_asin coo_asinh coo_atan coo_atanh
        coo_ceil coo_concat coo_cos coo_cosh coo_exp coo_expm1 coo_floor coo_inv coo_isfinite coo_isinf
        coo_isnan coo_log coo_log1p coo_neg coo_relu coo_relu6 coo_round coo_sigmoid coo_sin coo_sinh
        coo_softsign coo_sqrt coo_square coo_tan coo_tanh crop_and_resize csr_abs csr_acos csr_acosh
        csr_add csr_asin csr_asinh csr_atan csr_atanh csr_ceil csr_cos csr_cosh csr_exp csr_expm1
        csr_floor csr_inv csr_isfinite csr_isinf csr_isnan csr_log csr_log1p csr_mm csr_neg csr_relu
        csr_relu6 csr_round csr_sigmoid csr_sin csr_sinh csr_softmax csr_softsign csr_sqrt csr_square
        csr_tan csr_tanh csr_to_coo ctc_greedy_decoder deepcopy deformable_conv2d dense_to_sparse_coo
        dense_to_sparse_csr dyn_shape fast_gelu floor_mod fractional_max_pool3d gather_nd
        index_fill inplace_add inplace_index_add inplace_sub inplace_update intopk invert iou
        log_uniform_candidate_sampler matrix_band_part matrix_diag matrix_diag_part matrix_set_diag
        matrix_solve move_to multinomial_with_replacement population_count random_categorical
        repeat_elements reverse_sequence rotary_position_embedding rotated_iou scatter_div scatter_max
        scatter_min scatter_mul scatter_nd scatter_nd_add scatter_nd_div scatter_nd_max scatter_nd_min
        scatter_nd_mul scatter_nd_sub scatter_update sequence_mask shuffle slice slice_scatter
        space_to_batch_nd standard_normal strided_slice tensor_scatter_add tensor_scatter_div
        tensor_scatter_elements tensor_scatter_max tensor_scatter_min tensor_scatter_mul
        tensor_scatter_sub uniform_candidate_sampler unsorted_segment_max unsorted_segment_min
        unsorted_segment_prod unsorted_segment_sum xdivy
    """,
    "2.10": """
      nn: LARS MatrixSetDiag
      ops: ApplyAdagradDA ApplyAdagradV2 ApplyAddSign ApplyFtrl ApplyPowerSign ApplyProximalAdagrad
        ApplyProximalGradientDescent CheckValid Eps InTopK LARSUpdate LogUniformCandidateSampler
        MatrixBandPart MatrixLogarithm MatrixSetDiagV3 MatrixSolveLs RandomGamma RandomPoisson
        SampleDistortedBoundingBoxV2 ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdDiv
        ScatterNdMax ScatterNdMin ScatterNdMul ScatterNdSub ScatterSub TensorScatterDiv TensorScatterMax
        TensorScatterMin TensorScatterMul TensorScatterSub TridiagonalMatMul TruncatedNormal
        UniformCandidateSampler UniformInt UniformReal random_poisson
    """,
}
"""Version whose documents have the mark first, of 2.8, 2.9 and 2.10 -> modules, each with its names.

Read off the docstrings of the three releases; a test reads those of the installed one again.
"""


def marked_names() -> dict[str, str]:
    """Return full name -> the version whose documents mark it first."""
    found: dict[str, str] = {}
    for version, text in MARKED.items():
        module = ""
        for word in text.split():
            if word.endswith(":"):
                module = word[:-1]
            else:
                found[".".join(part for part in ("mindspore", module, word) if part)] = version
    return found
