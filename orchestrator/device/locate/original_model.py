"""The model that the golden data come from: what it is, its inputs, and the command that makes
golden data of it.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...adapters.caffe.netinputs import net_inputs
from ...base.errors import InputError, MissingPath
from ...base.fast_dataclasses import dataclass
from ...base.protowire import BYTES, Fields, each, message, text, unsigned
from ...kinds import kind as kinds
from ...kinds.files import kind_of_file
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.graphdef import SHAPE, GraphFile, shape_of
from ...netfiles.onnx_model import OnnxModel
from ...netfiles.onnx_types import type_name
from ...netfiles.protobuf_file import WireFile
from ...recomputing.submodel.caffemodel_check import find_weights

CAFFE, ONNX, TENSORFLOW, SAVED_MODEL, OM = "caffe", "onnx", "tf", "saved-model", "om"
_NAMES = {
    CAFFE: "Caffe",
    ONNX: "ONNX",
    TENSORFLOW: "TensorFlow",
    SAVED_MODEL: "TensorFlow's SavedModel",
    OM: "a second om",
}
_KINDS = {
    kinds.PROTOTXT: CAFFE, kinds.ONNX: ONNX, kinds.GRAPH_DEF: TENSORFLOW,
    kinds.SAVED_MODEL: SAVED_MODEL, kinds.OM: OM, kinds.OM_JSON: OM,
}  # fmt: skip
SAVED_MODEL_FILE = "saved_model.pb"
_HINT = "give a .prototxt, a frozen .pb or a SavedModel's folder, an .onnx, or a second .om"
# DataType of TensorFlow's types.proto.
_TF_TYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64",
    10: "bool", 14: "bfloat16", 17: "uint16",
    19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip
_SERVE, _DEFAULT_SIGNATURE = "serve", "serving_default"


class ModelInput(NamedTuple):
    """One input of the original model; ``shape`` has None for a dim that the model leaves open, and
    is None of unknown rank.
    """

    name: str
    dtype: str
    shape: Optional[Tuple[Optional[int], ...]]


@dataclass(frozen=True)
class OriginalModel:
    """The original model.

    Attributes
    ----------
    kind
        :data:`CAFFE`, :data:`ONNX`, :data:`TENSORFLOW`, :data:`SAVED_MODEL` or :data:`OM`.
    path
        The file; of a SavedModel its folder.
    weights
        Caffe's, or None.
    inputs
        Empty for an om: its json has to be made first.
    """

    kind: str
    path: str
    weights: Optional[str] = None
    inputs: Tuple[ModelInput, ...] = ()

    @property
    def framework(self) -> str:
        """What it is called in a sentence."""
        return _NAMES[self.kind]

    @property
    def channels_last(self) -> bool:
        """Whether its images are NHWC as a rule."""
        return self.kind in (TENSORFLOW, SAVED_MODEL)

    @property
    def files(self) -> List[str]:
        """All files that decide its values, as far as they are known by name."""
        if self.kind == SAVED_MODEL:
            return [
                os.path.join(base, name)
                for base, _, names in sorted(os.walk(self.path))
                for name in sorted(names)
            ]
        external = self.path + ".data" if os.path.isfile(self.path + ".data") else None
        return [path for path in (self.path, self.weights, external) if path]

    def golden_command(self, inputs: Dict[str, str], out: str, python: Optional[str]) -> List[str]:
        """Return the command that makes golden data of every tensor: they serve any om of the
        model.

        Parameters
        ----------
        inputs
            An npy for each input.
        python
            The one that has the framework; None: it is looked for.
        """
        fed = [word for name, path in inputs.items() for word in ("-i", "%s=%s" % (name, path))]
        chosen = [] if python is None else ["--python", python]
        if self.kind == CAFFE:
            return [
                "goldwatch",
                "golden",
                "caffe",
                "dump",
                self.path,
                *([self.weights] if self.weights else []),
                *fed,
                *chosen,
                "-o",
                out,
            ]
        if self.kind == ONNX:
            return ["goldwatch", "golden", "onnx", "dump", self.path, *fed, *chosen, "-o", out]
        option = "--pb" if self.kind == TENSORFLOW else "--saved-model"
        return ["goldwatch", "golden", "tf", "dump", option, self.path, *fed, *chosen, "-o", out]


def read_original(path: str, weights: Optional[str] = None) -> OriginalModel:
    """Read the model that the user names.

    Raises
    ------
    MissingPath, InputError, FormatError
        There is none, it is none, or its weights are missing.
    """
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, SAVED_MODEL_FILE)):
            raise MissingPath(
                "MODEL: %s is a folder without %s" % (path, SAVED_MODEL_FILE), hint=_HINT
            )
        return OriginalModel(
            SAVED_MODEL, path, None, tuple(_saved_inputs(os.path.join(path, SAVED_MODEL_FILE)))
        )
    if not os.path.lexists(path):
        raise MissingPath(
            "MODEL: %s does not exist" % path,
            hint="check the path; it is read from the current folder",
        )
    file_kind = kind_of_file(path)
    kind = _KINDS.get(file_kind.name)
    if kind == SAVED_MODEL:
        return read_original(os.path.dirname(path) or os.curdir)
    if kind is None:
        if path.lower().endswith(".onnx"):
            OnnxModel(path)  # It says where a damaged one ends.
        raise InputError("MODEL: %s is %s" % (path, file_kind.words), hint=_HINT)
    if weights is not None and kind != CAFFE:
        raise InputError(
            "--weights is for a prototxt; %s is %s" % (path, file_kind.words), hint="leave it out"
        )
    if kind == CAFFE:
        return _caffe(path, weights)
    inputs = tuple(
        _onnx_inputs(path) if kind == ONNX else _graph_inputs(path) if kind == TENSORFLOW else ()
    )
    return OriginalModel(kind, path, None, inputs)


def _caffe(path: str, weights: Optional[str]) -> OriginalModel:
    if weights is not None and not os.path.isfile(weights):
        raise MissingPath("--weights: %s does not exist" % weights, hint="name the .caffemodel")
    weights_path = weights if weights is not None else find_weights(path)
    document = read_upgraded(path)
    inputs = net_inputs(Net(document, initial_state(document, "TEST", None, ())), data_layers=True)
    # Labels are inputs of no om.
    known = [
        ModelInput(each.blob, "float32", each.shape or None) for each in inputs if not each.optional
    ]
    if weights_path is None:
        raise MissingPath(
            "MODEL: there is no .caffemodel beside %s" % path, hint="name it with --weights"
        )
    return OriginalModel(CAFFE, path, weights_path, tuple(known))


def _onnx_inputs(path: str) -> Iterator[ModelInput]:
    for value in OnnxModel(path).graph.data_inputs:
        yield ModelInput(value.name, type_name(value.dtype), value.sizes)


def _graph_inputs(path: str) -> Iterator[ModelInput]:
    graph = GraphFile(path)
    with graph.open() as file:
        for node in graph.nodes:
            if node.op == "Placeholder":
                dtype = _TF_TYPES.get(graph.attr_type(file, node, "dtype") or 0, "float32")
                yield ModelInput(node.name, dtype, _open_dims(graph.shape(file, node)))


_TENSOR_INFO = Fields(dtype=unsigned(2), shape=message(3, SHAPE))
_SIGNATURE = Fields(
    inputs=each(message(1, Fields(key=text(1), value=message(2, _TENSOR_INFO)))),
)
_META_GRAPH = Fields(
    info=message(1, Fields(tags=each(text(4)))),
    signatures=each(message(5, Fields(key=text(1), value=message(2, _SIGNATURE)))),
)


def _saved_inputs(path: str) -> Iterator[ModelInput]:
    """Yield the inputs of the signature that is served.

    Source: saved_model.proto, meta_graph.proto: SavedModel 2 meta_graphs; MetaGraphDef 1
    meta_info_def (4 tags), 5 signature_def; SignatureDef 1 inputs; TensorInfo 1 name, 2 dtype, 3
    tensor_shape.
    """
    with WireFile(path, "MODEL", _HINT) as file:
        for record in file.records():
            if record.number != 2 or record.wire != BYTES:
                continue
            graph = file.read(_META_GRAPH, record.first, record.last)
            if graph.info is None or _SERVE not in graph.info.tags:
                continue
            signatures = {entry.key: entry.value for entry in graph.signatures if entry.value}
            chosen = signatures.get(_DEFAULT_SIGNATURE) or next(iter(signatures.values()), None)
            for entry in chosen.inputs if chosen is not None else ():
                if entry.value is not None:
                    dtype = _TF_TYPES.get(entry.value.dtype, "float32")
                    shape = _open_dims(shape_of(entry.value.shape))
                    yield ModelInput(entry.key, dtype, shape)
            return


def _open_dims(shape: Optional[Sequence[int]]) -> Optional[Tuple[Optional[int], ...]]:
    return None if shape is None else tuple(dim if dim >= 0 else None for dim in shape)
