from __future__ import annotations

import glob
import json
import os

import jsonschema
import numpy as np
import pytest
from in_process import run_here
from precision_scenes import ATC, cancelling, masked, overflow, plain, vanishing

from goldwatch.base.errors import InputError, UsageError
from goldwatch.device.cure.run import Budget, cure
from goldwatch.reports.difference import difference_of
from goldwatch.schemas import load_schema


def coarse(array):
    return np.round(array * 8) / 8


def causes(found):
    return {one.facts.name: one.facts.cause for one in found.ranked if one.raised}


@pytest.mark.parametrize(
    ("inner", "raised", "cause"),
    [
        (overflow, ["large", "small", "turned"], "overflow"),
        (cancelling, ["added", "less"], "cancelling"),
        (masked, ["add", "softmax"], "overflow"),
    ],
)
def test_the_raised_operators_cure_the_network(scene, inner, raised, cause):
    net = scene(inner)
    net.compare("before")
    found = net.cure()
    assert sorted(found.ops) == raised and found.exit_code == 0 and found.before > 1 > found.after
    assert cause in causes(found).values()
    with open(found.file, encoding="utf-8") as stream:
        assert sorted(stream.read().split()) == raised
    net.compare("after", found.ops)
    raised_now = difference_of(net.path("before"), net.path("after")).raised
    assert (
        raised_now is not None and raised_now.outcome == "held" and sorted(raised_now.ops) == raised
    )
    assert net.cure("after", "again").exit_code == 3


def test_a_row_that_is_masked_beyond_the_type_is_told_with_its_cure(scene):
    net = scene(masked)
    net.compare("before")
    words = ["goldwatch", "compare", "before_dump", "golden", "-f", "before.json", "-o", "again"]
    said = " ".join(run_here(words, net.folder).stdout.split())
    assert "1 row of softmax:input:0 along axis 1, [2], is -Inf throughout on the device" in said
    assert "next: goldwatch cure again -f before.json -o again/cure" in said


@pytest.mark.parametrize("inner", [overflow, cancelling])
def test_where_precision_is_the_cause_the_next_command_is_its_cure(scene, inner):
    """A replay, or a closer look, finds each operator right."""
    net = scene(inner)
    net.compare("before")
    words = ["goldwatch", "compare", "before_dump", "golden", "-f", "before.json", "-o", "again"]
    said = " ".join(run_here(words, net.folder).stdout.split())
    assert "next: goldwatch cure again -f before.json -o again/cure" in said, said


def test_a_wrong_operator_in_a_narrow_type_has_no_cure_as_its_next_command(scene):
    net = scene(plain, ("curve", lambda array: array * 3))
    net.compare("before")
    words = ["goldwatch", "compare", "before_dump", "golden", "-f", "before.json", "-o", "again"]
    said = " ".join(run_here(words, net.folder).stdout.split())
    assert "next: goldwatch" in said and "next: goldwatch cure" not in said, said


def test_the_json_of_another_om_is_refused(scene):
    net = scene(overflow)
    net.compare("before")
    with open(net.path("before.json"), encoding="utf-8") as stream:
        text = stream.read()
    with open(net.path("other.json"), "w", encoding="utf-8") as stream:
        stream.write(text.replace("large", "grand"))
    words = ["goldwatch", "cure", "before", "-f", "other.json", "-o", "cured"]
    done = run_here(words, net.folder)
    assert done.returncode == 4, done.stdout
    said = " ".join(done.stderr.split())
    assert "other.json is not the json of the om that was dumped: it lacks 1 of the" in said, said


def test_a_coarse_approximation_is_raised_and_ranked_first(scene):
    net = scene(plain, ("curve", coarse))
    net.compare("before")
    found = net.cure()
    assert found.ops == ("curve",) and found.ranked[0].facts.name == "curve"
    assert found.ranked[0].facts.cause in ("approximation", "rounding")
    assert found.ranked[0].contribution > 10 * found.ranked[1].contribution


@pytest.mark.parametrize(
    "fault",
    [
        lambda array: array[:, ::-1].copy(),
        lambda array: np.roll(array, 1, 0),
        lambda array: array * 3,
    ],
)
def test_an_operator_wrong_for_another_reason_is_named_and_not_raised(scene, fault):
    net = scene(plain, ("relu1", fault))
    net.compare("before")
    found = net.cure()
    assert (
        found.file is None
        and found.exit_code == 3
        and [one.name for one in found.others if one.wrong] == ["relu1"]
    )
    assert found.sentence.startswith(
        "Nothing to raise: 1 of 1 output outside limits, but relu1 is wrong otherwise"
    )


def test_of_what_could_not_be_computed_again_it_is_not_said_that_it_is_wrong(scene):
    net = scene(plain, ("relu1", lambda array: array * 3))
    net.compare("before")
    for path in glob.glob(net.path("before_dump", "**", "*.relu1.*"), recursive=True):
        os.remove(path)
    sentence = net.cure().sentence
    assert "but why relu1 is off is not known (" in sentence and "wrong otherwise" not in sentence


@pytest.mark.parametrize("gone", ["square", "tiny"])
def test_what_underflows_is_raised_also_where_its_dump_is_gone(scene, gone):
    """It is estimated by its row: of values below the least step of the type all may be lost."""
    net = scene(vanishing)
    net.compare("before")
    (dump,) = glob.glob(net.path("before_dump", "**", "*.%s.*" % gone), recursive=True)
    os.remove(dump)
    found = net.cure()
    assert {"square", "root"} <= set(found.ops) and "wrong otherwise" not in found.sentence
    # What stays in float16 and could not be computed may be what decides.
    unknown = gone not in found.ops
    assert unknown == (gone == "tiny") and found.exit_code == (3 if unknown else 0)
    said = "is not known; 1 operator could not be computed again, as its dump is deleted (tiny); "
    assert (said in found.sentence) == ("keep all dumps" in found.sentence) == unknown
    assert ("by the estimate" in found.sentence) == (not unknown)
    document = found.document()
    jsonschema.validate(document, load_schema("cure"))
    assert (document["estimate"] is None) == unknown


def test_nothing_is_raised_where_nothing_is_wrong(scene):
    net = scene()
    net.compare("before")
    found = net.cure()
    assert (found.file, found.exit_code) == (None, 3)
    text = (
        "Nothing to raise: the network's outputs are within their limits, and no operator is "
        "wrong by lack of precision."
    )
    assert found.sentence == text


def test_a_too_small_budget_exits_with_1_and_says_so(scene):
    net = scene(overflow)
    net.compare("before")
    found = net.cure(budget=Budget(1))
    assert len(found.ops) == 1 and found.exit_code == 1 and "not enough" in found.sentence
    share = net.cure(budget=Budget(share=1.0))
    assert sorted(share.ops) == ["large", "small", "turned"] and share.exit_code == 0


def test_a_second_cure_keeps_the_operators_raised_by_the_first(scene):
    net = scene(cancelling, ("prob", coarse))
    net.compare("before")
    first = net.cure(budget=Budget(2))
    net.compare(
        "after", first.ops, ATC + " --precision_mode=force_fp16 --keep_dtype=%s" % first.file
    )
    second = net.cure("after", "again")
    assert set(second.ops) == {"added", "less", "prob"} - set(first.ops)
    with open(second.file, encoding="utf-8") as stream:
        assert sorted(stream.read().split()) == ["added", "less", "prob"]
    assert second.command.words[-1] == "--keep_dtype=" + second.file


def test_a_missing_keep_dtype_file_is_noted(scene):
    net = scene(overflow)
    net.compare("before", command=ATC + " --keep_dtype=gone.cfg")
    text = (
        "the om was made with --keep_dtype=gone.cfg, which is not there: what it names is missing "
        "in the new file"
    )
    assert text in net.cure().notes


def test_cure_json_follows_its_schema(scene):
    net = scene(overflow)
    net.compare("before")
    found = net.cure(mode="mixlist")
    with open(net.path("cure", "cure.json"), encoding="utf-8") as stream:
        document = json.load(stream)
    jsonschema.validate(document, load_schema("cure"))
    assert document["raised"][0]["name"] in ("Mul", "Neg") and document["mode"] == "mixlist"
    assert document == json.loads(json.dumps(found.document()))


def test_a_replays_errors_can_be_cured(scene):
    from goldwatch.run.replay.options import ReplayOptions
    from goldwatch.run.replay.run import replay

    net = scene(plain, ("curve", coarse))
    om = net.compare("before")
    replay(
        ReplayOptions(
            target=net.path("before_dump"), original=net.model, model=om, out=net.path("replayed")
        )
    )
    found = net.cure(out="before", into="a")
    replayed = cure(net.path("replayed"), om, net.path("b"))
    assert found.ops == replayed.ops == ("curve",)
    assert any(note.startswith("a replay knows own errors only") for note in replayed.notes)


def test_missing_dumps_and_unknown_modes_are_refused(scene, tmp_path):
    net = scene()
    net.compare("before")
    with pytest.raises(UsageError, match="there is no mode 'fp64'"):
        net.cure(mode="fp64")
    (tmp_path / "before_dump").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="not there any more"):
        net.cure()


def test_op_precision_names_a_float32_product_whose_factors_were_shortened(scene):
    net = scene()
    om = net.compare(
        "before",
        kept=("fc1", "relu1", "curve", "fc2", "prob"),
        command=ATC + " --precision_mode=must_keep_origin_dtype",
        shortened=("fc1",),
        options=["--limit", "RelativeEuclideanDistance=3e-5"],
    )
    done = run_here(
        ["goldwatch", "cure", "before", "-f", om, "-o", "cure", "--mode", "op-precision"],
        net.folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(net.path("cure", "op_precision.ini"), encoding="utf-8") as stream:
        assert stream.read() == "MatMul = enable_float_32_execution\n"
