"""Builds the ops of a model from the tree of its file (json or text); errors name the place in the
file.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from sys import intern
from typing import Any, Dict, List, Match, Optional, Tuple

from ..base.errors import FormatError
from ..base.notes import Note, note
from .omjson import json_type
from .op_node import QUANT_TYPE, OpNode, TensorDesc

_MAX_NOTES = 100
_MAX_PARTS = 2000000
_LIBRARY = "_ge_attr_op_kernel_lib_name"
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX = re.compile(r"-?[0-9]{1,9}\Z")


class Notes:
    """Oddities that were tolerated; after a hundred they are only counted."""

    def __init__(self, first: List[Note]) -> None:
        self._lines = list(first)
        self._more = 0

    def add(self, pointer: str, text: str) -> None:
        """Add one line about the place that the JSON pointer names."""
        if len(self._lines) < _MAX_NOTES:
            self._lines.append(note("odd-model", pointer, text))
        else:
            self._more += 1

    def lines(self) -> Tuple[Note, ...]:
        """Return the notes."""
        return tuple(self._lines + ([note("more-oddities", self._more)] if self._more else []))


class GraphBuilder:
    """Builds the ops of one tree.

    Parameters
    ----------
    path
        The file, for messages.

    Attributes
    ----------
    fx
        Whether an output has the name of an FX node: TorchAir passed this graph to GE.
    """

    def __init__(self, path: str, notes: Notes) -> None:
        self._path = path
        self._notes = notes
        self._parts = 0
        self.fx = False
        self._shapes: Dict[Tuple[int, ...], Tuple[int, ...]] = {}

    def build(self, tree: Dict[str, Any]) -> Tuple[str, Tuple[str, ...], Tuple[OpNode, ...]]:
        """Return the model's name (the first graph's where the file has none), the graphs' names
        and all ops in the file's order.

        Raises
        ------
        FormatError
            There is no graph, or a graph or an op is not what it should be; the message holds the
            JSON pointer.
        """
        graphs = tree.get("graph")
        if graphs is None:
            raise FormatError(
                "no graph in it: expected a list under /graph",
                self._path,
                hint="is this the json of a model?",
            )
        names: List[str] = []
        ops: List[OpNode] = []
        for index, graph in enumerate(self._list(graphs, "/graph")):
            pointer = "/graph/%d" % index
            if not isinstance(graph, dict):
                raise self._wrong(pointer, "an object", graph)
            names.append(self._text(graph.get("name"), pointer + "/name"))
            for number, op in enumerate(self._parts_of(graph.get("op"), pointer + "/op")):
                ops.append(self._op(op, "%s/op/%d" % (pointer, number), index, len(ops)))
        if not names:
            raise FormatError(
                "no graph in it: the list under /graph is empty",
                self._path,
                hint="is this the json of a model?",
            )
        if self.fx:
            from .torchair_graph import with_fx_names

            built = tuple(with_fx_names(ops))
        else:
            built = _without_outputs(ops)
        return self._text(tree.get("name"), "/name") or names[0], tuple(names), built

    def command(self, tree: Dict[str, Any]) -> str:
        """Return the command line that made the model; empty if the file has none."""
        return self._attr_text(self._attrs(tree.get("attr"), "/attr"), "atc_cmdline", "/attr") or ""

    def _wrong(self, pointer: str, expected: str, value: Any) -> FormatError:
        return FormatError(
            "%s: expected %s, got %s" % (pointer, expected, json_type(value)), self._path
        )

    def _list(self, value: Any, pointer: str) -> List[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(pointer, "a list", value)
        return value

    def _parts_of(self, value: Any, pointer: str) -> List[Any]:
        """Return the list after counting its items: each takes far more memory than the ``{}`` in
        the file.
        """
        parts = self._list(value, pointer)
        self._parts += len(parts)
        if self._parts > _MAX_PARTS:
            raise FormatError(
                "%s: more than %d ops, inputs and tensor descs" % (pointer, _MAX_PARTS), self._path
            )
        return parts

    def _text(self, value: Any, pointer: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(pointer, "a string", value)
        return clean_name(value)

    def _op(self, op: Any, pointer: str, graph_index: int, position: int) -> OpNode:
        if not isinstance(op, dict):
            raise self._wrong(pointer, "an object", op)
        name = self._text(op.get("name"), pointer + "/name")
        if not name:
            self._notes.add(pointer, "the op has no name, so no dump can belong to it")
        attrs = self._attrs(op.get("attr"), pointer + "/attr")
        inputs, controls = self._inputs(op.get("input"), pointer + "/input")
        group = self._attr_text(attrs, "_L1_fusion_sub_graph_no", pointer)
        op_type = intern(self._text(op.get("type"), pointer + "/type"))
        return OpNode(
            name=name,
            type=op_type,
            id=self._integer(op.get("id"), pointer + "/id") or 0,
            graph_index=graph_index,
            position=position,
            inputs=inputs,
            controls=controls,
            input_descs=self._descs(op.get("input_desc"), pointer + "/input_desc"),
            output_descs=self._descs(op.get("output_desc"), pointer + "/output_desc"),
            original_names=self._originals(attrs, pointer),
            is_multiop=self._attr_bool(attrs, "_datadump_is_multiop", pointer),
            l1_group=group or None,
            no_task=self._attr_bool(attrs, "_no_task", pointer) if "_no_task" in attrs else None,
            kernel_library=intern(self._attr_text(attrs, _LIBRARY, pointer) or ""),
            batch_label=self._attr_text(attrs, "_batch_label", pointer) or None,
            subgraphs=self._names(op.get("subgraph_name"), pointer + "/subgraph_name"),
            quantisation=self._quantisation(attrs, pointer) if op_type == QUANT_TYPE else None,
        )

    def _quantisation(self, attrs: Dict[str, Any], pointer: str) -> Optional[Tuple[float, float]]:
        """Return (scale, offset) if both are given and usable."""
        if "scale" not in attrs or "offset" not in attrs:
            return None
        numbers = []
        for key in ("scale", "offset"):
            value = self._attr_value(attrs, key, "f", pointer)
            try:
                numbers.append(float(0.0 if value is None else value))
            except (TypeError, ValueError, OverflowError):
                numbers.append(math.nan)
        if not numbers[0] or not all(map(math.isfinite, numbers)):
            self._notes.add(pointer, "scale and offset are no numbers to dequantise by; left out")
            return None
        return numbers[0], numbers[1]

    def _inputs(
        self, value: Any, pointer: str
    ) -> Tuple[Tuple[Optional[Tuple[str, int]], ...], Tuple[str, ...]]:
        inputs: List[Optional[Tuple[str, int]]] = []
        controls: List[str] = []
        for number, text in enumerate(self._parts_of(value, pointer)):
            if not text:
                inputs.append(None)
                continue
            if not isinstance(text, str):
                raise self._wrong("%s/%d" % (pointer, number), "a string", text)
            name, colon, index = clean_name(text).rpartition(":")
            if not colon or not _INDEX.match(index):
                self._notes.add(
                    "%s/%d" % (pointer, number),
                    "no output index behind the last colon of %s; taken as 0" % text,
                )
                name, index = clean_name(text), "0"
            if int(index) < 0:
                controls.append(name)
            else:
                inputs.append((name, int(index)))
        return tuple(inputs), tuple(controls)

    def _names(self, value: Any, pointer: str) -> Tuple[str, ...]:
        names = enumerate(self._parts_of(value, pointer))
        return tuple(self._text(name, "%s/%d" % (pointer, number)) for number, name in names)

    def _descs(self, value: Any, pointer: str) -> Tuple[TensorDesc, ...]:
        return tuple(
            self._desc(desc, "%s/%d" % (pointer, number))
            for number, desc in enumerate(self._parts_of(value, pointer))
        )

    def _desc(self, desc: Any, pointer: str) -> TensorDesc:
        if desc is None:
            return TensorDesc()
        if not isinstance(desc, dict):
            raise self._wrong(pointer, "an object", desc)
        attrs = self._attrs(desc.get("attr"), pointer + "/attr")
        shape = desc.get("shape")
        if shape is not None and not isinstance(shape, dict):
            self._notes.add(
                pointer + "/shape", "expected an object, got %s; taken as absent" % json_type(shape)
            )
            shape = None
        origin_name = self._attr_text(attrs, "_datadump_origin_name", pointer)
        origin_format = self._attr_text(
            attrs, "_datadump_origin_format", pointer
        ) or self._attr_text(attrs, "origin_format", pointer)
        origin_index = self._attr_index(attrs, pointer)
        fx_name = self._attr_text(attrs, "_fx_tensor_name", pointer)
        if fx_name and origin_name is None:
            from .torchair_graph import fx_origin

            fx = fx_origin(fx_name)
            if fx is not None:
                self.fx = True
                origin_name, origin_index = fx
        return TensorDesc(
            dtype=self._enum(desc.get("dtype"), pointer + "/dtype"),
            layout=self._enum(desc.get("layout"), pointer + "/layout"),
            shape=self._dims(shape.get("dim") if shape else None, pointer + "/shape/dim") or (),
            origin_name=origin_name if origin_name is None else clean_name(origin_name),
            origin_index=origin_index,
            origin_format=intern(origin_format) if origin_format else None,
            origin_shape=self._attr_shape(attrs, pointer),
        )

    def _enum(self, value: Any, pointer: str) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return intern(value)
        self._notes.add(pointer, "expected a name, got %s" % json_type(value))
        return _plain(value)

    def _integer(self, value: Any, pointer: str) -> Optional[int]:
        """Return a proto integer: a json number, or text as proto JSON writes 64-bit ones; None
        when absent or something else.
        """
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _INTEGER.match(value):
            return int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**63:
            return int(value)
        self._notes.add(pointer, "expected an integer, got %s; taken as absent" % json_type(value))
        return None

    def _dims(self, value: Any, pointer: str) -> Optional[Tuple[int, ...]]:
        if value is None:
            return None
        if not isinstance(value, list):
            self._notes.add(
                pointer, "expected a list of dims, got %s; taken as absent" % json_type(value)
            )
            return None
        dims: List[int] = []
        for number, dim in enumerate(value):
            size = self._integer(dim, "%s/%d" % (pointer, number))
            if size is None:
                return None
            dims.append(size)
        shape = tuple(dims)
        return self._shapes.setdefault(shape, shape)

    def _attrs(self, value: Any, pointer: str) -> Dict[str, Any]:
        attrs: Dict[str, Any] = {}
        for number, entry in enumerate(self._list(value, pointer)):
            if entry is None:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                self._notes.add(
                    "%s/%d" % (pointer, number), "not an attribute with a key and a value; left out"
                )
                continue
            attrs[entry["key"]] = entry.get("value")
        return attrs

    def _attr_value(self, attrs: Dict[str, Any], key: str, form: str, pointer: str) -> Any:
        """Return the value under ``form`` (s, i, b, f, list); None for null or empty, which mean
        zero.
        """
        value = attrs[key]
        if value is None or value == {}:
            return None
        if isinstance(value, dict) and (form in value or (form == "list" and "s" in value)):
            return value.get(form, value)
        self._notes.add(
            pointer, "attribute %s: expected a value of form %s; taken as empty" % (key, form)
        )
        return None

    def _attr_text(self, attrs: Dict[str, Any], key: str, pointer: str) -> Optional[str]:
        if key not in attrs:
            return None
        text = self._attr_value(attrs, key, "s", pointer)
        if text is None or isinstance(text, str):
            return text or ""
        self._notes.add(pointer, "attribute %s: expected a string, got %s" % (key, json_type(text)))
        return ""

    def _attr_bool(self, attrs: Dict[str, Any], key: str, pointer: str) -> bool:
        value = self._attr_value(attrs, key, "b", pointer) if key in attrs else None
        if value not in (None, True, False, "true", "false"):  # 1 and 0 too
            self._notes.add(
                pointer,
                "attribute %s: expected true or false, got %s; taken as false"
                % (key, _shown(value)),
            )
        return value in (True, "true")

    def _attr_index(self, attrs: Dict[str, Any], pointer: str) -> Optional[int]:
        key = "_datadump_origin_output_index"
        if key not in attrs:
            return None
        # Proto JSON leaves out a zero: an attribute without a value is output 0.
        return max(
            0, self._integer(self._attr_value(attrs, key, "i", pointer), pointer + "/" + key) or 0
        )

    def _attr_list(self, attrs: Dict[str, Any], key: str, pointer: str) -> Dict[str, Any]:
        value = self._attr_value(attrs, key, "list", pointer)
        if value is None or isinstance(value, dict):
            return value or {}
        self._notes.add(
            pointer,
            "attribute %s: expected a list, got %s; taken as empty" % (key, json_type(value)),
        )
        return {}

    def _attr_shape(self, attrs: Dict[str, Any], pointer: str) -> Optional[Tuple[int, ...]]:
        if "origin_shape" not in attrs or attrs["origin_shape"] in (None, {}):
            return None
        dims = self._attr_list(attrs, "origin_shape", pointer).get("i")
        return () if dims is None else self._dims(dims, pointer + "/origin_shape")

    def _originals(self, attrs: Dict[str, Any], pointer: str) -> Optional[Tuple[str, ...]]:
        key = "_datadump_original_op_names"
        if key not in attrs:
            return None
        names = self._attr_list(attrs, key, pointer).get("s")
        if isinstance(names, str):
            names = [names]
        if names is not None and not isinstance(names, list):
            self._notes.add(
                pointer,
                "attribute %s: expected a list of strings, got %s; taken as empty"
                % (key, json_type(names)),
            )
            names = None
        unique: Dict[str, None] = {}
        for name in names or ():
            if isinstance(name, str):
                unique[clean_name(name)] = None
            elif name is not None:
                self._notes.add(
                    pointer,
                    "attribute %s: expected a string, got %s; left out" % (key, json_type(name)),
                )
        return tuple(unique)


def _without_outputs(ops: List[OpNode]) -> Tuple[OpNode, ...]:
    """Mark the ops that have no output: none is listed, and no op reads one. If the file lists no
    outputs at all, nothing is marked.
    """
    if not any(op.output_descs for op in ops):
        return tuple(ops)
    taken = {source[0] for op in ops for source in op.inputs if source is not None}
    return tuple(
        op if op.output_descs or op.name in taken else replace(op, no_output=True) for op in ops
    )


def _shown(value: Any) -> str:
    return ascii(value[:50]) if isinstance(value, str) else json_type(value)


def clean_name(name: str) -> str:
    """Return ``name`` with lone surrogates (bytes that are no UTF-8, broken escapes) as visible
    ``\\xNN`` or ``\\uNNNN``.
    """
    try:
        name.encode("utf-8")
        return name
    except UnicodeEncodeError:
        return _SURROGATE.sub(_visible, name)


def _visible(match: Match[str]) -> str:
    code = ord(match.group())
    return "\\x%02x" % (code - 0xDC00) if 0xDC80 <= code <= 0xDCFF else "\\u%04x" % code


def _plain(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if value is None or isinstance(value, (dict, list)):
        return ""
    return clean_name(str(value))
