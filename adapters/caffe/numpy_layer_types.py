"""The layer types that the numpy backend computes: their parameters, their weights, and where their
rules come from.

Parameters that are not named here are refused by name, as Caffe itself refuses fields that its
caffe.proto does not have. What the layers compute is in :mod:`goldwatch.operators`; the table in
docs/caffe.md tells the same for people.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Sequence, Tuple

from ...base.element_types import element_count
from ...netfiles.caffe_net import Layer
from ...netfiles.caffe_params import parameters_of

Shape = Tuple[int, ...]
Parameters = Mapping[str, Any]
BVLC, SSD = "BVLC Caffe", "SSD branch (weiliu89)"

SINKS = frozenset(["Silence", "HDF5Output"])
"""Layer types that only take."""
UNREAD = frozenset(
    "accuracy_param argmax_param batch_norm_param bias_param clip_param concat_param "
    "contrastive_loss_param convolution_param crop_param "
    "data_param dropout_param dummy_data_param eltwise_param elu_param embed_param exp_param "
    "flatten_param hdf5_data_param "
    "hdf5_output_param hinge_loss_param image_data_param infogain_loss_param "
    "inner_product_param input_param log_param loss_param "
    "lrn_param memory_data_param mvn_param parameter_param pooling_param power_param "
    "prelu_param python_param recurrent_param "
    "reduction_param relu_param reshape_param scale_param sigmoid_param slice_param "
    "softmax_param spp_param swish_param tanh_param "
    "threshold_param tile_param window_data_param".split()
)
"""Parameters that BVLC Caffe lets any layer have; one of a type of BVLC's reads its own alone."""
_FALSE = frozenset(("false", "False", "f", "0"))
IGNORED: Dict[str, FrozenSet[str]] = {
    # Dropout of SegNet, which may draw in TEST too; BatchNorm of NVIDIA's branch, which may be a
    # Scale too.
    "dropout_param.sample_weights_test": _FALSE,
    "batch_norm_param.scale_bias": _FALSE,
}
"""Fields of branches, and the values with which they change nothing in TEST."""


class Blob(NamedTuple):
    """One weight of a layer: its shape, the filler's field, and what it is (which tells what it is
    filled with where no filler is).
    """

    shape: Shape
    filler: str
    kind: str


class LayerType(NamedTuple):
    """One layer type.

    Attributes
    ----------
    source
        Whose rule it is.
    params
        The names of its parameter messages.
    fields
        What may be written in them.
    blobs
        Its weights, from its parameters and its bottoms' shapes.
    """

    source: str
    params: Tuple[str, ...] = ()
    fields: FrozenSet[str] = frozenset()
    blobs: Callable[[Parameters, Sequence[Shape]], List[Blob]] = lambda parameters, bottoms: []


def _window(parameters: Parameters, axes: int) -> Tuple[int, ...]:
    if "kernel_h" in parameters:
        return int(parameters["kernel_h"]), int(parameters["kernel_w"])
    sizes = [int(size) for size in parameters["kernel_size"]]
    return tuple(sizes * axes if len(sizes) == 1 else sizes)


def _biased(
    blobs: List[Blob], shape: Shape, parameters: Parameters, default: bool = True
) -> List[Blob]:
    return blobs + (
        [Blob(shape, "bias_filler", "bias")] if parameters.get("bias_term", default) else []
    )


def _convolution(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    outputs, channels = int(parameters["num_output"]), bottoms[0][1]
    shape = (outputs, channels // int(parameters.get("group", 1))) + _window(
        parameters, len(bottoms[0]) - 2
    )
    return _biased([Blob(shape, "weight_filler", "weight")], (outputs,), parameters)


def _depthwise(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    return _convolution(dict(parameters, group=bottoms[0][1]), bottoms)


def _deconvolution(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    outputs = int(parameters["num_output"])
    shape = (bottoms[0][1], outputs // int(parameters.get("group", 1))) + _window(
        parameters, len(bottoms[0]) - 2
    )
    return _biased([Blob(shape, "weight_filler", "weight")], (outputs,), parameters)


def _inner_product(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    axis, outputs = int(parameters.get("axis", 1)), int(parameters["num_output"])
    inner = element_count(bottoms[0][axis:])
    shape = (inner, outputs) if parameters.get("transpose", False) else (outputs, inner)
    return _biased([Blob(shape, "weight_filler", "weight")], (outputs,), parameters)


def _prelu(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    return [
        Blob(() if parameters.get("channel_shared", False) else bottoms[0][1:2], "filler", "slope")
    ]


def _placed(parameters: Parameters, bottoms: Sequence[Shape]) -> Shape:
    """Return the shape of a Scale's or Bias's factor: a second bottom's, or axes of the first."""
    if len(bottoms) > 1:
        return bottoms[1]
    shape = bottoms[0]
    axis, count = int(parameters.get("axis", 1)), int(parameters.get("num_axes", 1))
    axis = axis % len(shape)
    return shape[axis:] if count == -1 else shape[axis : axis + count]


def _scale(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    shape = _placed(parameters, bottoms)
    scale = [Blob(shape, "filler", "scale")] if len(bottoms) == 1 else []
    return _biased(scale, shape, parameters, False)


def _bias(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    return [Blob(_placed(parameters, bottoms), "filler", "bias")] if len(bottoms) == 1 else []


def _batch_norm(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    channels = bottoms[0][1:2]
    return [Blob(channels, "", "mean"), Blob(channels, "", "variance"), Blob((1,), "", "one")]


def is_pspnet_bn(parameters: Parameters) -> bool:
    """Tell whether a BN layer is PSPNet's (four weights) rather than SegNet's and ENet's (two)."""
    return bool({"slope_filler", "bias_filler", "frozen", "momentum", "eps"} & set(parameters))


def _bn(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    channels = bottoms[0][1]
    if is_pspnet_bn(parameters):
        kinds = (("slope_filler", "scale"), ("bias_filler", "bias"), ("", "mean"), ("", "variance"))
        return [Blob((1, channels), filler, kind) for filler, kind in kinds]
    return [
        Blob((1, channels, 1, 1), filler, kind)
        for filler, kind in (("scale_filler", "scale"), ("shift_filler", "bias"))
    ]


def _normalize(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    return [
        Blob(
            () if parameters.get("channel_shared", True) else bottoms[0][1:2],
            "scale_filler",
            "scale",
        )
    ]


def _recurrent(gates: int, outputs: int) -> Callable[[Parameters, Sequence[Shape]], List[Blob]]:
    """Return the weights of a layer with so many gates; with ``outputs`` what is shown is
    multiplied once more.
    """

    def blobs(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
        size = int(parameters["num_output"])
        states = (1 if outputs else 2) if parameters.get("expose_hidden", False) else 0
        made = [
            Blob((gates * size, element_count(bottoms[0][2:])), "weight_filler", "weight"),
            Blob((gates * size,), "bias_filler", "bias"),
        ]
        if len(bottoms) - states > 2:
            made.append(
                Blob((gates * size, element_count(bottoms[2][1:])), "weight_filler", "weight")
            )
        made.append(Blob((gates * size, size), "weight_filler", "weight"))
        if outputs:
            made += [
                Blob((size, size), "weight_filler", "weight"),
                Blob((size,), "bias_filler", "bias"),
            ]
        return made

    return blobs


def _dense_block(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    count, growth, first = (
        int(parameters[name]) for name in ("numTransition", "growthRate", "initChannel")
    )
    wide, inputs = 4 * growth, [first + number * growth for number in range(count)]

    def five(filters: List[Shape], channels: List[int]) -> List[Blob]:
        made = [Blob(shape, "Filter_Filler", "weight") for shape in filters]
        for filler, kind in (
            ("BN_Scaler_Filler", "scale"),
            ("BN_Bias_Filler", "bias"),
            ("", "mean"),
            ("", "variance"),
        ):
            made += [Blob((1, number, 1, 1), filler, kind) for number in channels]
        return made

    if not parameters.get("use_BC", False):
        blobs = five([(growth, number, 3, 3) for number in inputs], inputs)
    else:
        kernels = five([(growth, wide, 3, 3)] * count, inputs)
        blobs = kernels + five([(wide, number, 1, 1) for number in inputs], [wide] * count)
    return blobs + [Blob((1,), "", "one")]


def _embed(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    outputs = int(parameters["num_output"])
    return _biased(
        [Blob((int(parameters["input_dim"]), outputs), "weight_filler", "weight")],
        (outputs,),
        parameters,
    )


def _parameter(parameters: Parameters, bottoms: Sequence[Shape]) -> List[Blob]:
    return [Blob(tuple(int(dim) for dim in parameters["shape"]["dim"]), "", "bias")]


def _layer_type(source: str, params: str = "", fields: str = "", blobs: Any = None) -> LayerType:
    entry = LayerType(source, tuple(params.split()), frozenset(fields.split()))
    return entry if blobs is None else entry._replace(blobs=blobs)


_PADS = "kernel_size kernel_h kernel_w stride stride_h stride_w pad pad_h pad_w engine"
_CONVOLUTION = (
    "num_output bias_term group axis force_nd_im2col weight_filler bias_filler dilation hole "
    + _PADS
)
_RECURRENT = "num_output weight_filler bias_filler debug_info expose_hidden"
_LOSS = "ignore_label normalization normalize"
LAYERS: Dict[str, LayerType] = {
    "AbsVal": _layer_type(BVLC),
    "Accuracy": _layer_type(BVLC, "accuracy_param", "top_k axis ignore_label"),
    "ArgMax": _layer_type(BVLC, "argmax_param", "out_max_val top_k axis"),
    "Axpy": _layer_type("SENet (hujie-frank)"),
    "BN": _layer_type(
        "SegNet, ENet; PSPNet",
        "bn_param",
        "scale_filler shift_filler bn_mode slope_filler bias_filler momentum eps frozen engine",
        _bn,
    ),
    "BNLL": _layer_type(BVLC),
    "BatchNorm": _layer_type(
        BVLC, "batch_norm_param", "use_global_stats moving_average_fraction eps", _batch_norm
    ),
    "BatchReindex": _layer_type(BVLC),
    "Bias": _layer_type(BVLC, "bias_param", "axis num_axes filler", _bias),
    "Clip": _layer_type(BVLC, "clip_param", "min max"),
    "Concat": _layer_type(BVLC, "concat_param", "axis concat_dim"),
    "ContrastiveLoss": _layer_type(
        BVLC, "contrastive_loss_param loss_param", "margin legacy_version " + _LOSS
    ),
    "Convolution": _layer_type(BVLC, "convolution_param", _CONVOLUTION, _convolution),
    "ConvolutionDepthwise": _layer_type(
        "ShuffleNet (farmingyard)", "convolution_param", _CONVOLUTION, _depthwise
    ),
    "Crop": _layer_type(BVLC, "crop_param", "axis offset"),
    "Deconvolution": _layer_type(BVLC, "convolution_param", _CONVOLUTION, _deconvolution),
    "DenseBlock": _layer_type(
        "DenseNet (Tongcheng)",
        "denseblock_param",
        "numTransition initChannel growthRate use_BC BC_ultra_space_efficient use_dropout "
        "dropout_amount moving_average_fraction "
        "Filter_Filler BN_Scaler_Filler BN_Bias_Filler workspace_MB gpuIdx",
        _dense_block,
    ),
    "DepthwiseConvolution": _layer_type(
        "MobileNet (yonghenglh6)", "convolution_param", _CONVOLUTION, _depthwise
    ),
    "DetectionOutput": _layer_type(
        SSD,
        "detection_output_param",
        "num_classes share_location background_label_id nms_param save_output_param code_type "
        "variance_encoded_in_target keep_top_k "
        "confidence_threshold visualize visualize_threshold save_file clip",
    ),
    "Dropout": _layer_type(BVLC, "dropout_param", "dropout_ratio scale_train"),
    "ELU": _layer_type(BVLC, "elu_param", "alpha"),
    "Eltwise": _layer_type(BVLC, "eltwise_param", "operation coeff stable_prod_grad"),
    "Embed": _layer_type(
        BVLC, "embed_param", "num_output input_dim bias_term weight_filler bias_filler", _embed
    ),
    "EuclideanLoss": _layer_type(BVLC, "loss_param", _LOSS),
    "Exp": _layer_type(BVLC, "exp_param", "base scale shift"),
    "Filter": _layer_type(BVLC),
    "Flatten": _layer_type(BVLC, "flatten_param", "axis end_axis"),
    "HingeLoss": _layer_type(BVLC, "hinge_loss_param loss_param", "norm " + _LOSS),
    "Im2col": _layer_type(BVLC, "convolution_param", _CONVOLUTION),
    "InfogainLoss": _layer_type(BVLC, "infogain_loss_param loss_param", "axis " + _LOSS),
    "InnerProduct": _layer_type(
        BVLC,
        "inner_product_param",
        "num_output bias_term weight_filler bias_filler axis transpose",
        _inner_product,
    ),
    "Interp": _layer_type(
        "DeepLab, PSPNet",
        "interp_param",
        "height width zoom_factor shrink_factor pad_beg pad_end interp_type use_blob_size",
    ),
    "LRN": _layer_type(BVLC, "lrn_param", "local_size alpha beta norm_region k engine"),
    "LSTM": _layer_type(BVLC, "recurrent_param", _RECURRENT, _recurrent(4, 0)),
    "Log": _layer_type(BVLC, "log_param", "base scale shift"),
    "MVN": _layer_type(BVLC, "mvn_param", "normalize_variance across_channels eps"),
    "Mish": _layer_type("YOLOv4 branches"),
    "MultinomialLogisticLoss": _layer_type(BVLC, "loss_param", _LOSS),
    "Normalize": _layer_type(
        SSD, "norm_param", "across_spatial scale_filler channel_shared eps", _normalize
    ),
    "PReLU": _layer_type(BVLC, "prelu_param", "filler channel_shared", _prelu),
    "PSROIPooling": _layer_type(
        "R-FCN (daijifeng001)", "psroi_pooling_param", "spatial_scale output_dim group_size"
    ),
    "Parameter": _layer_type(BVLC, "parameter_param", "shape", _parameter),
    "Permute": _layer_type(SSD, "permute_param", "order"),
    "Pooling": _layer_type(
        BVLC, "pooling_param", "pool global_pooling round_mode ceil_mode " + _PADS
    ),
    "Power": _layer_type(BVLC, "power_param", "power scale shift"),
    "PriorBox": _layer_type(
        SSD,
        "prior_box_param",
        "min_size max_size aspect_ratio flip clip variance img_size img_h img_w step step_h "
        "step_w offset offset_h offset_w",
    ),
    "RNN": _layer_type(BVLC, "recurrent_param", _RECURRENT, _recurrent(1, 1)),
    "ROIPooling": _layer_type(
        "Fast R-CNN (rbgirshick)", "roi_pooling_param", "pooled_h pooled_w spatial_scale"
    ),
    "ReLU": _layer_type(BVLC, "relu_param", "negative_slope engine"),
    "ReLU6": _layer_type("MobileNet branches"),
    "Reduction": _layer_type(BVLC, "reduction_param", "operation axis coeff"),
    "Reorg": _layer_type("YOLOv2 (gklz1982)", "reorg_param", "stride reverse"),
    "Reshape": _layer_type(BVLC, "reshape_param", "shape axis num_axes"),
    "Resize": _layer_type(
        "branches with pyramid tests",
        "resize_param",
        "height width is_pyramid_test out_height_scale out_width_scale",
    ),
    "Reverse": _layer_type("branches of text recognition", "reverse_param", "axis"),
    "SPP": _layer_type(BVLC, "spp_param", "pyramid_height pool engine"),
    "Scale": _layer_type(BVLC, "scale_param", "axis num_axes filler bias_term bias_filler", _scale),
    "SeLu": _layer_type("caffe_latte (fireae)", "selu_param", "alpha lambda"),
    "SeLuDropout": _layer_type("caffe_latte (fireae)", "selu_dropout_param", "alpha dropout_ratio"),
    "ShuffleChannel": _layer_type("ShuffleNet (farmingyard)", "shuffle_channel_param", "group"),
    "Sigmoid": _layer_type(BVLC, "sigmoid_param", "engine"),
    "SigmoidCrossEntropyLoss": _layer_type(BVLC, "sigmoid_param loss_param", "engine " + _LOSS),
    "Slice": _layer_type(BVLC, "slice_param", "axis slice_dim slice_point"),
    "SmoothL1Loss": _layer_type(
        "Fast R-CNN (rbgirshick)", "smooth_l1_loss_param loss_param", "sigma " + _LOSS
    ),
    "Softmax": _layer_type(BVLC, "softmax_param loss_param", "axis engine " + _LOSS),
    "SoftmaxWithLoss": _layer_type(BVLC, "softmax_param loss_param", "axis engine " + _LOSS),
    "SpatialDropout": _layer_type(
        "ENet (TimoSaemann)", "dropout_param spatial_dropout_param", "dropout_ratio scale_train"
    ),
    "Split": _layer_type(BVLC),
    "Swish": _layer_type(BVLC, "swish_param", "beta"),
    "TanH": _layer_type(BVLC, "tanh_param", "engine"),
    "Threshold": _layer_type(BVLC, "threshold_param", "threshold"),
    "Tile": _layer_type(BVLC, "tile_param", "axis tiles"),
    "Transpose": _layer_type("branches of text recognition", "transpose_param", "dim"),
    "Upsample": _layer_type(
        "SegNet, ENet; YOLOv3 branches; ATC",
        "upsample_param",
        "scale scale_h scale_w pad_out_h pad_out_w upsample_h upsample_w stride stride_h "
        "stride_w dims_num",
    ),
}
"""Layer types by their V2 names."""


def reads_data(layer: Layer, user_types: Sequence[str] = ()) -> bool:
    """Tell whether a layer reads or makes data by itself: it has tops, no bottoms, and a type that
    is not computed here.

    Parameters
    ----------
    user_types
        Layer types that the user's own files compute.
    """
    return (
        bool(layer.tops)
        and not layer.bottoms
        and layer.type not in LAYERS
        and layer.type != "Input"
        and layer.type not in user_types
    )


def own_parameters(layer: Layer) -> Dict[str, Any]:
    """Return the parameters that a layer's type reads; all that it has where its type is not
    known.
    """
    known = LAYERS.get(layer.type)
    return parameters_of(layer.message, known is None, None if known is None else known.params)


def blobs_of(layer: Layer, bottoms: Sequence[Shape]) -> List[Blob]:
    """Return the weights that a layer of a known type has.

    Raises
    ------
    KeyError, IndexError, ValueError, ZeroDivisionError
        A parameter that Caffe demands is missing, or the bottoms do not fit.
    """
    known = LAYERS.get(layer.type)
    return (
        []
        if known is None
        else known.blobs(own_parameters(layer), [tuple(shape) for shape in bottoms])
    )


WEIGHTED = frozenset(
    "BN BatchNorm Bias Convolution ConvolutionDepthwise Deconvolution DenseBlock "
    "DepthwiseConvolution Embed InnerProduct LSTM Normalize "
    "PReLU Parameter RNN Scale".split()
)


def has_weights(layer: Layer) -> bool:
    """Tell whether a layer has weights of its own, by its type and its number of bottoms; False for
    unknown types.
    """
    if layer.type == "Scale" and len(layer.bottoms) > 1:
        return bool(own_parameters(layer).get("bias_term", False))
    return layer.type in WEIGHTED and (layer.type != "Bias" or len(layer.bottoms) == 1)
