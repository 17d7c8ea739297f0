"""Pairs of one form compared together have the rows that each has alone, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.judging.limits import DEFAULTS, Limits, parse_limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.compare_pair import compare_pair, compare_pairs
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.pairs_by_columns import LoadedPair, compare_together
from goldwatch.metrics.row import MEASURES, METRICS, Row
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import HeldBytes, Tensor

FORMS = [
    # target's type and layout, golden's type, shape and order
    ("f2", "ND", "f4", (16,), "C"),
    ("f2", "NC1HWC0", "f4", (1, 16, 2, 2), "C"),
    ("f4", "FRACTAL_NZ", "f8", (32, 16), "C"),
    ("f8", "ND", "f2", (3, 4, 5), "F"),
    ("f4", "ND", "f4", (7, 40), "F"),
    ("f2", "ND", "f4", (), "C"),
    ("f2", "ND", "f4", (1, 1), "C"),
]
OF_WHOLE_NUMBERS = [
    ("i4", "ND", "i8", (16,), "C"),
    ("i4", "ND", "f4", (3, 4, 5), "F"),
    ("f2", "NC1HWC0", "i4", (1, 16, 2, 2), "C"),
    ("u1", "ND", "i2", (2, 9), "C"),
]
OF_SEVERAL_BLOCKS = [
    ("f2", "NC1HWC0", "f4", (2, 20, 3, 3), "C"),
    ("f4", "FRACTAL_NZ", "f8", (33, 18), "C"),
]
SPOILT = ["nan", "inf", "mask", "zero", "far", "near zero", "equal", "constant"]


def spoil(how, x, y):
    if how == "nan":
        x.flat[0] = np.nan
    elif how == "inf":
        x.flat[-1] = y.flat[-1] = np.inf
    elif how == "mask":
        x.flat[0], y.flat[0] = -1e4, -3e4
    elif how == "zero":
        y[...] = 0.0
    elif how == "far":
        x *= 1.5
    elif how == "near zero":
        x *= 1e-7
        y *= 1e-7
    elif how == "equal":
        x[...] = y
    elif how == "constant":
        x[...], y[...] = 2.0, 2.001
    return x, y


def pairs(tmp_path, form, **fields):
    """Eight ordinary pairs, and one of each kind that columns leave to others, or might."""
    dtype, layout, golden_dtype, shape, order = form
    random = np.random.RandomState(sum(map(ord, layout + dtype)) + len(shape))
    tasks = []
    for number, how in enumerate([""] * 8 + SPOILT):
        y = random.standard_normal(shape)
        x, y = spoil(how, np.array(y * (1 + 1e-3 * random.standard_normal(shape))), np.array(y))
        path = str(tmp_path / ("%d.npy" % number))
        np.save(path, np.asarray(y.astype(golden_dtype), order=order))
        stored = x.astype(dtype)
        if layout != "ND":
            stored = convert(stored, "NCHW" if len(shape) == 4 else "ND", layout, shape)
        target = replace(
            Tensor.from_array(stored, layout, original_shape=shape),
            source=HeldBytes(stored.tobytes()),
        )
        row = Row(
            index=0, op="a", op_type="Conv2D", tensor="a:output:%d" % number, kind="output",
            tensor_index=number, verdict="pass", reason="planned",
        )  # fmt: skip
        entry = GoldenEntry(path, path, "a", number, 0, "npy")
        origin = "NCHW" if len(shape) == 4 else "ND"
        tasks.append(PairTask(row, target, entry, origin, shape, **fields))
    return tasks


@pytest.mark.parametrize("metrics", [METRICS, MEASURES, ("CosineSimilarity", "MaxRelativeError")])
@pytest.mark.parametrize("form", FORMS + OF_WHOLE_NUMBERS + OF_SEVERAL_BLOCKS, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_pairs_compared_together_have_the_rows_that_each_has_alone(tmp_path, form, metrics):
    judge = RowJudge(Limits(tuple(one for one in DEFAULTS if one.metric in metrics)))
    for settings in (Settings(metrics, True, judge), Settings(metrics)):
        for fields in ({}, {"final": True}, {"limited_as": "float16"}):
            tasks = pairs(tmp_path, form, **fields)
            rows = compare_pairs(tasks, settings)
            alone = [compare_pair(task, settings) for task in tasks]
            # As texts: NaN is not equal to itself.
            assert list(map(repr, rows)) == list(map(repr, alone))
            together = compare_together(tasks, settings)
            by_columns = [isinstance(row, Row) for row in together]
            assert by_columns[:8] == [form in FORMS] * 8, "columns do for ordinary pairs"
            loaded = [isinstance(row, LoadedPair) for row in together]
            one_block = form not in OF_SEVERAL_BLOCKS
            assert [one != other for one, other in zip(by_columns, loaded)] == [one_block] * 16
            passing = [row for row in together if isinstance(row, Row)]
            assert {row.verdict for row in passing} == ({"pass"} if form in FORMS else set())


def test_limits_of_one_op_hold_for_its_pairs_among_others(tmp_path):
    tasks = pairs(tmp_path, FORMS[0])[:8]
    strict = RowJudge(parse_limits(["op=b:CosineSimilarity>0.99999999"]))
    renamed = [
        replace(task, planned=task.row.but(op="ab"[number % 2]))
        for number, task in enumerate(tasks)
    ]
    verdicts = [row.verdict for row in compare_pairs(renamed, Settings(MEASURES, judge=strict))]
    assert verdicts == ["pass", "fail"] * 4


def test_a_golden_file_that_cannot_be_read_costs_its_own_row_alone(tmp_path):
    tasks = pairs(tmp_path, FORMS[1])[:8]
    with open(tasks[3].golden.path, "r+b") as file:
        file.truncate(40)
    rows = compare_pairs(tasks, Settings(MEASURES, judge=RowJudge(Limits(DEFAULTS))))
    assert [row.verdict for row in rows] == ["pass"] * 3 + ["not_compared"] + ["pass"] * 4
