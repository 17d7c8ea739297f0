"""Every cut of a real network computes the whole network's values, with real Caffe's values on the
border.
"""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

from goldwatch.adapters.caffe.numpy_backend import NumpyBackend
from goldwatch.adapters.caffe.tensors_to_save import targets_of
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.caffemodel import StoredWeights
from goldwatch.netfiles.caffemodel_cut import CaffeModel
from goldwatch.netfiles.prototxt_edits import Document
from goldwatch.recomputing.submodel.caffe_original import CaffeOriginal

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
# Of the numpy backend against real Caffe, relative to the greatest value (docs/caffe.md).
TOLERANCE = 4e-6


@pytest.fixture(scope="module")
def original():
    return CaffeOriginal.read(os.path.join(DATA, "resblock.prototxt"))


@pytest.fixture(scope="module")
def truth():
    with np.load(os.path.join(DATA, "expected_layer_outputs.npz")) as values:
        return {tuple(key.rsplit(":", 1)): values[key] for key in values.files}


def pairs(original):
    for start in range(len(original.names)):
        reached = original.graph.descendants([start])
        yield from ((start, end) for end in sorted(reached))


def test_there_are_as_many_cuts_as_were_checked_with_real_caffe(original):
    found = [
        original.cut(original.graph.between([start], [end]), [start], [end])
        for start, end in pairs(original)
    ]
    assert len(found) == 304
    assert (
        sum(len([entry for entry in cut.inputs if not entry.unchanged]) > 1 for cut in found) == 109
    )
    assert sum(any(entry.kind == "side" for entry in cut.inputs) for cut in found) == 95
    assert sum(bool(cut.outside_readers) for cut in found) == 279


@pytest.mark.parametrize("share", range(4))
def test_every_cut_computes_the_whole_networks_values(original, truth, tmp_path, share):
    weights = CaffeModel(os.path.join(DATA, "resblock.caffemodel"))
    shape = truth["data", "0"].shape
    for number, (start, end) in enumerate(pairs(original)):
        if number % 4 != share:
            continue
        cut = original.cut(original.graph.between([start], [end]), [start], [end])
        values = {
            entry.tensor: truth[entry.producer, str(entry.output_index)] for entry in cut.inputs
        }
        text = original.text(cut, {entry.name: values[entry.tensor].shape for entry in cut.inputs})
        net = Net(Document(text), State())
        names = {layer.name for layer in net.layers}
        stream = io.BytesIO()
        weights.write(names, stream)
        (tmp_path / "w.caffemodel").write_bytes(stream.getvalue())
        assert [
            layer.name for layer in net.layers if layer.type != "Input" or layer.name == "data"
        ] == [original.names[layer] for layer in cut.layers]
        if set(net.layers[0].tops) and all(layer.type == "Input" for layer in net.layers):
            continue  # The cut from the data layer to itself computes nothing.
        backend = NumpyBackend(net, StoredWeights(str(tmp_path / "w.caffemodel")), list(values))
        for target, value in backend.run(targets_of(net).saved, values):
            if target.type == "Input":
                continue
            wanted = truth[target.name, str(target.top_index)]
            assert value.shape == wanted.shape and value.shape[0] == shape[0]
            assert np.abs(value - wanted).max() <= TOLERANCE * np.abs(wanted).max(), (
                start,
                end,
                target.name,
            )
