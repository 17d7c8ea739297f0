"""The kinds of files and folders, and the name of each in a sentence."""

from __future__ import annotations

from typing import Dict, NamedTuple

EMPTY, LFS, TEXT, RAW, PROTOBUF = "empty", "git-lfs", "text", "raw", "protobuf"
DUMP, NPY, OM, OM_JSON, GE_TEXT = "dump", "npy", "om", "om-json", "ge-text"
GE_ONNX, GE_READABLE, FUSION_LOG, FUSION_SWITCH, MIX_LIST = (
    "ge-onnx",
    "ge-readable",
    "fusion-log",
    "fusion-switch",
    "mix-list",
)
ACL, QUANT_CONFIG, QUANT_RECORD, OPS_INFO = "acl", "quant-config", "quant-record", "ops-info"
PROTOTXT, SOLVER, CAFFEMODEL = "prototxt", "solver", "caffemodel"
ONNX, ONNX_TEXT, GRAPH_DEF, GRAPH_DEF_TEXT, SAVED_MODEL = (
    "onnx",
    "onnx-text",
    "graph-def",
    "graph-def-text",
    "saved-model",
)
STATISTICS, MINDSPORE_STATISTICS, RESULT_TABLE = (
    "statistics",
    "mindspore-statistics",
    "result-table",
)
MSPROBE, MSPROBE_CONFIG, MINDSPORE_CONFIG, ATB, NUMBERS = (
    "msprobe",
    "msprobe-config",
    "mindspore-config",
    "atb",
    "numbers",
)
TORCH, NPZ, PICKLE, SAFETENSORS, HDF5, ZIP, ARCHIVE, TAR, IMAGE = (
    "torch",
    "npz",
    "pickle",
    "safetensors",
    "hdf5",
    "zip",
    "archive",
    "tar",
    "image",
)
ORT, JSON, SQLITE, SCRIPT = "ort", "json", "sqlite", "script"
MANIFEST, RESULT = "manifest", "result"
INI, SETTINGS, NAMES, MESSAGE_TEXT, YAML = "ini", "settings", "names", "message-text", "yaml"
RANK_TABLE, TENSOR_PROTO = "rank-table", "tensor-proto"
OP_PRECISION = "op-precision"
AIPP, KEEP_LIST, CONVERTER, SHELL, CHECK_REPORT, OP_DESCRIPTION, OP_PROTOTYPE = (
    "aipp",
    "keep-list",
    "converter-config",
    "shell-script",
    "check-report",
    "op-description",
    "op-prototype",
)

PLAIN_TEXTS = (TEXT, INI, SETTINGS, NAMES, MESSAGE_TEXT, YAML)
"""Texts that may be meant to be anything."""
ORIGINALS = (PROTOTXT, CAFFEMODEL, ONNX, ONNX_TEXT, GRAPH_DEF, GRAPH_DEF_TEXT, SAVED_MODEL)
"""Original models and their weights."""

GOLDEN, CONVERTED, MISNAMED, FX, MINDSPORE, DUMPS = (
    "golden",
    "converted",
    "misnamed",
    "torchair-fx",
    "mindspore",
    "dumps",
)
STATISTICS_DUMP, MODELS = "statistics-dump", "models"
"""Kinds of folders only."""

WORDS: Dict[str, str] = {
    EMPTY: "an empty file",
    LFS: "a pointer of Git LFS, not the file itself",
    TEXT: "a text file",
    RAW: "raw bytes without a header",
    PROTOBUF: "a binary protobuf message",
    DUMP: "a device's dump file",
    NPY: "an npy file",
    OM: "an offline model (.om)",
    OM_JSON: "the json of a model",
    GE_TEXT: "GE's graph as text (ge_proto_*.txt)",
    GE_ONNX: "GE's graph in the ONNX form for viewers (ge_onnx_*.pbtxt)",
    GE_READABLE: "GE's graph in the form for readers (ge_readable_*.txt)",
    FUSION_LOG: "the compiler's log of its fusions (fusion_result.json)",
    FUSION_SWITCH: "a list of fusions to be switched (fusion_switch.cfg)",
    MIX_LIST: "a list of operators for mixed precision (modify_mixlist)",
    ACL: "the configuration of a dump (acl.json)",
    QUANT_CONFIG: "a configuration of the quantisation (AMCT)",
    QUANT_RECORD: "a record of scales and offsets (AMCT)",
    OPS_INFO: "a library of operator information (aic-*-ops-info.json)",
    PROTOTXT: "a network of Caffe (.prototxt)",
    SOLVER: "a solver of Caffe (.prototxt)",
    CAFFEMODEL: "weights of Caffe (.caffemodel)",
    ONNX: "an ONNX model",
    ONNX_TEXT: "an ONNX model in text or JSON form",
    TENSOR_PROTO: "one tensor as ONNX stores it (TensorProto, such as input_0.pb)",
    GRAPH_DEF: "a frozen graph of TensorFlow (.pb)",
    GRAPH_DEF_TEXT: "a graph of TensorFlow in text form (.pbtxt)",
    SAVED_MODEL: "a SavedModel of TensorFlow",
    STATISTICS: "statistics of a dump (dump_data is stats), not its tensors",
    MINDSPORE_STATISTICS: "statistics of a MindSpore dump (statistic.csv)",
    RESULT_TABLE: "a result table of a comparison",
    MSPROBE: "what msprobe notes of a dump (dump.json, construct.json, stack.json)",
    MSPROBE_CONFIG: "a configuration of msprobe (config.json)",
    MINDSPORE_CONFIG: "the configuration of a MindSpore dump",
    ATB: "a tensor as the ATB tools dump it",
    NUMBERS: "numbers as a text file",
    TORCH: "a file of torch.save (.pt, .pth)",
    NPZ: "a file of several arrays (.npz)",
    PICKLE: "a pickle, such as an old .pt or .pkl",
    SAFETENSORS: "a safetensors file",
    HDF5: "an HDF5 file",
    ZIP: "a zip archive",
    ARCHIVE: "a file packed with gzip (.gz, .tar.gz)",
    TAR: "a tar archive (not compressed)",
    IMAGE: "an image",
    ORT: "a model in onnxruntime's own format (.ort)",
    JSON: "a json file without a graph",
    SQLITE: "an SQLite file",
    MANIFEST: "a manifest of golden data (manifest.json)",
    RESULT: "a result of goldwatch (result.json)",
    SCRIPT: "a Python script",
    AIPP: "a configuration of AIPP (insert_op_conf of atc)",
    KEEP_LIST: "a list of operators by name or OpType (keep_dtype, customize_dtypes of atc)",
    CONVERTER: "a configuration of MindSpore Lite's converter (config.ini)",
    OP_PRECISION: "a list of the precision of operators (op_precision_mode of atc)",
    SHELL: "a shell script",
    INI: "an ini file",
    YAML: "a YAML file",
    SETTINGS: "a list of settings as text, one in a line",
    NAMES: "a list of names, one in a line",
    MESSAGE_TEXT: "a protobuf message in text form",
    RANK_TABLE: "a table of devices and ranks (HCCL's rank table)",
    CHECK_REPORT: "atc's report of what it supports (check_result.json)",
    OP_DESCRIPTION: "a description of single operators (singleop of atc)",
    OP_PROTOTYPE: "the prototype of an operator (msopgen's input)",
    GOLDEN: "golden files",
    CONVERTED: "arrays that were converted from dump files",
    MISNAMED: "npy files whose names are not {op}.{output_index}.{timestamp}.npy",
    FX: "PyTorch's own values as TorchAir dumps them (FX)",
    MINDSPORE: "a dump of MindSpore",
    DUMPS: "a device's dumps",
    STATISTICS_DUMP: "statistics of a dump (dump_data is stats), not its tensors",
    MODELS: "files of models",
}


class Kind(NamedTuple):
    """The kind of a file or folder.

    Attributes
    ----------
    name
        One of this module's constants.
    example
        For a folder: a file of this kind, relative to the folder; empty for a file.
    files
        For a folder: number of such files; 0 for a file.
    """

    name: str
    example: str = ""
    files: int = 0

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return WORDS[self.name]
