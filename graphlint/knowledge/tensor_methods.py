"""What a tensor method or a torch function hands back, by name.

Glossary of results:
    view        another look at the same memory: writing one writes the other, and it dies with the same storage.
    maybe-view  a view or a new tensor, by the layout or the dtype at run time (`reshape`, `contiguous`, `to`).
    fresh       a new tensor in new memory.
    self        works in place and returns the tensor itself (`add_`).
    tuple       several tensors; `TUPLE_SIZES` says how many where that is fixed, `TUPLE_VIEWS` which are views.
    host        a host value: metadata, a number read from the device, an array.
    none        nothing.
"""

from __future__ import annotations

from graphlint.knowledge.words import words

#: Attributes that are views of the tensor.
VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})

#: Attributes that are host metadata; reading them never waits for the device.
METADATA_ATTRIBUTES = frozenset(
    words("""
        shape dtype device layout ndim is_cuda is_cpu is_leaf is_sparse is_quantized is_meta is_nested is_xpu is_mps
        requires_grad names itemsize nbytes grad_fn _version _is_view output_nr retains_grad __cuda_array_interface__
    """)
)

#: Methods that answer from metadata alone.
METADATA_METHODS = frozenset(
    words("""
        size numel nelement dim ndimension stride storage_offset element_size is_contiguous is_floating_point
        is_complex is_signed is_pinned is_shared is_same_size is_set_to is_inference is_conj is_neg is_coalesced
        data_ptr get_device untyped_storage storage storage_type  has_names dense_dim sparse_dim __len__
        __hash__ is_distributed _typed_storage nbytes 
    """)
)

#: Methods that bring values to the host.
READING_METHODS = frozenset(
    words("""
        item tolist numpy is_nonzero equal allclose __bool__ __int__ __float__ __complex__ __index__ __contains__
        __format__ __repr__ __str__ __array__ __reduce_ex__
    """)
)

VIEWS = frozenset(
    words("""
        view view_as detach t transpose swapaxes swapdims permute unsqueeze squeeze expand expand_as narrow select
        diagonal unfold movedim moveaxis as_strided  adjoint unflatten view_as_real view_as_complex alias
        real imag slice  conj  values indices crow_indices col_indices _conj
        _neg_view refine_names rename align_to  
    """)
)
MAYBE_VIEWS = frozenset(
    words("""
        reshape reshape_as contiguous flatten ravel to type float double half bfloat16 int long short char byte bool
        cfloat cdouble chalf cuda cpu type_as to_dense positive resolve_conj resolve_neg xpu npu hpu pin_memory
        broadcast_to atleast_1d atleast_2d atleast_3d
    """)
)
#: Results that are tuples of tensors, with their length (None: it depends on the arguments).
TUPLE_SIZES: dict[str, int | None] = {
    **dict.fromkeys(("unbind", "chunk", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit")),
    **dict.fromkeys(("meshgrid", "broadcast_tensors", "align_tensors", "", "histogramdd")),
    **dict.fromkeys(
        words("""
        topk sort kthvalue mode cummax cummin     aminmax frexp var_mean std_mean
        slogdet qr geqrf eig lu_factor histogram  native_dropout linalg_qr inv_ex
        cholesky_ex eigh native_batch_norm_stats batch_norm_stats  
    """),
        2,
    ),
    **dict.fromkeys(
        ["svd", "lu", "svd_lowrank", "pca_lowrank", "native_layer_norm", "native_batch_norm", "lu_factor_ex"], 3
    ),
    "lstsq": 4,
}
TUPLE_VIEWS = frozenset({"unbind", "chunk", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit"})
#: Methods that return several tensors only with a dim (`x.max(0)`); without one they return a single tensor.
TUPLE_WITH_DIM = frozenset({"max", "min", "median", "nanmedian"})

_NO_RESULT = frozenset(
    {"backward", "record_stream", "register_hook", "retain_grad", "register_post_accumulate_grad_hook"}
)
_SELF_NAMES = frozenset({"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__ipow__", "__imod__"})
_SELF_NAMES |= frozenset({"__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"})

#: In-place by name alone, though nothing is written to the tensor's memory.
METADATA_SETTERS = frozenset({"requires_grad_", "detach_", "rename_", "share_memory_", "names_", "retain_grad_"})
#: In-place methods that change the shape or the strides of the tensor itself.
RESHAPING = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "resize_", "resize_as_", "set_", "swapaxes_", "swapdims_"}
)


def in_place(name: str) -> bool:
    """Whether a method of this name works in place: `add_`, `__iadd__`, but not `__add__`."""
    return name in _SELF_NAMES or (name.endswith("_") and not name.endswith("__"))


def writes(name: str) -> bool:
    """Whether a method of this name writes the tensor's memory."""
    return in_place(name) and name not in METADATA_SETTERS and name not in RESHAPING


def method_result(name: str) -> str:
    """What `x.name(...)` hands back: "view", "fresh", "self", "host", "maybe-view", "tuple" or "none".

    A name that is not known is taken for a new tensor, as most methods are.
    """
    if name in _NO_RESULT:
        return "none"
    if in_place(name):
        return "self"
    if name in METADATA_METHODS or name in READING_METHODS:
        return "host"
    if name in VIEWS:
        return "view"
    if name in MAYBE_VIEWS:
        return "maybe-view"
    if name in TUPLE_SIZES:
        return "tuple"
    return "fresh"


def attribute_result(name: str) -> str:
    """What `x.name` is: "view", "host" or "" for anything else (`grad`, a method)."""
    if name in VIEW_ATTRIBUTES:
        return "view"
    return "host" if name in METADATA_ATTRIBUTES else ""


#: Functions whose result is not that of the method of the same name.
FUNCTION_RESULTS: dict[str, str] = {
    **dict.fromkeys(
        words("""
        torch.is_tensor torch.is_floating_point torch.is_complex torch.numel torch.is_grad_enabled torch.equal
        torch.allclose torch.is_nonzero torch.get_default_dtype torch.get_default_device torch.is_inference
        torch.is_storage torch.is_conj torch.is_neg torch.is_inference_mode_enabled
        torch.are_deterministic_algorithms_enabled torch.get_num_threads torch.initial_seed
        torch.cuda.initial_seed torch.seed torch.finfo torch.iinfo torch.promote_types torch.result_type
        torch.can_cast torch.get_float32_matmul_precision
        torch.is_autocast_enabled torch.is_autocast_cache_enabled torch.get_autocast_dtype
        torch.get_autocast_gpu_dtype torch.broadcast_shapes torch.compiler.is_compiling
        torch.compiler.is_dynamo_compiling torch._dynamo.is_compiling torch.jit.is_scripting torch.jit.is_tracing
        torch.distributed.get_rank torch.distributed.get_world_size torch.distributed.is_initialized
        torch.distributed.is_available
    """),
        "host",
    ),
    **dict.fromkeys(
        words("""
        torch.manual_seed torch.set_default_dtype torch.set_default_device torch.set_float32_matmul_precision
        torch._assert torch._assert_async torch._check torch.save torch.set_num_threads torch.autograd.backward
        torch.use_deterministic_algorithms torch.set_grad_enabled torch.nn.utils.clip_grad_value_ torch._foreach_add_
        torch._foreach_mul_ torch._foreach_copy_ torch._foreach_zero_ torch._foreach_lerp_ torch._foreach_sub_
        torch._foreach_div_ torch._foreach_addcmul_ torch._foreach_addcdiv_ torch._foreach_sqrt_
         torch.distributed.barrier torch.nn.utils.vector_to_parameters torch.set_rng_state
        torch.cuda.set_rng_state torch.cuda.manual_seed torch.cuda.manual_seed_all
    """),
        "none",
    ),
    **dict.fromkeys(
        words("""
        torch.autograd.grad  torch.meshgrid torch.broadcast_tensors torch.aminmax
         torch.nn.functional.adaptive_max_pool2d_with_indices
        torch.nn.functional.multi_head_attention_forward torch._foreach_add torch._foreach_mul torch._foreach_norm
        torch._foreach_sub torch._foreach_div
    """),
        "tuple",
    ),
    "torch.squeeze": "view",
    "torch.clone": "fresh",
    "torch.nn.utils.clip_grad_norm_": "fresh",
    "torch.nn.utils.get_total_norm": "fresh",
    "torch.nn.functional.embedding": "fresh",
    "torch.from_numpy": "fresh",
    "torch.as_tensor": "maybe-view",
    "torch.asarray": "maybe-view",
    "torch.frombuffer": "fresh",
    "torch.load": "host",
}

#: Where functions that behave as the method of the same last name live.
_TENSOR_MODULES = (
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.masked",
    "torch.sparse",
)
#: nn.functional in-place forms return their (changed) argument.
_FUNCTIONAL_IN_PLACE = frozenset(
    {"relu_", "elu_", "leaky_relu_", "hardtanh_", "celu_", "selu_", "threshold_", "rrelu_"}
)


def function_result(name: str) -> str:
    """What a torch function hands back, by its canonical name; "" if the name is not a tensor function."""
    if name in FUNCTION_RESULTS:
        return FUNCTION_RESULTS[name]
    module, _, last = name.rpartition(".")
    if name.startswith("torch.nn.init."):
        return "self"
    if name.startswith(("torch.ops.aten.", "torch._C._nn.")):
        return method_result(name.split(".")[3])
    if module not in _TENSOR_MODULES or not last or last[0].isupper():
        return ""
    if module == "torch.nn.functional" and in_place(last):
        return "self" if last in _FUNCTIONAL_IN_PLACE else "fresh"
    return method_result(last)


#: Elementwise methods and functions whose result has the shape of their only tensor.
POINTWISE = frozenset(
    words("""
        abs absolute neg negative exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin
        acos atan sinh cosh tanh asinh acosh atanh sigmoid logit relu relu6 gelu silu mish elu selu celu leaky_relu
        hardtanh hardswish hardsigmoid softplus softsign softmax log_softmax softmin tanhshrink hardshrink softshrink
        erf erfc erfinv lgamma digamma floor ceil round trunc frac sign sgn signbit isnan isinf isfinite isposinf
        isneginf clamp clamp_min clamp_max clip nan_to_num dropout alpha_dropout feature_dropout layer_norm rms_norm
        group_norm batch_norm instance_norm normalize cumsum cumprod logcumsumexp flip roll tril triu clone contiguous
        detach bernoulli bitwise_not logical_not angle deg2rad rad2deg i0 sinc zeros_like ones_like empty_like
        full_like rand_like randn_like randint_like masked_fill index_fill index_add index_copy scatter scatter_add
        scatter_reduce fill  argsort to type float double half bfloat16 int long short char byte bool cuda
        cpu type_as pin_memory requires_grad_ logsigmoid  gumbel_softmax rrelu positive resolve_conj
        resolve_neg
    """)
)
#: Elementwise with several tensors: the shapes broadcast.
BROADCASTING = frozenset(
    words("""
        add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power atan2 arctan2
        maximum minimum fmax fmin hypot logaddexp logaddexp2 bitwise_and bitwise_or bitwise_xor logical_and logical_or
        logical_xor eq ne lt le gt ge not_equal greater greater_equal less less_equal where lerp addcmul addcdiv
        isclose copysign nextafter rsub heaviside xlogy ldexp polar complex
    """)
)
#: Reductions that take (dim, keepdim).
REDUCTIONS = frozenset(
    words("""
        sum nansum mean nanmean prod amax amin max min any all argmax argmin std var norm logsumexp median nanmedian
        mode count_nonzero quantile nanquantile vector_norm
    """)
)

COMPARISONS = frozenset(
    words("""
        eq ne lt le gt ge not_equal greater greater_equal less less_equal isnan isinf isfinite isposinf isneginf
        isclose logical_and logical_or logical_xor logical_not any all isin signbit isreal
    """)
)
_INDEX_RESULTS = frozenset(
    words("""
        argmax argmin argsort nonzero argwhere multinomial searchsorted bucketize bincount count_nonzero one_hot
        tril_indices triu_indices nonzero_static unravel_index
    """)
)
_CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_TO_FLOAT = frozenset(
    words("""
        div divide true_divide mean sqrt rsqrt exp log log2 log10 log1p sin cos tan tanh sigmoid softmax log_softmax
        std var norm logsumexp reciprocal
    """)
)
_INTEGRAL = ("uint8", "int8", "int16", "int32", "int64", "bool")


def result_dtype(name: str, dtype: str | None) -> str | None:
    """The dtype of `x.name(...)` for an x of `dtype`, by the method's name alone; None if it is not known.

    An explicit `dtype=` argument and promotion with other operands are the caller's to apply.
    """
    if name in COMPARISONS:
        return "bool"
    if name in _INDEX_RESULTS:
        return "int64"
    if name in _CASTS:
        return _CASTS[name]
    if dtype in _INTEGRAL:
        if name in _TO_FLOAT:
            return "float32"
        if name in ("sum", "prod", "cumsum", "cumprod", "nansum"):
            return "int64"
    return dtype


_RANK = {
    "bool": 0,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "bfloat16": 5,
    "float32": 6,
    "float64": 7,
    "complex64": 8,
    "complex128": 9,
}


def promote(a: str | None, b: str | None) -> str | None:
    """The dtype of `x + y` for two tensors with dims; None if either is not known."""
    if a is None or b is None:
        return None
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda d: _RANK.get(d, 99))
    if low not in _RANK or high not in _RANK:
        return None
    if _RANK[low] == _RANK[high]:
        return "int16" if _RANK[low] == 1 else "float32"
    return high


def kind_of(dtype: str | None) -> str | None:
    """ "bool", "int", "float" or "complex"."""
    if dtype is None:
        return None
    if dtype == "bool":
        return "bool"
    if dtype in _INTEGRAL or dtype.startswith(("int", "uint")):
        return "int"
    return "complex" if dtype.startswith("complex") else "float"
