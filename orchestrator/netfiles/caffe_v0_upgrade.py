"""Upgrades nets of the oldest form, V0 (``layers { layer { name type … } bottom top }``), to V1.

Source of the rules: UpgradeV0Net in BVLC Caffe's upgrade_proto.cpp.
"""

from __future__ import annotations

from typing import Dict, List, NoReturn, Tuple

from ..base.errors import InputError
from ..base.naming import printable
from .protobuf_text import Message, quote
from .prototxt_edits import Document, read_document

_TYPES = {
    "conv": "CONVOLUTION",
    "pool": "POOLING",
    "innerproduct": "INNER_PRODUCT",
    "images": "IMAGE_DATA",
}
"""V1 types by V0 types, where it is not the same word in capitals."""
_PARAMS = {
    "conv": (
        "convolution_param",
        "num_output weight_filler bias_filler pad group stride biasterm kernelsize",
    ),
    "innerproduct": ("inner_product_param", "num_output weight_filler bias_filler biasterm"),
    "pool": ("pooling_param", "pad stride pool kernelsize"),
    "dropout": ("dropout_param", "dropout_ratio"),
    "lrn": ("lrn_param", "local_size alpha beta k"),
    "concat": ("concat_param", "concat_dim"),
    "data": ("data_param", "source batchsize rand_skip"),
    "images": (
        "image_data_param",
        "source batchsize rand_skip shuffle_images new_height new_width",
    ),
    "hdf5_data": ("hdf5_data_param", "source batchsize"),
    "window_data": (
        "window_data_param",
        "source batchsize det_fg_threshold det_bg_threshold det_fg_fraction det_context_pad "
        "det_crop_mode",
    ),
    "infogain_loss": ("infogain_loss_param", "source"),
}
"""The parameter message of each V0 type, and the fields that go into it."""
_RENAMED = {
    "biasterm": "bias_term",
    "kernelsize": "kernel_size",
    "batchsize": "batch_size",
    "shuffle_images": "shuffle",
}
_TRANSFORM = {
    "scale": "scale",
    "meanfile": "mean_file",
    "cropsize": "crop_size",
    "mirror": "mirror",
}
_AS_THEY_ARE = ("blobs", "blobs_lr", "weight_decay", "hdf5_output_param")


def read_upgraded(path: str) -> Document:
    """Read a prototxt, upgrading a V0 net to V1; raises as :func:`.prototxt_edits.read_document`,
    and InputError.
    """
    return upgraded(read_document(path))


def upgraded(document: Document) -> Document:
    """Return a V0 net as a V1 net, its layers in the same order; any other document as it is.

    Raises
    ------
    InputError
        A layer has a field that its type does not know, or a padding layer stands before one that
        has no pad.
    """
    layers = [
        value.message for value in document.root.values("layers") if value.message is not None
    ]
    if not any(layer.has("layer") for layer in layers):
        return document
    parts = [
        document.text[field.start : field.end] + "\n"
        for field in document.root.fields
        if field.name != "layers"
    ]
    makers: Dict[str, Message] = {}
    for connection in layers:
        v0_layer = connection.message("layer")
        bottoms, pads = _before_padding(document, connection, makers)
        for top in connection.texts("top"):
            makers[top] = connection
        if v0_layer.text("type") != "padding":
            parts.append(_as_v1(document, v0_layer, bottoms, connection.texts("top"), pads))
    return Document("".join(parts), document.path)


def _before_padding(
    document: Document, connection: Message, makers: Dict[str, Message]
) -> Tuple[List[str], List[str]]:
    """Return a layer's bottoms with padding layers passed by, and the pads of these."""
    bottoms, pads = [], []
    for bottom in connection.texts("bottom"):
        maker = makers.get(bottom)
        if maker is not None and maker.message("layer").text("type") == "padding":
            if (
                connection.message("layer").text("type") not in ("conv", "pool")
                or len(maker.texts("bottom")) != 1
            ):
                _refuse(
                    document,
                    connection.message("layer"),
                    "reads a padding layer, which only conv and pool can",
                )
            pads.append(maker.message("layer").text("pad", "0"))
            bottom = maker.texts("bottom")[0]
        bottoms.append(bottom)
    return bottoms, pads


def _as_v1(
    document: Document, layer: Message, bottoms: List[str], tops: List[str], pads: List[str]
) -> str:
    kind = layer.text("type")
    param, known = _PARAMS.get(kind, ("", ""))
    inner, transform, plain = ["pad: %s" % pad for pad in pads], [], []
    for field in layer.fields:
        text = document.text[field.start : field.end]
        if field.name in known.split():
            if field.name != "pad" or not pads:
                inner.append(
                    _RENAMED.get(field.name, field.name.replace("det_", ""))
                    + text[len(field.name) :]
                )
        elif field.name in _TRANSFORM:
            transform.append(_TRANSFORM[field.name] + text[len(field.name) :])
        elif field.name in _AS_THEY_ARE:
            plain.append(text)
        elif field.name not in ("name", "type"):
            _refuse(
                document,
                layer,
                "has a field %s, which its type does not know" % printable(field.name),
            )
    lines = ["name: " + quote(layer.text("name")), "type: " + _TYPES.get(kind, kind.upper())]
    lines += (
        ["bottom: " + quote(name) for name in bottoms]
        + ["top: " + quote(name) for name in tops]
        + plain
    )
    lines += [
        "%s { %s }" % (name, " ".join(body))
        for name, body in ((param, inner), ("transform_param", transform))
        if body
    ]
    return "layers { %s }\n" % "\n".join(lines)


def _refuse(document: Document, layer: Message, what: str) -> NoReturn:
    name, kind = (printable(layer.text(field)) for field in ("name", "type"))
    message = "%s: layer %s (%s) of a V0 net %s" % (document.path or "prototxt", name, kind, what)
    raise InputError(
        message, hint="correct it; the rules are those of Caffe's own upgrade_net_proto_text"
    )
