"""What is needed to run an om, from its json: inputs, outputs, preprocessing, atc's command line.

Sources: the vendor's public pages on AIPP; GE's public code for the attributes: ``aipp`` of a Data
(and of an Aipp, which a fusion may take away) holds the settings by their names in the AIPP file,
modes and formats as the numbers of its message; newer compilers put them as a json into
``aipp_config_path`` of the Aipp.
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from ..base.element_types import BY_GE_NAME
from ..base.errors import FormatError
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import read_input
from .atc_options import SHAPE, Dynamic, atc_options, dynamic_of
from .omjson import AIPP_ATTRS, MAX_BYTES, parse_json

_DATA, _AIPP, _OUTPUT = ("Data", "AnnData"), "Aipp", "NetOutput"
# Fed by the runner itself: the gear, and the settings of a dynamic AIPP.
_NOT_FED = ("ascend_mbatch_shape_data", "ascend_dynamic_aipp_data")
_VALUES = ("s", "i", "f", "b")


@dataclass(frozen=True)
class OmInput:
    """One input of an om.

    Attributes
    ----------
    dtype
        numpy's name, or the type's as :data:`goldwatch.base.element_types.ELEMENTS` has it.
    shape
        As the om reads it, -1 for dynamic dims.
    layout
        Such as ``NCHW``; ``ND`` if unknown.
    aipp
        Settings by name of the preprocessing that makes this input from an image; empty if there is
        none.
    """

    name: str
    dtype: str
    shape: Tuple[int, ...]
    layout: str = "ND"
    aipp: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OmInterface:
    """The inputs, outputs and options of an om.

    Attributes
    ----------
    path
        Path of its json.
    name
        Name in the json.
    outputs
        Number of outputs.
    command
        The atc command line that made it; empty if unknown.
    attributes
        ``soc_version``, ``atc_version``, ``opp_version``, those that are in the json.
    """

    path: str
    name: str
    inputs: Tuple[OmInput, ...]
    outputs: int
    command: str
    attributes: Mapping[str, str]

    @property
    def options(self) -> Dict[str, str]:
        """The options of the command that made it."""
        return atc_options(self.command)

    @property
    def soc_version(self) -> str:
        """The chip that it is for; empty if unknown."""
        return self.options.get("soc_version") or self.attributes.get("soc_version", "")

    @property
    def dynamic(self) -> Optional[Dynamic]:
        """Its dynamic inputs; None if all shapes are fixed."""
        shapes = {each.name: each.shape for each in self.inputs}
        dynamic = dynamic_of(self.command)
        if dynamic is not None:
            return dynamic._replace(shapes={**shapes, **dynamic.shapes})
        return (
            Dynamic(SHAPE, shapes)
            if any(dim < 0 for shape in shapes.values() for dim in shape)
            else None
        )


def read_om_interface(path: str) -> OmInterface:
    """Read the json that ``atc --mode=1`` wrote.

    Raises
    ------
    MissingPath, FormatError, InputError
        The file is missing, or is not such a json, or one of another kind.
    """
    try:
        return _interface_of(path)
    except FormatError as error:
        from ..kinds.wrong_kind_advice import model_error

        raise model_error(path) or error from None


def _interface_of(path: str) -> OmInterface:
    tree, _ = parse_json(read_input(path, MAX_BYTES), path)
    graphs = tree.get("graph")
    if not isinstance(graphs, list) or not graphs or not isinstance(graphs[0], dict):
        raise FormatError(
            "no graph in it", path, hint="give the json that atc --mode=1 writes of an om"
        )
    attributes = {key: _text(value) for key, value in _attributes(tree) if key != "atc_cmdline"}
    command = next((_text(value) for key, value in _attributes(tree) if key == "atc_cmdline"), "")
    ops = [op for op in graphs[0].get("op") or () if isinstance(op, dict)]
    images = {
        _source(op): settings
        for op in ops
        if op.get("type") == _AIPP
        for settings in [_aipp(op)]
        if settings
    }
    data = [op for op in ops if op.get("type") in _DATA]
    numbers = [value.get("i", 0) for op in data for key, value in _attributes(op) if key == "index"]
    if sorted(numbers) == list(range(len(data))):
        data = [op for _, op in sorted(zip(numbers, data), key=lambda pair: int(pair[0]))]
    named = [(str(op.get("name")), op) for op in data]
    inputs = [
        _input(op, name, _aipp(op) or images.get(name, {}))
        for name, op in named
        if not name.startswith(_NOT_FED)
    ]
    outputs = [len(op.get("input") or ()) for op in ops if op.get("type") == _OUTPUT]
    return OmInterface(
        path, str(tree.get("name", "")), tuple(inputs), sum(outputs), command, attributes
    )


def _input(op: Dict[str, Any], name: str, aipp: Mapping[str, Any]) -> OmInput:
    descs = op.get("output_desc") or op.get("input_desc") or [{}]
    desc = descs[0] if isinstance(descs[0], dict) else {}
    element = BY_GE_NAME.get(str(desc.get("dtype")))
    dims = desc.get("shape") or {}
    shape = tuple(int(dim) for dim in dims.get("dim") or () if isinstance(dim, (int, str)))
    return OmInput(
        name,
        "float32" if element is None else element.name,
        shape,
        str(desc.get("layout") or "ND"),
        aipp,
    )


def _aipp(op: Dict[str, Any]) -> Dict[str, Any]:
    """Return the AIPP settings of an op by name; empty if it has none."""
    settings: Dict[str, Any] = {}
    for key, value in _attributes(op):
        if key == "aipp_config_path" and _text(value).lstrip().startswith("{"):
            try:
                config = json.loads(_text(value))
            except (ValueError, RecursionError):
                continue
            settings.update((name, config[name]) for name in config if name in AIPP_ATTRS)
        if key == "aipp":
            inner = value.get("func") or {}
            settings.update(
                (name, _plain(each)) for name, each in _attributes(inner) if name in AIPP_ATTRS
            )
    return settings


def _attributes(node: Dict[str, Any]) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield the attributes of a node with their values as in the json."""
    entries = node.get("attr") or ()
    if isinstance(entries, dict):
        entries = [{"key": key, "value": value} for key, value in entries.items()]
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("value"), dict):
            yield str(entry.get("key")), entry["value"]


def _plain(value: Dict[str, Any]) -> Any:
    """Return an attribute's value; the json leaves out a scalar zero."""
    return next((value[name] for name in _VALUES if name in value), 0)


def _text(value: Dict[str, Any]) -> str:
    return str(value.get("s", ""))


def _source(op: Dict[str, Any]) -> str:
    """Return the name of the op that feeds an op's first input."""
    inputs = op.get("input") or [""]
    return str(inputs[0]).rpartition(":")[0]
