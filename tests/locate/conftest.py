"""A stand-in host with small models, and searches on it."""

from __future__ import annotations

import os
import shutil

import pytest
from locate_host import Place, prepared, small


@pytest.fixture(scope="session")
def host_template(tmp_path_factory):
    """A host with a model and its om, to be copied."""
    place = Place(tmp_path_factory.mktemp("host"))
    place.host()
    small(place.folder / "model.onnx")
    place.atc("model.onnx", "model.om")
    return place.folder


@pytest.fixture
def place(tmp_path, host_template):
    """A folder of a test's own with a host whose device computes ``second`` wrong."""
    return prepared(tmp_path, host_template)


@pytest.fixture
def resblock(place):
    """The ResNet block of tests/data as ``net`` in the folder."""
    data = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "data", "caffe", "resblock"
    )
    for suffix in (".prototxt", ".caffemodel"):
        shutil.copy(os.path.join(data, "resblock" + suffix), str(place.folder / ("net" + suffix)))
