"""`save_blobs`: golden files from a net that a user's own pycaffe script holds."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Union

from ...base.errors import UsageError
from ...base.manifest import original_of
from ...base.naming import printable
from ...base.safe_reading import sha256_of_file
from ...base.wording import listed
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from .tensors_to_save import targets_of

_NAMES_SHOWN = 6


def save_blobs(
    net: Any,
    prototxt: str,
    out: str,
    layer_by_layer: bool = False,
    layers: Union[str, Sequence[str]] = (),
    phase: str = "TEST",
    level: Optional[int] = None,
    stages: Sequence[str] = (),
    force: bool = False,
) -> Dict[str, Any]:
    """Save the blobs of a pycaffe net as golden files and return what was done (``out``,
    ``counts``, ``collisions`` …).

    Parameters
    ----------
    net
        A ``caffe.Net``. It has run already, or its inputs are set and ``layer_by_layer`` is given.
    prototxt
        The file from which the net was made.
    out
        The folder of the golden files.
    layer_by_layer
        Run the net here, one layer at a time, and take each layer's tops before the next one may
        write over them.
    layers
        Patterns of layer names, or one of them; none means all.
    phase, level, stages
        With which the net was made.
    force
        Replace the golden files of an earlier run in ``out``.

    Raises
    ------
    UsageError
        The net has in-place layers and ran as a whole, so that blobs hold another layer's numbers;
        or ``out`` holds golden files.
    InputError
        The prototxt is not that of the net.

    Examples
    --------
    >>> from goldwatch.adapters.caffe import save_blobs  # doctest: +SKIP
    >>> save_blobs(net, "net.prototxt", "golden", layer_by_layer=True)  # doctest: +SKIP
    """
    # The package stays light for the command line, whose own process needs no numpy.
    from ..golden_writer import GoldenWriter
    from .pycaffe_backend import PycaffeBackend, in_place_layers
    from .save_run import save_run

    document = read_upgraded(prototxt)
    model = Net(document, initial_state(document, phase, level, stages))
    if not layer_by_layer:
        _refuse_in_place(in_place_layers(net), model)
    backend = PycaffeBackend.of(net, model, ran=not layer_by_layer)
    targets = targets_of(model, [layers] if isinstance(layers, str) else list(layers))
    writer = GoldenWriter(
        out, "caffe", backend.version, {"prototxt": sha256_of_file(prototxt)}, force
    )
    writer.extra["original"] = original_of("caffe", prototxt, {prototxt: writer.source["prototxt"]})
    return save_run(model, backend, targets, {}, writer, lambda done, total: None, lambda: False)


def _refuse_in_place(user_names: Sequence[str], model: Net) -> None:
    layers = [layer.title for layer in model.layers if layer.is_in_place] or [
        printable(name) for name in user_names
    ]
    if not layers:
        return
    raise UsageError(
        "the net has in-place layers (%s): after a whole run the blobs below them hold the "
        "in-place layer's numbers, "
        "not their own layer's" % listed(layers, _NAMES_SHOWN),
        hint="set the inputs and call save_blobs(net, prototxt, out, layer_by_layer=True), which "
        "runs the net itself; "
        "or make the net from the output of `goldwatch golden caffe deinplace`",
    )
