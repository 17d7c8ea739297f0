"""A summary is stored and read back; one of another version is not used."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from goldwatch.base.notes import Note
from goldwatch.dumps.place import Place
from goldwatch.judging.diagnosis.explanations import Explanation
from goldwatch.judging.diagnosis.first_divergence import FirstDivergence, Skipped
from goldwatch.judging.diagnosis.model_verdict import Difference, ModelSummary
from goldwatch.judging.diagnosis.summary import Summary
from goldwatch.judging.diagnosis.suspects import Suspect
from goldwatch.judging.limits import Limit
from goldwatch.run.run_status import summary_of, summary_tree

PLACE = Place("20260102030405", "0", "net", "1", "7", "h")
FIRST = FirstDivergence(
    "a", "a:output:0", "CosineSimilarity", -math.inf,
    Limit("CosineSimilarity", ">", 0.99, "dtype", "float16"), "bad", "Conv2D",
    "a:input:0", None, Skipped("b", "good", False), PLACE, "x\udcff",
)  # fmt: skip
SUSPECT = Suspect(
    "a",
    "Conv2D",
    "a:output:0",
    PLACE,
    12.3456,
    "high",
    "evidence",
    "brief",
    (Explanation("shift", 0.98765, "said", "do"),),
)
MODEL = ModelSummary(
    "net",
    (("pass", 1), ("fail", 1)),
    ("0", "1"),
    FIRST,
    Difference("7", "a:output:0", (("0", "pass"), ("1", "fail"))),
)
LEAST = Summary("pass", 1, 2, 2, 0, 0, 0)
FULL = Summary(
    "fail", 3, 2, 1, 1, 0, 0, 4, 5, 6, 7, True, {"exit_code": None, "signal": "SIGKILL"}, FIRST,
    (SUSPECT,), (Note("torch-files", "a warning"),), (MODEL,),
    ("8",), ({"tensors": ["a", "b"], "bytes": 9},), "The sentence.", ("a", PLACE), True,
    True, True, True, 10,
    ({"op": "a", "value": math.inf},),
    ({"host": "h", "rows": 2},),
)  # fmt: skip


@pytest.mark.parametrize("summary", [LEAST, FULL])
def test_a_stored_summary_is_read_back_complete(summary):
    assert summary_of(json.loads(json.dumps(summary_tree(summary)))) == summary


def test_numpy_values_in_a_summary_become_plain_numbers():
    summary = Summary("pass", np.int64(1), 2, 2, 0, 0, 0, hosts=({"mean": np.float32(0.5)},))
    assert summary_of(json.loads(json.dumps(summary_tree(summary)))) == summary


@pytest.mark.parametrize(
    "tree",
    [
        None,
        {},
        [],
        "pass",
        5,
        {**summary_tree(LEAST), "later": 1},
        {"verdict": "pass"},
        {**summary_tree(LEAST), "suspects": [{"op": "a"}]},
    ],
)
def test_a_summary_of_another_version_is_not_used(tree):
    assert summary_of(tree) is None
