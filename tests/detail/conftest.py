"""Details of a pair of npy files."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.judging.limits import Limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.pair_task import Settings
from goldwatch.metrics.row import MEASURES
from goldwatch.tools.detail.compare_op import compare_op
from goldwatch.tools.detail.tensor_detail import DetailSettings
from goldwatch.tools.detail.tensor_pairs import pairs_in_files


@pytest.fixture
def detail_of(tmp_path):
    """Return what is found between two arrays: the entry of detail.json."""

    def looked(target, golden, **settings):
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        paths = [str(folder / name) for name in ("op.npy", "other.npy")]
        for path, array in zip(paths, (target, golden)):
            np.save(path, array)
        settings.setdefault("rows", "none")
        out = str(tmp_path / "out")
        compared = Settings(MEASURES, judge=RowJudge(Limits()))
        found = compare_op(
            pairs_in_files(*paths), DetailSettings(out=out, compare=compared, **settings)
        )
        looked.out, looked.found = out, found
        looked.path = lambda name: os.path.join(out, name)
        return found.tensors[0].document

    return looked
