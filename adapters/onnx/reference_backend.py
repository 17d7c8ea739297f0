"""onnx's own reference implementation runs the model: slow, and it has every type."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np

from ...base.errors import InputError
from ...base.naming import printable
from ...netfiles.narrow_types import decode, encode, held_as, is_narrow
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import BY_NAME
from .inputs import Fed
from .model_additions import input_of, output_of, with_additions
from .onnxruntime_backend import Result, Stop, Stopped
from .onnxruntime_messages import missing_package
from .values_to_save import ValueToSave

_OR_FED = (
    "use `backend=onnxruntime`, or give the outputs of each such node, for example from the "
    "device's dump: `feeds=NODE=dump:FILE`"
)


class Reference:
    """Runs one model with one set of inputs; parameters and attributes as for
    :class:`.onnxruntime_backend.Onnxruntime`.
    """

    name = "onnx.reference"
    doing: Callable[[str], None] = staticmethod(lambda text: None)

    def __init__(
        self,
        model: OnnxModel,
        fed: Sequence[Fed],
        without: Sequence[OnnxNode],
        seed: int,
        names: Sequence[str],
        stop: Stop,
    ) -> None:
        try:
            import onnx
            import onnx.reference
        except ImportError as error:
            raise missing_package("onnx", error) from error
        self._onnx = onnx
        self.version = str(onnx.__version__)
        self._model, self._without, self._seed, self._stop = model, without, seed, stop
        self._kept = [
            (name, node) for name, node in zip(names, model.graph.nodes) if node not in without
        ]
        self._at = ""
        inputs = {value.name for value in model.graph.inputs}
        self._input_fields = b"".join(
            input_of(each.name, each.type.code, each.array.shape)
            for each in fed
            if each.name not in inputs
        )
        self._feeds = {each.name: self._value(each) for each in fed}
        self.options: Dict[str, Any] = {
            "random_ops_seed": seed,
            "slices": 1,
            "arithmetic": "16-bit and 8-bit floats are computed in float32, and rounded to their "
            "type after each node",
        }

    def _value(self, fed: Fed) -> Any:
        if not is_narrow(fed.type.name):
            return fed.array
        tensor = self._onnx.TensorProto(
            data_type=fed.type.code, dims=fed.array.shape, raw_data=fed.raw
        )
        return self._onnx.numpy_helper.to_array(tensor)

    def fetch(self, additions: bytes, names: Sequence[str]) -> List[np.ndarray]:
        """Return small values of the model with additions."""
        return [np.asarray(value) for value in self._run(additions, names)]

    def results(
        self, additions: bytes, targets: Sequence[ValueToSave], budget_bytes: int
    ) -> Iterator[Result]:
        """Yield the targets; all are computed at once, whatever memory that takes."""
        values = self._run(additions, [target.value for target in targets])
        values.reverse()
        for target in targets:
            value = values.pop()
            array, dtype = plain(value)
            if array is None:
                yield target, "a value of type %s, which no dump holds" % dtype, ""
            else:
                yield target, array, dtype

    def _run(self, additions: bytes, names: Sequence[str]) -> List[Any]:
        with self._model.open() as file:
            data = with_additions(
                file,
                self._input_fields + additions + b"".join(map(output_of, names)),
                self._without,
            )
        np.random.seed(self._seed)
        self._at = ""
        try:
            proto = self._onnx.ModelProto.FromString(data)
            self._onnx.load_external_data_for_model(
                proto, os.path.dirname(os.path.abspath(self._model.path))
            )
            evaluator = self._onnx.reference.ReferenceEvaluator(proto)
            self._compute_in_float32(evaluator.rt_nodes_)
            for (name, node), computing in zip(self._kept, evaluator.rt_nodes_):
                title = "node %s (%s)" % (printable(name), node.op_type)
                computing.run = partial(self._named, title, computing.run)
            arrays = evaluator.run(list(names), self._feeds)
        except Exception as error:
            text = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:400])
            message = "%s: onnx's reference implementation %s: %s" % (
                self._at or self._model.path,
                self.version,
                printable(text),
            )
            # Of an operator that it does not know onnxruntime has no kernel either, mostly.
            unknown = isinstance(error, NotImplementedError)
            hint = _OR_FED if unknown else "use `backend=onnxruntime`"
            raise InputError(message, hint=hint) from error
        self.doing("")
        if self._stop.requested:
            raise Stopped
        return list(arrays)

    def _named(self, title: str, run: Callable[..., Any], *inputs: Any, **others: Any) -> Any:
        self._at = title
        self.doing("running " + title)
        return run(*inputs, **others)

    def _compute_in_float32(self, nodes: Sequence[Any]) -> None:
        """Make each operator compute in float32 what it has in narrower floats, and round its
        outputs, in bodies and functions as well.

        The package sums in the type itself: in onnx 1.23.2 the mean of 4,096 bfloat16 ones is
        0.0625, and a float16 LayerNormalization of values of spread 8 is all zeros.
        """
        for node in nodes:
            inner = [each for each in vars(node).values() if hasattr(each, "rt_nodes_")]
            for evaluator in inner:
                if not getattr(evaluator, "computes_in_float32", False):
                    evaluator.computes_in_float32 = True
                    self._compute_in_float32(evaluator.rt_nodes_)
            domain, op_type = node.onnx_node.domain, node.onnx_node.op_type
            try:
                opset = node.run_params["opsets"].get(domain, 1)
                schema = self._onnx.defs.get_schema(op_type, opset, domain)
            except self._onnx.defs.SchemaError:
                # A function of the model: its own nodes compute in float32.
                continue
            if not any(each.type == each.GRAPH for each in node.onnx_node.attribute):
                node.run = _in_float32(schema, node.run)


def _in_float32(schema: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``run`` of an operator that takes those inputs as float32 whose type, by the
    operator's schema, may be float32 as well, and rounds the outputs of the same type.
    """
    widens = {
        each.type_param_str
        for each in schema.type_constraints
        if "tensor(float)" in each.allowed_type_strs
    }

    def run_in_float32(*inputs: Any, **others: Any) -> Any:
        given, types = list(inputs), {}
        for position, value in enumerate(inputs):
            # The last input of a schema may be there many times.
            kind = schema.inputs[min(position, len(schema.inputs) - 1)].type_str
            array, name = plain(value)
            if kind in widens and (name == "float16" or name == "bfloat16" or name[:6] == "float8"):
                types[kind] = value.dtype, name
                given[position] = array.astype(np.float32)
        outputs = run(*given, **others)
        if not types:
            return outputs
        rounded = []
        for position, value in enumerate(outputs):
            kind = schema.outputs[min(position, len(schema.outputs) - 1)].type_str
            if kind in types and isinstance(value, (np.ndarray, np.generic)):
                dtype, name = types[kind]
                wide = np.asarray(value, np.float32)
                with np.errstate(over="ignore"):
                    value = (
                        wide.astype(dtype)
                        if name == "float16"
                        else np.frombuffer(encode(wide, name), "<u%d" % dtype.itemsize)
                        .view(dtype)
                        .reshape(wide.shape)
                    )
            rounded.append(value)
        return tuple(rounded)

    return run_in_float32


def plain(value: Any) -> Tuple[Any, str]:
    """Return a value as numbers that numpy has, and the name of its type; None and what it is where
    it holds no numbers.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        return None, type(value).__name__
    array = np.asarray(value)
    name = (
        array.dtype.name.replace("_", "")
        if array.dtype.kind == "V" or array.dtype.name not in BY_NAME
        else array.dtype.name
    )
    if array.dtype.fields:
        # onnx before 1.18 stores such types as integers with a field of the type's name.
        fields = {
            "e4m3fn": "float8e4m3fn",
            "e4m3fnuz": "float8e4m3fnuz",
            "e5m2": "float8e5m2",
            "e5m2fnuz": "float8e5m2fnuz",
        }
        name = next(iter(array.dtype.fields))
        name = fields.get(name, name)
        if is_narrow(name):
            codes = np.ascontiguousarray(array).view("<u2" if name == "bfloat16" else np.uint8)
            if name in ("int4", "uint4"):
                return codes.view(np.int8 if name == "int4" else np.uint8), name
            return decode(codes.reshape(-1).view(np.uint8), name, array.size).reshape(
                array.shape
            ), name
    if name not in BY_NAME:
        # ml_dtypes' names of types without infinity, or without NaN, end on what they lack.
        name = re.sub("fn(u?)$", "", name)
    dtype = held_as(name)
    if dtype is None:
        return None, str(array.dtype)
    return (array.astype(dtype) if is_narrow(name) else array), name
