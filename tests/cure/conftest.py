from __future__ import annotations

import pytest
from precision_scenes import Scene, plain


@pytest.fixture
def scene(tmp_path):
    def make(inner=plain, fault=None):
        return Scene(tmp_path, inner, fault)

    return make
