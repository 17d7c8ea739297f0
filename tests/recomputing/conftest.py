"""An ONNX network on the stand-in of a device."""

from __future__ import annotations

import pytest
from onnx_run import OnnxRun


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)
