"""The ResNet block on the stand-in of a device."""

from __future__ import annotations

import os

import numpy as np
import pytest
from replay_device import DATA, Device


@pytest.fixture
def device(tmp_path):
    """The network with its dumps and results in a folder of the test's own."""
    inputs = {"data": np.load(os.path.join(DATA, "input_data.npy"))}
    return Device(
        tmp_path,
        os.path.join(DATA, "resblock.prototxt"),
        os.path.join(DATA, "resblock.caffemodel"),
        inputs,
    )
