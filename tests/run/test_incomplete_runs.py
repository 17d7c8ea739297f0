"""Steps, loops and times that are left out are counted, and runs that compared too little are
incomplete.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.api import open_result
from goldwatch.dumps import write_dump
from goldwatch.judging.limits import parse_limits
from goldwatch.run import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.store.store import RunStore
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

TIMESTAMP = 1767323045000000
TREE = "20260102030405/0/net/1/"
VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def test_each_step_is_compared_with_the_golden_data_of_its_step(case) -> None:
    for step in (0, 1, 2):
        case.dump("target", TREE + str(step), "Relu", "a", (), [VALUES + step])
        case.npy("a", VALUES + step, below=str(step))
    assert case.compare().exit_code == 0
    assert [row["golden_file"][:2] for row in case.rows()] == ["0/", "1/", "2/"]
    case.out += "-one"
    assert case.compare(golden_steps="one").exit_code == 1
    assert len({row["golden_file"] for row in case.rows()}) == 1


def test_a_step_without_golden_data_is_reported_and_incomplete(case) -> None:
    for step in (0, 7):
        case.dump("target", TREE + str(step), "Relu", "a", (), [VALUES])
    case.npy("a", below="0")
    case.npy("a", below="1")
    result = case.compare()
    assert result.exit_code == 3 and any(
        "there is none for step 7" in text for text in result.left_out
    )


def test_golden_data_for_all_steps_may_lie_beside_those_of_one(case) -> None:
    for step in (0, 1):
        for op in "ab":
            case.dump(
                "target", TREE + str(step), "Relu", op, (), [VALUES + (step if op == "a" else 0)]
            )
        case.npy("a", VALUES + step, below=str(step))
    case.npy("b")
    assert case.compare().exit_code == 0


def test_each_run_of_a_loop_is_compared_if_golden_data_has_as_many(case) -> None:
    paths = [case.dump("target", "", "Relu", "a", (), [VALUES + number]) for number in range(3)]
    for number in range(3):
        case.npy("a", VALUES + number, later=number)
    assert case.compare().exit_code == 0
    assert [row["target_file"] for row in case.rows()] == [os.path.basename(path) for path in paths]
    write_dump(paths[1], [], [VALUES + 50])
    assert case.compare().exit_code == 1
    assert [row["verdict"] for row in case.rows()] == ["pass", "fail", "pass"]
    case.npy("a", VALUES + 2, later=3)
    assert case.compare().exit_code == 0
    assert [row["target_file"] for row in case.rows()] == [os.path.basename(paths[2])]
    assert [entry["tensor"] for entry in case.document()["omitted"]] == ["a", "a"]


def test_an_empty_step_is_incomplete(case) -> None:
    case.dump("target", TREE + "0", "Relu", "a", (), [VALUES])
    os.makedirs(os.path.join(case.target, TREE + "1"))
    case.npy("a")
    assert case.compare(allow_missing=True).exit_code == 3
    assert [(row["step"], row["verdict"]) for row in case.rows()] == [
        ("0", "pass"),
        ("1", "not_compared"),
    ]
    assert "holds no dump" in case.rows()[1]["reason"]
    case.out += "2"
    assert case.compare().sentence.startswith("Incomplete: 1 row could not be compared. ")


@pytest.mark.parametrize("newer", [False, True])
def test_an_empty_folder_of_an_older_run_is_left_out_as_its_dumps_would_be(case, newer) -> None:
    case.dump("target", TREE + "0", "Relu", "a", (), [VALUES])
    time, rest = TREE.split("/", 1)
    other = "%d/%s0" % (int(time) + (1 if newer else -1), rest)
    os.makedirs(os.path.join(case.target, other))
    case.npy("a")
    assert case.compare().exit_code == (3 if newer else 0)


@pytest.mark.parametrize("allow_missing", [False, True])
def test_dumps_of_inputs_alone_are_incomplete(case, allow_missing) -> None:
    case.op("a", "Data")
    case.op("b", "Relu", "a:0")
    case.dump("target", "", "Relu", "b", [VALUES], ())
    case.npy("a")
    result = case.compare(allow_missing=allow_missing)
    assert (
        result.exit_code == 3
        and result.summary.verdict == "incomplete"
        and result.summary.passed == 1
    )
    assert result.sentence.startswith("Incomplete: no output was compared. ")


def test_golden_data_of_another_network_is_incomplete_and_named(case) -> None:
    case.dump("target", "", "Relu", "conv1", (), [VALUES])
    case.npy("conv1_other")
    for allow_missing in (False, True):
        result = case.compare(allow_missing=allow_missing)
        assert result.exit_code == 4 and result.summary.verdict == "incomplete"
        said = "no golden data matched conv1:output:0; the nearest golden names are conv1_other"
        by_name = (
            "no model is given, and names do not fit one to one (of 1 dumped operator 1 "
            "without golden data of that name and shape, "
            "of the golden ones 1 without a dump)"
        )
        assert result.left_out == (said, by_name)
        first, second = case.document()["summary"]["warnings"]
        assert first == {"code": "unmatched", "sentence": said}
        assert (second["code"], second["sentence"]) == ("names-do-not-fit", by_name)
        assert second["next"].startswith("give -f MODEL.json ")
        assert (
            result.sentence
            == "Incomplete: no output was compared. Not one tensor has its counterpart: %s." % said
        )


def test_golden_data_of_another_batch_are_said_to_be_so(case) -> None:
    for name in ("conv1", "conv2"):
        case.dump("target", "", "Relu", name, (), [VALUES])
        case.npy(name, np.concatenate([VALUES, VALUES]))
    result = case.compare()
    assert result.exit_code == 3 and result.summary.verdict == "incomplete"
    assert [said.code for said in result.left_out][:1] == ["other-shapes"]
    assert result.sentence.startswith(
        "Incomplete: no output was compared: golden data have another shape than TARGET at 2 "
        "outputs, the first is conv1:output:0 ("
    )


def test_an_om_json_of_another_model_is_warned_of(case) -> None:
    for name in ("stage1/conv", "stage1/relu", "stage2/conv"):
        case.op(name, "Relu")
    for name in ("stage1_conv_1", "stage1_relu_1", "stage2_conv_1"):
        case.dump("target", "", "Relu", name, (), [VALUES])
        case.npy(name)
    result = case.compare()
    assert result.exit_code == 4
    assert "none of TARGET's ops is in %s" % case.model in result.sentence
    assert "(stage1_conv_1; the model has stage1/conv" in result.sentence
    case.op("stage1_conv_1", "Relu")
    case.out += "2"
    result = case.compare()
    assert (
        result.exit_code == 3
        and "2 of TARGET's 3 ops are not in %s" % case.model
        in case.document()["summary"]["warnings"][0]["sentence"]
    )


def test_a_damaged_dump_alone_is_incomplete(case) -> None:
    path = case.dump("target", "", "Relu", "a", (), [VALUES])
    case.npy("a")
    with open(path, "r+b") as stream:
        stream.truncate(os.path.getsize(path) - 4)
    assert case.compare().exit_code == 3


def test_rows_accepted_with_allow_missing_are_counted(case) -> None:
    for name in "abc":
        case.dump("target", "", "Relu", name, (), [VALUES])
    case.npy("a")
    result = case.compare(allow_missing=True)
    assert result.exit_code == 0 and result.summary.forgiven == 2
    assert (
        result.sentence
        == "No operator is outside its limits. 2 rows without their file were forgiven."
    )
    assert case.compare().sentence.startswith(
        "Incomplete: 2 rows could not be compared. No operator"
    )


def test_without_a_model_names_that_do_not_fit_accuse_no_operator(case) -> None:
    # "conv" stands for what the compiler fused into it; "conv_relu" is fused too, and called after
    # both.
    case.dump("target", "", "Conv2D", "conv", (), [VALUES + 1])
    case.dump("target", "", "Relu", "pool", (), [VALUES])
    for name in ("conv", "pool"):
        case.npy(name)
    bn = case.npy("bn")
    result = case.compare()
    assert (
        result.exit_code,
        result.summary.failed,
        result.summary.first,
        result.summary.suspects,
    ) == (3, 0, None, ())
    (row,) = [row for row in result.rows() if row.tensor == "conv:output:0"]
    assert (row.verdict, row.cause) == (
        "not_compared",
        "by_name",
    ) and "not known without the model" in row.reason
    assert (
        "No model is given, and names do not fit one to one" in result.sentence
        and "No operator" not in result.sentence
    )
    # The same again from the store.
    assert case.compare().exit_code == 3
    # One to one: what fails by its name fails.
    os.remove(bn)
    case.out += "2"
    result = case.compare()
    assert (result.exit_code, result.summary.first.op) == (1, "conv")


@pytest.mark.parametrize(
    "text, near",
    [
        ("op=nosuchop:CosineSimilarity>0.9", ""),
        ("op=conv_l:CosineSimilarity>0.9", "conv_1"),
        ("type=Rellu:CosineSimilarity>0.9", "Relu"),
    ],
)
def test_a_limit_for_an_op_that_does_not_exist_is_warned_of(case, text, near) -> None:
    case.dump("target", "", "Relu", "conv_1", (), [VALUES])
    case.npy("conv_1")
    result = case.compare(limits=parse_limits([text, "op=conv*:WorstSliceDistance<0.1"]))
    (said,) = result.summary.warnings
    assert said.startswith("the limit for %s decided nothing" % text.split(":")[0])
    assert said.endswith("the nearest are " + near if near else "so")


def test_the_newest_time_folder_is_compared_unless_another_is_chosen(case) -> None:
    for time, offset in (("20260101000000", 5), ("20260102000000", 0)):
        case.dump("target", time + "/0/net/1/0", "Relu", "a", (), [VALUES + offset])
    case.npy("a")
    result = case.compare()
    assert result.exit_code == 0 and any("20260101000000" in text for text in result.left_out)
    for time, times in (
        ("20260101000000", ["20260101000000"]),
        ("all", ["20260101000000", "20260102000000"]),
    ):
        case.out += "x"
        assert case.compare(time=time).exit_code == 1
        assert [row["time"] for row in case.rows()] == times


def test_a_file_overwritten_with_its_time_restored_is_compared_again(case) -> None:
    path = case.dump("target", "", "Relu", "a", (), [VALUES])
    golden = case.npy("a")
    assert case.compare().exit_code == 0
    for changed in (path, golden):
        status = os.stat(changed)
        with open(changed, "r+b") as stream:
            stream.seek(-8, 2)
            before = stream.read()
            stream.seek(-8, 2)
            stream.write(bytes(reversed(before)))
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert case.compare().exit_code == 1
        with open(changed, "r+b") as stream:
            stream.seek(-8, 2)
            stream.write(before)
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert case.compare().exit_code == 0


def test_a_run_continued_from_another_folder_lists_its_files_once(case, monkeypatch) -> None:
    case.dump("target", "", "Relu", "a", (), [VALUES])
    case.npy("a")
    assert case.compare().exit_code == 0
    monkeypatch.chdir(case.folder)
    case.target, case.golden = "target", "golden"
    assert case.compare().exit_code == 0
    with RunStore.open(case.out) as store:
        assert len(store.files()) == 2 and not store.events.all("replaced")


def test_rows_come_while_later_files_are_still_planned(case, monkeypatch) -> None:
    monkeypatch.setattr(compare_folders, "_SLICE", 64)
    for number in range(2 * compare_folders._UNRIPE):
        case.dump("target", "", "Relu", "op%d" % number, (), [VALUES])
        case.npy("op%d" % number)
    planned, compared = [], []
    plan = compare_folders.Session._plan
    monkeypatch.setattr(
        compare_folders.Session,
        "_plan",
        lambda self, file: planned.append(file) or plan(self, file),
    )

    def note(progress):
        if progress.pairs_done:
            compared.append((progress.pairs_done, len(planned)))

    assert case.compare(on_progress=note).exit_code == 0
    assert compared[0][1] < len(planned) and compared[-1][0] == 2 * compare_folders._UNRIPE


def test_the_result_is_usable_after_the_run(case) -> None:
    case.dump("target", "", "Relu", "a", (), [VALUES + 9])
    case.npy("a")
    result = case.compare()
    assert (
        [row.tensor for row in result.rows()]
        == ["a:output:0"]
        == [row.tensor for row in result.rows("fail")]
    )
    assert not [name for name in os.listdir(case.out) if name.startswith("run.sqlite-")]
    assert result.first_divergence.op == "a"


def test_a_target_without_dumps_creates_no_out_folder(case) -> None:
    os.makedirs(case.target)
    case.npy("a")
    with pytest.raises(Exception, match="no dump file was found"):
        case.compare()
    assert not os.path.exists(case.out)


def test_an_input_overwritten_in_place_does_not_accuse_a_healthy_op(tmp_path):
    """The dump of an op that works in place holds the output's bytes as its input, at the same
    address.
    """
    value = VALUES.astype(np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("a", "Abs", (), (DeviceTensor(value, "ND", "ND", "a"),), ("a",)))
    model.add(
        DeviceOp(
            "r", "Neg", (("a", 0),), (DeviceTensor(-value, "ND", "ND", "r"),), ("r",), in_place=0
        )
    )
    model.write_tree(str(tmp_path / "dump"), first_address=4096)
    (tmp_path / "golden").mkdir()
    for name, array in (("a", VALUES), ("r", -VALUES)):
        np.save(str(tmp_path / "golden" / ("%s.0.1.npy" % name)), array)
    folders = [str(tmp_path / name) for name in ("dump", "golden", "out")]
    options = ComparisonOptions(*folders, model=model.write_json(str(tmp_path / "net.json")))
    result = compare_folders.compare_folders(options)
    assert result.exit_code == 0
    (row,) = [row for row in result.rows() if row.tensor == "r:input:0"]
    assert row.verdict == "expected_absent" and "an output lies in its memory" in row.reason
    np.save(str(tmp_path / "golden" / "r.0.1.npy"), VALUES)
    first = compare_folders.compare_folders(options).first_divergence
    assert first.op == "r" and first.inputs == "good"


@pytest.mark.parametrize("broken", [False, True])
def test_an_input_overwritten_in_place_is_judged_by_its_producers_output(case, broken):
    """In place, by a runtime that dumps no addresses."""
    value = (VALUES - 12).astype(np.float16)
    made = np.maximum(value, 0)
    case.op("a", "Conv2D")
    case.op("r", "Relu", "a:0")
    wrong = made[..., ::-1].copy() if broken else made
    case.dump("target", "", "Conv2D", "a", (), [value])
    case.dump("target", "", "Relu", "r", [wrong], [wrong])
    case.npy("a", VALUES - 12)
    case.npy("r", np.maximum(VALUES - 12, 0))
    result = case.compare()
    assert result.exit_code == (1 if broken else 0)
    (row,) = [row for row in case.rows() if row["tensor"] == "r:input:0"]
    assert (
        row["verdict"] == "expected_absent"
        and "it equals an output of the op byte for byte" in row["reason"]
    )
    if broken:
        assert (result.first_divergence.op, result.first_divergence.inputs) == ("r", "good")


def test_an_op_that_passes_its_input_on_keeps_its_failing_row(case):
    case.op("a", "Conv2D")
    case.op("r", "Reshape", "a:0")
    case.dump("target", "", "Reshape", "r", [VALUES + 9], [VALUES + 9])
    for name in "ar":
        case.npy(name)
    assert case.compare().exit_code == 1
    assert [row["verdict"] for row in case.rows() if row["op"] == "r"] == ["fail", "fail"]


def _centred(dtype):
    x = np.random.RandomState(0).standard_normal((4, 1000))
    x = 3 + (x - x.mean(axis=1, keepdims=True))
    return x.astype(np.float32), x.astype(dtype)


def test_a_difference_of_nearly_equal_inputs_is_judged_against_their_rounding(case):
    golden, device = _centred(np.float16)
    mean, exact = np.full((4, 1), 3, np.float16), np.float32(3)
    centred = device - mean
    case.op("x", "Conv2D")
    case.op("m", "ReduceMean", "x:0")
    case.op("c", "Sub", "x:0", "m:0")
    case.op("z", "ReduceMean", "c:0")
    case.dump("target", "", "Conv2D", "x", (), [device])
    case.dump("target", "", "Sub", "c", [device, mean], [centred])
    case.dump(
        "target",
        "",
        "ReduceMean",
        "z",
        [centred],
        [centred.astype(np.float32).mean(axis=1, keepdims=True).astype(np.float16)],
    )
    case.npy("x", golden)
    case.npy("m", golden.mean(axis=1, keepdims=True))
    case.npy("c", golden - exact)
    case.npy("z", (golden - exact).mean(axis=1, keepdims=True))
    assert case.compare(allow_missing=True).exit_code == 0
    rows = {row["tensor"]: row for row in case.rows()}
    assert float(rows["z:output:0"]["metrics"]["RelativeEuclideanDistance"]) > 1
    assert (
        "ReduceMean cancels its inputs: judged against the rounding of their magnitude"
        in rows["z:output:0"]["reason"]
    )


@pytest.mark.parametrize("change", [lambda z: z + 0.02, lambda z: z + np.float16(np.nan)])
def test_a_difference_beyond_the_rounding_of_the_inputs_fails(case, change):
    golden, device = _centred(np.float16)
    centred = device - np.float16(3)
    case.op("x", "Conv2D")
    case.op("z", "ReduceMean", "x:0")
    case.dump(
        "target",
        "",
        "ReduceMean",
        "z",
        [centred],
        [change(centred.mean(axis=1, keepdims=True)).astype(np.float16)],
    )
    case.npy("x", golden - 3)
    case.npy("z", (golden - 3).mean(axis=1, keepdims=True))
    assert case.compare().exit_code == 1


def test_the_input_of_the_next_op_is_judged_like_the_output(case):
    x = np.random.RandomState(1).standard_normal((4, 1000)).astype(np.float32)
    y = np.full((4, 1000), 1e-6, np.float32) * x
    case.op("a", "Conv2D")
    case.op("b", "Conv2D")
    case.op("d", "Sub", "a:0", "b:0")
    case.op("r", "Relu", "d:0")
    noisy = (y + 1e-4 * np.random.RandomState(2).standard_normal(y.shape)).astype(np.float16)
    case.dump("target", "", "Sub", "d", [x.astype(np.float16), (x - y).astype(np.float16)], [noisy])
    case.dump("target", "", "Relu", "r", [noisy], [np.maximum(noisy, 0) * 0])
    for name, values in (("a", x), ("b", x - y), ("d", y), ("r", np.zeros_like(y))):
        case.npy(name, values)
    assert case.compare(allow_missing=True).exit_code == 0
    assert [
        row["verdict"] for row in case.rows() if row["tensor"] in ("d:output:0", "r:input:0")
    ] == ["pass", "pass"]


def test_nan_at_the_same_places_is_warned_of(case) -> None:
    values = VALUES.copy()
    values[1, 2, 3] = np.nan
    case.dump("target", "", "Relu", "a", (), [values])
    case.npy("a", values)
    result = case.compare()
    assert result.exit_code == 0
    assert result.summary.warnings == (
        "1 tensor has NaN at the same places on both sides, which were left out: a:output:0",
    )


def test_an_opened_result_has_the_verdict_of_its_run(case) -> None:
    for name in ("a", "conv2"):
        case.dump("target", "", "Relu", name, (), [VALUES])
    case.npy("a")
    for forgiving in (True, False):
        done, opened = case.compare(allow_missing=forgiving), open_result(case.out)
        assert (opened.summary.verdict, opened.exit_code, opened.sentence) == (
            done.summary.verdict,
            done.exit_code,
            done.sentence,
        )
    case.out += "2"
    os.rename(
        os.path.join(case.golden, "a.0.%d.npy" % TIMESTAMP),
        os.path.join(case.golden, "conv2_x.0.%d.npy" % TIMESTAMP),
    )
    done, opened = case.compare(), open_result(case.out)
    assert (
        opened.exit_code == 4
        and opened.sentence == done.sentence
        and opened.summary.warnings == done.summary.warnings
    )


def test_the_input_of_a_later_op_is_judged_like_the_output(case):
    x = np.random.RandomState(1).standard_normal((4, 1000)).astype(np.float32)
    y = np.float32(1e-6) * x
    case.op("a", "Conv2D")
    case.op("d", "Sub", "a:0", "a:0")
    case.op("r", "Relu", "d:0")
    noisy = (y + 1e-4 * np.random.RandomState(2).standard_normal(y.shape)).astype(np.float16)
    for name, values in (("a", x), ("d", y), ("r", np.zeros_like(y))):
        case.npy(name, values)
    case.dump("target", "", "Sub", "d", [x.astype(np.float16), x.astype(np.float16)], [noisy])
    assert case.compare(allow_missing=True).exit_code == 0
    case.dump("target", "", "Relu", "r", [noisy], [np.zeros_like(noisy)])
    assert case.compare(allow_missing=True).exit_code == 0
    reasons = {row["tensor"]: row["reason"] for row in case.rows()}
    assert "judged like the output that it is: Sub cancels its inputs" in reasons["r:input:0"]
    case.dump("target", "", "Relu", "r", [noisy + np.float16(0.5)], [np.zeros_like(noisy)])
    assert case.compare(allow_missing=True).exit_code == 1
