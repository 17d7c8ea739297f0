"""Hand-written models: a few lines of Python to the json and the text form."""

from __future__ import annotations

import json

import pytest

from goldwatch.model import Pairing, load_model


class Writer:
    """Builds model trees in proto JSON form; unset values are left out as a real writer leaves them
    out.
    """

    @staticmethod
    def attr(key, value):
        return {"key": key, "value": value}

    def desc(
        self,
        origin=None,
        index=None,
        fmt=None,
        shape=(1, 8),
        dtype="DT_FLOAT16",
        layout="ND",
        origin_shape=None,
    ):
        attrs = [
            self.attr("origin_format", {"s": "NCHW"}),
            self.attr("unused", {"list": {"s": ["x"]}}),
        ]
        if origin is not None:
            attrs.append(self.attr("_datadump_origin_name", {"s": origin}))
        if index is not None:
            attrs.append(self.attr("_datadump_origin_output_index", {"i": index}))
        if fmt is not None:
            attrs.append(self.attr("_datadump_origin_format", {"s": fmt}))
        if origin_shape is not None:
            attrs.append(
                self.attr(
                    "origin_shape", {"list": {"i": list(origin_shape), "val_type": "VT_LIST_INT"}}
                )
            )
        return {"dtype": dtype, "layout": layout, "shape": {"dim": list(shape)}, "attr": attrs}

    def op(
        self,
        name,
        kind="Relu",
        inputs=(),
        outputs=1,
        originals=None,
        multi=False,
        l1=None,
        id=None,
        attrs=(),
    ):
        """``outputs`` is a number of plain descs or a list of descs; ``originals`` None leaves the
        attribute out.
        """
        node = {
            "name": name,
            "type": kind,
            "attr": [self.attr("_unused", {"f": "0.5"})] + list(attrs),
        }
        if id:
            node["id"] = id
        if inputs:
            node["input"] = list(inputs)
            node["input_desc"] = [self.desc() for source in inputs if not source.endswith(":-1")]
        node["output_desc"] = (
            [self.desc() for _ in range(outputs)] if isinstance(outputs, int) else outputs
        )
        if originals is not None:
            value = {"list": {"val_type": "VT_LIST_STRING"}}
            if originals:
                value["list"]["s"] = list(originals)
            node["attr"].append(self.attr("_datadump_original_op_names", value))
        if multi:
            node["attr"].append(self.attr("_datadump_is_multiop", {"b": True}))
        if l1 is not None:
            node["attr"].append(self.attr("_L1_fusion_sub_graph_no", {"s": l1}))
        return node

    def tree(self, *graphs, name="model"):
        tree = {
            "graph": [
                {"name": "g%d" % number, "op": list(ops)} for number, ops in enumerate(graphs)
            ]
        }
        if name is not None:
            tree["name"] = name
        return tree

    def text(self, tree):
        """The tree in protobuf text form."""
        lines = []
        for key, value in tree.items():
            self._text(lines, key, value, 0)
        return "\n".join(lines) + "\n"

    def _text(self, lines, key, value, depth):
        pad = "  " * depth
        if isinstance(value, list):
            for item in value:
                self._text(lines, key, item, depth)
        elif isinstance(value, dict):
            lines.append("%s%s {" % (pad, key))
            for name, item in value.items():
                self._text(lines, name, item, depth + 1)
            lines.append(pad + "}")
        elif isinstance(value, bool):
            lines.append("%s%s: %s" % (pad, key, "true" if value else "false"))
        elif isinstance(value, int) or key in ("dtype", "f", "val_type"):
            lines.append("%s%s: %s" % (pad, key, value))
        else:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append('%s%s: "%s"' % (pad, key, escaped))


@pytest.fixture(scope="session")
def write():
    return Writer()


@pytest.fixture
def load(write, tmp_path):
    """Write ops (lists of graphs) as json and load them."""

    def _load(*graphs, name="model"):
        path = tmp_path / "model.json"
        path.write_text(json.dumps(write.tree(*graphs, name=name)))
        return load_model(str(path))

    return _load


@pytest.fixture
def pairing(load):
    def _pairing(ops, golden=(), more=()):
        known = {(name, 0) if isinstance(name, str) else name for name in golden}
        return Pairing(load(ops, *more), lambda name, index: (name, index) in known)

    return _pairing
