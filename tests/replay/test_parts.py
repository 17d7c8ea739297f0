"""Parts of a replay: rounding, limits, sentences, failing pieces, the command."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from fractions import Fraction

import numpy as np
import pytest
from in_process import run_here

from goldwatch.adapters.child.parent import Task
from goldwatch.adapters.replaying.child import rounded
from goldwatch.adapters.replaying.run import Piece, PieceRunner
from goldwatch.base.errors import InputError
from goldwatch.judging.diagnosis.replay_limits import limits_for, own_error_limits, terms_of
from goldwatch.judging.diagnosis.replay_summary import replay_summary
from goldwatch.judging.diagnosis.summary import summarise
from goldwatch.judging.limits import Limits, Subject, parse_limit
from goldwatch.metrics.row import Row
from goldwatch.model.read_model import load_model
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor


def nearest(value, bits, least):
    """The nearest number with so many bits of significand, by exact fractions; ties to even."""
    if not math.isfinite(value) or value == 0:
        return value
    exact = Fraction(value)
    unit = Fraction(2) ** (max(math.frexp(value)[1], least) - bits)
    return float(round(exact / unit) * unit)


@pytest.mark.parametrize(("dtype", "bits", "least"), [("float16", 11, -13), ("bfloat16", 8, -125)])
def test_values_are_rounded_to_a_type_as_exact_fractions_are(dtype, bits, least) -> None:
    random = np.random.RandomState(4)
    values = np.concatenate(
        [
            random.standard_normal(500) * 10.0 ** random.uniform(-7, 4, 500),
            [0, 1, -1, 1 + 2.0**-11, 1 + 3 * 2.0**-11],
        ]
    )
    values = values.astype(np.float32)
    found = rounded(values, dtype)
    assert [float(value) for value in found] == [
        nearest(float(value), bits, least) for value in values
    ]
    assert found.dtype == (np.float16 if dtype == "float16" else np.float32)


def test_rounding_keeps_nan_infinity_and_integers() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 70000.0], np.float32)
    assert [str(value) for value in rounded(special, "float16")] == ["nan", "inf", "-inf", "inf"]
    assert [str(float(value)) for value in rounded(special, "bfloat16")] == [
        "nan",
        "inf",
        "-inf",
        "70144.0",
    ]
    payload = np.frombuffer(struct.pack("<I", 0x7F80FFFF), np.float32)
    assert np.isnan(rounded(payload, "bfloat16")).all()
    assert (
        rounded(np.float64([0.1]), "float32").dtype == np.float32
        and rounded(np.int32([3]), "float16").dtype == np.int32
    )


def op_with(weights, output, kind="Conv2D", data=(1, 8, 6, 6)):
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(np.zeros(data, np.float16)),)))
    inputs = [("data", 0)]
    if weights is not None:
        model.add(DeviceOp("w", "Const", (), (DeviceTensor(np.zeros(weights, np.float16)),)))
        model.add(
            DeviceOp(
                "b", "Const", (), (DeviceTensor(np.zeros(weights[0], np.float16), "ND", "ND"),)
            )
        )
        inputs += [("w", 0), ("b", 0)]
    model.add(DeviceOp("op", kind, tuple(inputs), (DeviceTensor(np.zeros(output, np.float16)),)))
    return model


@pytest.mark.parametrize(
    ("weights", "output", "terms"),
    [
        ((16, 8, 3, 3), (1, 16, 6, 6), 72),  # a filter of 8 channels and 3 x 3
        ((8, 1, 3, 3), (1, 8, 6, 6), 9),  # depthwise
        ((10, 288), (1, 10), 288),  # fully connected
        (None, (1, 8, 1, 1), 36),  # a mean over 6 x 6
        (None, (1, 8, 6, 6), 1),
    ],
)
def test_the_number_of_summed_terms_of_an_op_is_known(tmp_path, weights, output, terms) -> None:
    graph = load_model(op_with(weights, output).write_json(str(tmp_path / "model.json")))
    assert terms_of(graph, graph.op("op")) == terms


def test_own_error_limits_grow_with_the_terms_up_to_two_per_cent(tmp_path) -> None:
    found = [own_error_limits([count], "float16") for count in (1, 16, 64, 576, 4608, 10**9)]
    assert found == sorted(found) and found[0] == found[1] and found[-1] == [0.01, 0.018]
    assert found[0][0] > 4 * 5.8e-4 and own_error_limits([10**9], "bfloat16")[0] < 0.02
    assert own_error_limits([1], "bfloat16")[0] == pytest.approx(min(0.018, 8 * found[0][0]))
    graph = load_model(
        op_with((16, 8, 3, 3), (1, 16, 6, 6)).write_json(str(tmp_path / "model.json"))
    )
    limits = limits_for(graph, [graph.op("op")])
    of_op, other = (
        limits.for_subject(Subject("float16", "Conv2D", name)) for name in ("op", "other")
    )
    assert [limit.metric for limit in of_op] == [
        "RelativeEuclideanDistance",
        "WorstSliceDistance",
        "DifferentElements",
    ]
    assert of_op[0].value > other[0].value
    overlaid = limits.overlaid([parse_limit("RelativeEuclideanDistance=0.5")])
    assert overlaid.for_subject(Subject("float16", "Conv2D", "op"))[0].value == 0.5


@pytest.mark.parametrize("terms", [9, 147, 1152])
def test_sums_accumulated_in_float16_stay_within_the_limits(terms) -> None:
    random = np.random.RandomState(terms)
    weights = (random.standard_normal((32, terms)) / np.sqrt(terms)).astype(np.float16)
    x = random.standard_normal((terms, 128)).astype(np.float16)
    summed = np.zeros((32, 128), np.float16)
    for term in range(terms):
        summed = (
            summed + (weights[:, term : term + 1] * x[term : term + 1]).astype(np.float16)
        ).astype(np.float16)
    exact = weights.astype(np.float64) @ x.astype(np.float64)
    off = summed - exact
    whole = np.linalg.norm(off) / np.linalg.norm(exact)
    of_slice = (np.linalg.norm(off, axis=1) / np.linalg.norm(exact, axis=1)).max()
    most = own_error_limits([terms], "float16")
    assert whole < most[0] < 0.02 and of_slice < most[1] < 0.02


def row(op, verdict, distance=None, reason=""):
    metrics = {} if distance is None else {"RelativeEuclideanDistance": distance}
    found = {"metrics": metrics, "reason": reason, "target_dtype": "float16", "golden_file": "x"}
    return Row(
        index=0,
        op=op,
        op_type="Relu",
        tensor=op + ":output:0",
        kind="output",
        verdict=verdict,
        tensor_index=0,
        **found,
    )


LIMITS = Limits((parse_limit("RelativeEuclideanDistance=0.01"),))


@pytest.mark.parametrize(
    ("rows", "golden_fails", "sentence"),
    [
        ([row("a", "pass", 0.0)], False, "No operator has an error of its own."),
        (
            [row("a", "pass", 0.0)],
            True,
            "The golden comparison fails but no operator has an error of its own: whose error it "
            "is is not known; compare the inputs and their producers' outputs. goldwatch cure "
            "tells whether float32 mends it: small errors may have grown.",
        ),
        (
            [row("a", "pass", 0.0), row("b", "not_compared")],
            True,
            "The golden comparison fails but no operator that was replayed has an error of "
            "its own. "
            "1 operator could not be replayed and stays suspect: b.",
        ),
        (
            [row("b", "not_compared")],
            False,
            "Nothing was replayed. 1 operator could not be replayed and stays suspect: b.",
        ),
        (
            [row("a", "fail", 0.05)],
            True,
            "a (Relu) has an error of its own: a:output:0 has RelativeEuclideanDistance "
            "0.050000, limit < 0.01.",
        ),
        (
            [row("a", "fail", 0.05), row("b", "fail", 0.5), row("c", "not_compared")],
            False,
            "2 operators have an error of their own, the worst is b (Relu): b:output:0 has "
            "RelativeEuclideanDistance 0.500000, "
            "limit < 0.01; then a. 1 operator could not be replayed and stays suspect: c.",
        ),
        (
            [row("a", "fail", None, "NaN")],
            False,
            "a (Relu) has an error of its own: a:output:0 (NaN).",
        ),
    ],
)
def test_the_last_sentence_of_a_replay_names_culprits_and_gaps(
    rows, golden_fails, sentence
) -> None:
    found = replay_summary(summarise(rows, 3, LIMITS), rows, LIMITS, golden_fails)
    assert found.sentence == sentence and found.suspects == ()


def test_the_sentence_about_a_selection_names_ops_that_were_not_replayed() -> None:
    rows = [row("a", "pass", 0.0), row("b", "not_compared")]
    said = (
        "No selected operator that was replayed has an error of its own (1 replayed); nothing is "
        "known of the others. "
    )
    found = replay_summary(summarise(rows, 3, LIMITS), rows, LIMITS, False, selected=True)
    assert found.sentence == said + "1 operator could not be replayed and stays suspect: b."


CHILD = """
import os
import numpy as np
from goldwatch.adapters.replaying.child import serve_pieces
from goldwatch.base.errors import InputError

def work(job, parent):
    return serve_pieces(job, parent, run, "made up")

def run(piece, arrays):
    (x,) = arrays.values()
    if piece["text"] == "refuse":
        raise InputError("not this one")
    if piece["text"] == "raise":
        raise ValueError("no such\\n thing")
    if piece["text"] == "die":
        os.abort()
    return [x * 2]
"""


@pytest.fixture
def run_made_up(tmp_path, monkeypatch):
    (tmp_path / "made_up.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    np.save(str(tmp_path / "x.npy"), np.float16([[1, 2, 3, 4]]))

    def run(*texts, module="made_up"):
        source = (str(tmp_path / "x.npy"), "float32", (2, 2))
        outputs = [[("y", 0, str(tmp_path / ("%d.npy" % n)), "float16")] for n in range(len(texts))]
        pieces = [
            Piece("op%d" % n, {"x": source}, output, text)
            for n, (text, output) in enumerate(zip(texts, outputs))
        ]
        seen = []

        class MadeUp(PieceRunner):
            name = "made up"

            def _task(self, documents, folder):
                return Task(sys.executable, module, {"pieces": documents})

        failed = MadeUp().run(pieces, str(tmp_path), lambda done, total: seen.append((done, total)))
        return failed, [n for n in range(len(texts)) if (tmp_path / ("%d.npy" % n)).exists()], seen

    return run


def test_a_failing_piece_leaves_the_others_replayed(run_made_up, tmp_path) -> None:
    failed, written, seen = run_made_up("", "refuse", "", "die", "raise", "", "die")
    assert written == [0, 2, 5] and sorted(failed) == [1, 3, 4, 6]
    assert failed[1] == "not this one" and failed[4] == "ValueError: no such thing"
    assert failed[3].startswith("made up ended (killed by SIGABRT)")
    assert {total for _, total in seen} <= {7} and [done for done, _ in seen] == sorted(
        done for done, _ in seen
    )
    np.testing.assert_array_equal(np.load(str(tmp_path / "5.npy")), np.float16([[2, 4], [6, 8]]))


def test_a_framework_that_does_not_start_is_an_error(run_made_up) -> None:
    with pytest.raises(InputError, match="made up raised ModuleNotFoundError"):
        run_made_up("", module="not_there")


def test_the_replay_command_writes_results_and_refuses_wrong_options(device) -> None:
    device.write({"fc": "no-bias"})
    words = [
        "goldwatch",
        "replay",
        device.path("dump"),
        device.prototxt,
        "-f",
        device.path("model.json"),
        "--backend",
        "numpy",
    ]
    done = run_here([*words, "-o", device.path("out")])
    assert done.returncode == 1 and done.stdout.splitlines()[-2].startswith(
        "fc (FullyConnection) has an error of its own: "
    )
    done = run_here(
        [*words, "-o", device.path("json"), "--format", "json", "--op", "fc", "--op", "prob"]
    )
    found = json.loads(done.stdout)
    assert (
        done.returncode == 1
        and found["comparison"] == "replay"
        and [entry["op"] for entry in found["summary"]["culprits"]] == ["fc"]
    )
    assert {entry["op"] for entry in found["rows"]} == {"fc", "prob"}
    done = run_here(
        [
            *words,
            "-o",
            device.path("loose"),
            "--limit",
            "RelativeEuclideanDistance=9",
            "--limit",
            "WorstSliceDistance=9",
        ]
    )
    assert (
        done.returncode == 0
        and done.stdout.splitlines()[-2] == "No operator has an error of its own."
    )
    done = run_here([*words[:-1], "tensorrt", "-o", device.path("none")])
    assert (
        done.returncode == 2
        and "'tensorrt' is not one of" in done.stderr
        and not os.path.exists(device.path("none"))
    )
    done = run_here([*words, "-o", device.path("none"), "--limit", "Nonsense=1"])
    assert done.returncode == 2 and not os.path.exists(device.path("none"))
