"""The layer types of V1 prototxt files (`layers { type: CONVOLUTION }`): the enum
V1LayerParameter.LayerType of caffe.proto.
"""

from __future__ import annotations

_TYPES = {
    "NONE": (0, ""),
    "ABSVAL": (35, "AbsVal"),
    "ACCURACY": (1, "Accuracy"),
    "ARGMAX": (30, "ArgMax"),
    "BNLL": (2, "BNLL"),
    "CONCAT": (3, "Concat"),
    "CONTRASTIVE_LOSS": (37, "ContrastiveLoss"),
    "CONVOLUTION": (4, "Convolution"),
    "DATA": (5, "Data"),
    "DECONVOLUTION": (39, "Deconvolution"),
    "DROPOUT": (6, "Dropout"),
    "DUMMY_DATA": (32, "DummyData"),
    "EUCLIDEAN_LOSS": (7, "EuclideanLoss"),
    "ELTWISE": (25, "Eltwise"),
    "EXP": (38, "Exp"),
    "FLATTEN": (8, "Flatten"),
    "HDF5_DATA": (9, "HDF5Data"),
    "HDF5_OUTPUT": (10, "HDF5Output"),
    "HINGE_LOSS": (28, "HingeLoss"),
    "IM2COL": (11, "Im2col"),
    "IMAGE_DATA": (12, "ImageData"),
    "INFOGAIN_LOSS": (13, "InfogainLoss"),
    "INNER_PRODUCT": (14, "InnerProduct"),
    "LRN": (15, "LRN"),
    "MEMORY_DATA": (29, "MemoryData"),
    "MULTINOMIAL_LOGISTIC_LOSS": (16, "MultinomialLogisticLoss"),
    "MVN": (34, "MVN"),
    "POOLING": (17, "Pooling"),
    "POWER": (26, "Power"),
    "RELU": (18, "ReLU"),
    "SIGMOID": (19, "Sigmoid"),
    "SIGMOID_CROSS_ENTROPY_LOSS": (27, "SigmoidCrossEntropyLoss"),
    "SILENCE": (36, "Silence"),
    "SOFTMAX": (20, "Softmax"),
    "SOFTMAX_LOSS": (21, "SoftmaxWithLoss"),
    "SPLIT": (22, "Split"),
    "SLICE": (33, "Slice"),
    "TANH": (23, "TanH"),
    "WINDOW_DATA": (24, "WindowData"),
    "THRESHOLD": (31, "Threshold"),
}
# Words of branches from the time of V1, each with numbers of its own.
_OF_BRANCHES = {
    "BATCH_NORM": "BatchNorm",
    "BN": "BN",
    "CROP": "Crop",
    "DENSE_IMAGE_DATA": "DenseImageData",
    "IMAGE_SEG_DATA": "ImageSegData",
    "INTERP": "Interp",
    "NORMALIZE": "Normalize",
    "PERMUTE": "Permute",
    "PRELU": "PReLU",
    "PYTHON": "Python",
    "REDUCTION": "Reduction",
    "RESHAPE": "Reshape",
    "ROI_POOLING": "ROIPooling",
    "SCALE": "Scale",
    "SMOOTH_L1_LOSS": "SmoothL1Loss",
    "SPP": "SPP",
    "UPSAMPLE": "Upsample",
    "VIDEO_DATA": "VideoData",
}
_BY_NUMBER = {str(number): name for number, name in _TYPES.values()}


def v1_type(word: str) -> str:
    """Return the V2 type name of a V1 enum word (or number); an unknown word is returned as it
    is.
    """
    if word in _TYPES:
        return _TYPES[word][1]
    if word in _OF_BRANCHES:
        return _OF_BRANCHES[word]
    return _BY_NUMBER.get(word, word)
