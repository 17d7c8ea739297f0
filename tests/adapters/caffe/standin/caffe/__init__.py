"""A stand-in for pycaffe: its calls, its automatic Split layers, its in-place and shared memory,
and its way to die.

Only the layers that the tests need, in float32 numpy. Memory is a list of cells that blobs point
to, as Caffe's SyncedMemory: an in-place layer writes into its bottom's cell, and Flatten, Reshape
and Split let their tops point to their bottom's cell.
"""

import atexit
import collections
import importlib
import os
import signal
import sys

import numpy as np

from goldwatch.netfiles.caffe_net import v1_type
from goldwatch.netfiles.prototxt_edits import read_document

TRAIN, TEST = 0, 1
__version__ = "1.0.0"
_LAYER_FIELDS = {
    "name",
    "type",
    "bottom",
    "top",
    "include",
    "exclude",
    "phase",
    "loss_weight",
    "param",
    "propagate_down",
    "blobs",
}


def fatal(message):
    sys.stderr.write(
        "F1120 11:22:33.444444 12345 net.cpp:123] Check failed: %s\n*** Check failure stack "
        "trace: ***\n" % message
    )
    sys.stderr.flush()
    os.abort()


def set_mode_cpu():
    pass


class Blob:
    def __init__(self, shape=(1,)):
        self.cell = [np.zeros(shape, np.float32)]
        self.shape = tuple(shape)

    @property
    def data(self):
        return self.cell[0].reshape(self.shape)

    def reshape(self, *shape):
        self.shape = tuple(shape)
        if self.cell[0].size != int(np.prod(shape)):
            self.cell[0] = np.zeros(shape, np.float32)

    def write(self, array):
        array = np.asarray(array, np.float32)
        if array.size == self.cell[0].size:
            self.cell[0].reshape(-1)[:] = array.reshape(-1)
        else:
            self.cell[0] = array.copy()
        self.shape = array.shape


class Layer:
    def __init__(self, type_name):
        self.type = type_name


class _Spec:
    def __init__(self, name, kind, bottoms, tops, message=None):
        self.name, self.kind, self.bottoms, self.tops, self.message = (
            name,
            kind,
            list(bottoms),
            list(tops),
            message,
        )


def _refuse_unknown_fields(document):
    """Die as protobuf's parser and the CHECK behind it do; every field that ends in _param is taken
    for known.
    """
    for field in document.root.fields:
        for value in field.values if field.name == "layer" else ():
            for inner in value.message.fields:
                if inner.name not in _LAYER_FIELDS and not inner.name.endswith("_param"):
                    at = (
                        document.line(inner.start),
                        inner.start - document.text.rfind("\n", 0, inner.start),
                    )
                    sys.stderr.write(
                        "[libprotobuf ERROR google/protobuf/text_format.cc:335] Error parsing "
                        "text-format caffe.NetParameter: "
                        '%d:%d: Message type "caffe.LayerParameter" has no field named "%s".\n'
                        % (at + (inner.name,))
                    )
                    fatal(
                        "ReadProtoFromTextFile(param_file, param) Failed to parse "
                        "NetParameter file: %s" % document.path
                    )


class Net:
    def __init__(self, prototxt, weights_or_phase, phase=TEST, weights=None, level=0, stages=()):
        document = read_document(prototxt)
        root = document.root
        _refuse_unknown_fields(document)
        stages = set(stages) | set(root.message("state").texts("stage"))
        wanted = (
            "TRAIN"
            if (weights_or_phase if isinstance(weights_or_phase, int) else phase) == TRAIN
            else "TEST"
        )
        specs = []
        if root.has("input"):
            specs.append(_Spec("input", "Input", [], root.texts("input")))
        for message in root.messages("layer") + root.messages("layers"):
            rules = message.messages("include")
            # As in Caffe, the level that is given counts, even the default 0, and not the file's
            # own.
            deep = [rule for rule in rules if rule.number("min_level", level) <= level]
            if rules and not any(
                rule.text("phase", wanted) == wanted and set(rule.texts("stage")) <= stages
                for rule in deep
            ):
                continue
            if any(rule.text("phase", wanted) == wanted for rule in message.messages("exclude")):
                continue
            kind = v1_type(message.text("type")) if root.has("layers") else message.text("type")
            specs.append(
                _Spec(
                    message.text("name"),
                    kind,
                    message.texts("bottom"),
                    message.texts("top"),
                    message,
                )
            )
        self._root = root
        self._specs = _insert_splits(specs)
        self._build()

    def _build(self):
        self._blobs, self._tops, self._bottoms = [], [], []
        self.blobs = collections.OrderedDict()
        ids = {}
        unread = set()
        for spec in self._specs:
            bottoms, tops = [], []
            for name in spec.bottoms:
                if name not in unread:
                    fatal(
                        "Unknown bottom blob '%s' (layer '%s', bottom index %d)"
                        % (name, spec.name, len(bottoms))
                    )
                unread.discard(name)
                bottoms.append(ids[name])
            for index, name in enumerate(spec.tops):
                if index < len(spec.bottoms) and spec.bottoms[index] == name:
                    tops.append(ids[name])
                elif name in ids:
                    fatal("Top blob '%s' produced by multiple sources." % name)
                else:
                    ids[name] = len(self._blobs)
                    self._blobs.append(Blob())
                    self.blobs[name] = self._blobs[-1]
                    tops.append(ids[name])
                unread.add(name)
            if spec.kind == "SoftmaxWithLoss" and not spec.tops:
                self._blobs.append(Blob())
                tops.append(len(self._blobs) - 1)
            self._bottoms.append(bottoms)
            self._tops.append(tops)
            if spec.kind == "Input":
                self._shape_inputs(spec, tops)
        self._layer_names = [spec.name for spec in self._specs]
        self.layers = [Layer(spec.kind) for spec in self._specs]
        self.reshape()

    def _shape_inputs(self, spec, tops):
        if spec.message is not None:
            shapes = [
                [int(d) for d in shape.texts("dim")]
                for shape in spec.message.message("input_param").messages("shape")
            ]
        elif self._root.has("input_dim"):
            dims = [int(d) for d in self._root.texts("input_dim")]
            shapes = [dims[4 * i : 4 * i + 4] for i in range(len(tops))]
        else:
            shapes = [
                [int(d) for d in shape.texts("dim")] for shape in self._root.messages("input_shape")
            ]
        for number, top in enumerate(tops):
            self._blobs[top].reshape(*shapes[number if len(shapes) > 1 else 0])

    def _top_ids(self, index):
        return list(self._tops[index])

    def _bottom_ids(self, index):
        return list(self._bottoms[index])

    def reshape(self):
        for spec, bottoms, tops in zip(self._specs, self._bottoms, self._tops):
            if spec.kind in ("AbsVal", "Flatten", "Reshape") and bottoms[:1] == tops[:1]:
                fatal(
                    "top[0] != bottom[0] (0x1 vs. 0x1) %s Layer does not allow in-place "
                    "computation." % spec.kind
                )
        saved = [blob.data.copy() for blob in self._blobs]
        for index in range(len(self._specs)):
            self._one(index)
        for blob, data in zip(self._blobs, saved):
            if data.shape == blob.shape:
                blob.write(data)

    def forward(self):
        self._forward(0, len(self._specs) - 1)

    def _forward(self, first, last):
        for index in range(first, last + 1):
            if self._specs[index].kind == "Crash":
                fatal("bottom[0]->count() == 7 (8 vs. 7) in layer %s" % self._specs[index].name)
            if self._specs[index].kind == "Killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._specs[index].kind == "Corrupt":
                # A heap that was written over is often noticed at the end only.
                atexit.register(os.abort)
            if self._specs[index].kind == "Raises":
                raise ValueError("of the user's layer")
            self._one(index)
        return 0.0

    def _one(self, index):
        spec = self._specs[index]
        bottoms = [self._blobs[number] for number in self._bottoms[index]]
        tops = [self._blobs[number] for number in self._tops[index]]
        if spec.kind in ("Input", "Silence", "Killed", "Corrupt", "Raises"):
            return
        if spec.kind in ("Flatten", "Reshape", "Split"):
            for top in tops:
                top.cell = bottoms[0].cell
                top.shape = (
                    bottoms[0].shape
                    if spec.kind == "Split"
                    else (bottoms[0].shape[0], int(np.prod(bottoms[0].shape[1:])))
                )
            return
        if spec.kind == "Eltwise":
            _eltwise(spec, bottoms, tops[0])
            return
        for top, value in zip(
            tops, _compute(spec, [bottom.data.copy() for bottom in bottoms], len(tops))
        ):
            top.write(value)


def _eltwise(spec, bottoms, top):
    param = spec.message.message("eltwise_param")
    if param.text("operation", "SUM") == "SUM":
        if top is bottoms[0]:
            # caffe_set(count, 0, top_data) comes before the sum and clears the bottom.
            top.write(np.zeros(top.shape))
        top.write(sum(bottom.data.astype(np.float64) for bottom in bottoms))
    else:
        out = bottoms[0].data.copy()
        for bottom in bottoms[1:]:
            out = out * bottom.data
        top.write(out)


def _compute(spec, bottoms, n_tops):
    x = bottoms[0]
    if spec.kind in ("ReLU", "TwoInPlace"):
        return [np.maximum(bottom, 0) for bottom in bottoms]
    if spec.kind == "Power":
        param = spec.message.message("power_param")
        return [
            (x * param.number("scale", 1) + param.number("shift", 0)) ** param.number("power", 1)
        ]
    if spec.kind == "Sigmoid":
        return [1 / (1 + np.exp(-x))]
    if spec.kind == "Scale":
        return [x * bottoms[1]]
    if spec.kind == "AbsVal":
        return [np.abs(x)]
    if spec.kind == "Python":
        param = spec.message.message("python_param")
        return getattr(
            importlib.import_module(param.text("module")), param.text("layer")
        )().forward(bottoms)
    if spec.kind in ("Dropout", "Crash"):
        return [x]
    if spec.kind == "Concat":
        return [np.concatenate(bottoms, axis=1)]
    if spec.kind == "Slice":
        points = [int(p) for p in spec.message.message("slice_param").texts("slice_point")]
        return np.split(x, points or n_tops, axis=1)
    if spec.kind == "SoftmaxWithLoss":
        return [np.float32(np.abs(x).sum())]
    fatal("registry.count(type) == 1 (0 vs. 1) Unknown layer type: %s" % spec.kind)
    return []


def _insert_splits(specs):
    """Give each reader of a blob with several readers its own Split top, as Caffe's
    InsertSplits.
    """
    producer, readers = {}, collections.Counter()
    consumed = []
    for index, spec in enumerate(specs):
        entry = []
        for name in spec.bottoms:
            key = producer.get(name)
            if key is None:
                fatal("Unknown bottom blob '%s' (layer '%s')" % (name, spec.name))
            readers[key] += 1
            entry.append(key)
        consumed.append(entry)
        for top_index, name in enumerate(spec.tops):
            producer[name] = (index, top_index)
    out, used = [], collections.Counter()
    for index, spec in enumerate(specs):
        bottoms = []
        for name, key in zip(spec.bottoms, consumed[index]):
            if readers[key] > 1:
                bottoms.append("%s_%s_%d_split_%d" % (name, specs[key[0]].name, key[1], used[key]))
                used[key] += 1
            else:
                bottoms.append(name)
        out.append(_Spec(spec.name, spec.kind, bottoms, spec.tops, spec.message))
        for top_index, name in enumerate(spec.tops):
            count = readers[(index, top_index)]
            if count > 1:
                base = "%s_%s_%d_split" % (name, spec.name, top_index)
                out.append(
                    _Spec(
                        base, "Split", [name], ["%s_%d" % (base, number) for number in range(count)]
                    )
                )
    return out
