"""What the stand-in compiler makes of an original node: its type in Ascend IR, what it takes in,
and in which layout it runs.

Source of the types: the vendor's public operator plugins of ONNX, Caffe and TensorFlow, and public
jsons of oms.
"""

from __future__ import annotations

from typing import Dict

from ...operators import CAFFE, ONNX, TENSORFLOW

_SAME = frozenset(
    "Abs Acos Acosh Add Asin Asinh Atan Atanh Cast Ceil Cos Cosh Elu Equal Erf Exp Floor "
    "Greater HardSigmoid HardSwish Identity "
    "InstanceNorm LRN LeakyRelu Less Log Mish Mod Mul Neg Pow Reciprocal Relu Relu6 Reshape "
    "Round Rsqrt Selu Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Square SquaredDifference Squeeze Sub Tan Tanh Maximum Minimum "
    "RealDiv BiasAdd".split()
)
TYPES: Dict[str, Dict[str, str]] = {
    ONNX: {
        "Conv": "Conv2D", "ConvTranspose": "Conv2DTransposeD", "MatMul": "BatchMatMulV2",
        "Gemm": "MatMulV2", "Softmax": "SoftmaxV2",
        "LogSoftmax": "LogSoftmaxV2", "MaxPool": "MaxPoolV3", "AveragePool": "AvgPoolV2",
        "GlobalAveragePool": "ReduceMeanD",
        "Transpose": "TransposeD", "Concat": "ConcatD", "ReduceMean": "ReduceMeanD",
        "ReduceSum": "ReduceSumD", "ReduceMax": "ReduceMaxD",
        "ReduceMin": "ReduceMinD", "ReduceProd": "ReduceProdD", "Slice": "StridedSliceD",
        "Split": "SplitVD", "Pad": "PadV3D",
        "LSTM": "DynamicRNN", "GRU": "DynamicGRUV2", "Clip": "ClipByValue", "Div": "RealDiv",
        "Max": "Maximum", "Min": "Minimum",
        "Where": "SelectV2", "Expand": "ExpandD", "Gather": "GatherV2D",
        "BatchNormalization": "BatchNorm", "ArgMax": "ArgMaxD",
        "ArgMin": "ArgMinD", "TopK": "TopKV2", "PRelu": "PRelu",
        "InstanceNormalization": "InstanceNorm", "LayerNormalization": "LayerNorm",
        "And": "LogicalAnd", "Or": "LogicalOr", "Not": "LogicalNot",
        "GreaterOrEqual": "GreaterEqual", "LessOrEqual": "LessEqual",
        "Unsqueeze": "Unsqueeze", "Flatten": "FlattenV2", "Tile": "TileD", "CumSum": "CumsumD",
        "Trilu": "Triu",
    },
    CAFFE: {
        "Convolution": "Conv2D", "InnerProduct": "FullyConnection", "Softmax": "SoftmaxV2",
        "Slice": "SplitVD", "Concat": "ConcatD",
        "ReLU": "Relu", "ReLU6": "Relu6", "TanH": "Tanh", "PReLU": "PRelu",
        "BatchNorm": "BNInference", "Deconvolution": "Deconvolution",
        "AbsVal": "Abs", "ELU": "Elu", "ConvolutionDepthwise": "DepthwiseConv2D",
        "DepthwiseConvolution": "DepthwiseConv2D",
        "Exp": "Exp", "Flatten": "Flatten", "Permute": "Permute",
    },
    TENSORFLOW: {
        "DepthwiseConv2dNative": "DepthwiseConv2D", "Conv2DBackpropInput": "Conv2DBackpropInputD",
        "MatMul": "MatMulV2",
        "MaxPool": "MaxPool", "BatchMatMulV2": "BatchMatMulV2", "Softmax": "SoftmaxV2",
        "LogSoftmax": "LogSoftmaxV2",
        "ConcatV2": "ConcatV2D", "Mean": "ReduceMeanD", "Sum": "ReduceSumD", "Max": "ReduceMaxD",
        "Min": "ReduceMinD",
        "FusedBatchNorm": "BatchNorm", "FusedBatchNormV3": "BatchNorm", "Transpose": "TransposeD",
        "AddV2": "Add", "Pad": "PadD",
        "StridedSlice": "StridedSliceD", "GatherV2": "GatherV2D", "Pack": "Pack",
        "Unpack": "Unpack", "Tile": "TileD", "Select": "Select",
        "ResizeNearestNeighbor": "ResizeNearestNeighborV2D", "ResizeBilinear": "ResizeBilinearV2D",
        "ArgMax": "ArgMaxD", "Div": "RealDiv",
        "LogicalAnd": "LogicalAnd", "SplitV": "SplitVD", "Split": "SplitD",
    },
}  # fmt: skip

SUMMING = frozenset(
    "Conv ConvTranspose MatMul Gemm Convolution Deconvolution ConvolutionDepthwise "
    "DepthwiseConvolution InnerProduct Conv2D "
    "DepthwiseConv2dNative BatchMatMul BatchMatMulV2 Conv2DBackpropInput".split()
)
"""Nodes whose factors a cube unit multiplies."""
CONVOLUTIONS = frozenset(
    "Conv ConvTranspose Convolution Deconvolution ConvolutionDepthwise DepthwiseConvolution "
    "Conv2D".split()
)
NORMALISING = frozenset(
    "BatchNormalization BatchNorm Scale FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 "
    "BiasAdd".split()
)
"""Nodes that the compiler folds into the convolution before them."""
ACTIVATING = frozenset("Relu ReLU Relu6 ReLU6 LeakyRelu".split())
"""Nodes that run on a convolution's or a sum's result before it is stored."""
ACTIVATED = CONVOLUTIONS | frozenset("Gemm InnerProduct Add AddV2 Eltwise".split())
VANISHING = frozenset(
    "Identity Dropout StopGradient Snapshot PreventGradient SpatialDropout".split()
)
"""Nodes of which nothing is left: who reads their output reads their input."""
VIEWS = frozenset("Reshape Squeeze Unsqueeze Flatten ExpandDims".split())
"""Nodes that change the shape alone: an op is there, and has no task on the device where it gets no
other layout.
"""

FIVE = frozenset(
    "Conv2D DepthwiseConv2D Conv2DTransposeD Conv2DBackpropInputD Deconvolution MaxPool "
    "MaxPoolV3 AvgPool AvgPoolV2 Pooling".split()
)
"""They run in NC1HWC0."""
KEEPS_FIVE = frozenset(
    "Add Sub Mul RealDiv Relu Relu6 LeakyRelu Sigmoid HardSigmoid HardSwish Swish ClipByValue "
    "Tanh Exp Sqrt Abs Neg Elu Maximum Minimum "
    "Eltwise BNInference BatchNorm Scale PRelu".split()
)
"""They run in NC1HWC0 where all that they read is stored so."""
FRACTAL = frozenset("MatMulV2 BatchMatMulV2 BatchMatMul FullyConnection".split())
"""They run in FRACTAL_NZ."""


def ir_type(dialect: str, kind: str) -> str:
    """Return the Ascend IR type of an original node's type."""
    return kind if kind in _SAME and kind not in TYPES[dialect] else TYPES[dialect].get(kind, kind)
