"""`deinplace`: hand-written nets, each with the expected text, report and (where Caffe can run it)
the numbers of a stand-in for Caffe.

In the texts ``<<old|new>>`` stands for ``old`` in the model and ``new`` in the expected result.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from inplace_nets import DATA, NETS, POWER, relu

from goldwatch.adapters.caffe.deinplace import _new_name, deinplace_file, deinplace_text
from goldwatch.base.errors import InputError, MissingPath, UsageError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_edits import Document


def both(text):
    pattern = re.compile(r"<<(.*?)\|(.*?)>>", re.DOTALL)
    return pattern.sub(lambda match: match.group(1), text), pattern.sub(
        lambda match: match.group(2), text
    )


@pytest.mark.parametrize("name", sorted(NETS))
def test_each_net_becomes_the_expected_text_with_its_report(name):
    net = NETS[name]
    before, after = both(net.text)
    done = deinplace_text(Document(before))
    assert done.text == after
    assert done.renamed == [
        {"layer": layer, "old": old, "new": new} for layer, old, new in net.renamed
    ]
    assert done.removed == list(net.removed)
    assert [warning["layer"] for warning in done.warnings] == list(net.warned)
    assert done.changed_outputs == [{"old": old, "new": new} for old, new in net.outputs]


@pytest.mark.parametrize("name", sorted(NETS))
def test_deinplace_of_its_own_result_changes_nothing(name):
    _, after = both(NETS[name].text)
    again = deinplace_text(Document(after))
    assert (again.text, again.renamed, again.removed) == (after, [], [])


def values_by_step(standin, path):
    """Every layer's tops, taken right after the layer ran; the truth."""
    net = standin.Net(str(path), str(path), standin.TEST)
    for number in range(len(net.layers)):
        if net.layers[number].type == "Input":
            top = net._blobs[net._top_ids(number)[0]]
            top.write(np.random.RandomState(5).standard_normal(top.shape))
    out = []
    for number, name in enumerate(net._layer_names):
        net._forward(number, number)
        if net.layers[number].type != "Split":
            out.append((name, [net._blobs[top].data.copy() for top in net._top_ids(number)]))
    return out, net


@pytest.mark.parametrize("name", sorted(name for name, net in NETS.items() if net.in_caffe))
def test_the_new_net_computes_in_caffe_what_the_old_one_does_layer_by_layer(
    name, standin, tmp_path
):
    """A whole run of the new net holds what the old net computes layer by layer."""
    before, after = both(NETS[name].text)
    (tmp_path / "old.prototxt").write_text(before)
    (tmp_path / "new.prototxt").write_text(after)
    truth, _ = values_by_step(standin, tmp_path / "old.prototxt")
    new, net = values_by_step(standin, tmp_path / "new.prototxt")
    numbers = [number for number, layer in enumerate(net.layers) if layer.type != "Split"]
    whole = [
        (net._layer_names[number], [net._blobs[top].data for top in net._top_ids(number)])
        for number in numbers
    ]
    assert [layer for layer, _ in truth] == [layer for layer, _ in whole]
    for (layer, expected), (_, stepped), (_, got) in zip(truth, new, whole):
        for one, two, three in zip(expected, stepped, got):
            np.testing.assert_array_equal(one, two, err_msg=layer)
            np.testing.assert_array_equal(one, three, err_msg=layer)


def test_caffe_computes_another_result_where_flatten_shares_memory(standin, tmp_path):
    before, after = both(NETS["22 flatten shares memory"].text)
    (tmp_path / "old.prototxt").write_text(before)
    (tmp_path / "new.prototxt").write_text(after)
    old, new = (
        dict(values_by_step(standin, tmp_path / name)[0])
        for name in ("old.prototxt", "new.prototxt")
    )
    assert not np.array_equal(old["q"][0], new["q"][0])
    np.testing.assert_array_equal(old["r"][0], new["r"][0])


DROPPED = {
    "in place": (
        DATA + POWER + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "a" dropout_param { '
        "dropout_ratio: 0.5 } }\n|>>" + relu("z", "a", "z"),
        ["d"],
    ),
    "two in a row, own tops": (
        DATA
        + POWER
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + '<<layer { name: "e" type: "Dropout" bottom: "b" top: "c" }\n|>>'
        + relu("z", "<<c|a>>", "z"),
        ["d", "e"],
    ),
    "reader of the older version": (
        DATA
        + POWER
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + relu("r", "<<b|a>>", "<<b|r>>")
        + relu("side", "a", "side")
        + relu("z", "<<b|r>>", "z"),
        ["d"],
    ),
    "after an in-place layer": (
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + relu("z", "<<b|r>>", "z"),
        ["d"],
    ),
    "kept: it is the output": (
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "d" }\n',
        [],
    ),
    "kept: a fork's field": (
        DATA
        + POWER
        + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" dropout_param { scale_train: '
        "false } }\n" + relu("z", "b", "z"),
        [],
    ),
    "kept: a fork's field of the layer": (
        DATA
        + POWER
        + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" sample_weights_test: true }\n'
        + relu("z", "b", "z"),
        [],
    ),
}


@pytest.mark.parametrize("name", sorted(DROPPED))
def test_drop_dropout_removes_dropout_layers(name):
    text, removed = DROPPED[name]
    before, after = both(text)
    done = deinplace_text(Document(before), drop_dropout=True)
    assert (done.text, done.removed) == (after, removed)


REFUSED = {
    "empty": ("", "empty"),
    "only a comment": ("# nothing\n", "empty"),
    "a solver": ('net: "train.prototxt"\nbase_lr: 0.01\n', "solver"),
    "no layers": ('name: "n"\ninput: "data"\n', "without layers"),
    "nothing of this phase": ('layer { name: "x" include { phase: TRAIN } }', "phase TEST"),
    "V0": ('layers { layer { name: "c" type: "conv" } bottom: "data" top: "c" }', "V0"),
    "both kinds": (DATA + 'layers { name: "r" type: RELU bottom: "data" top: "r" }', "V1"),
    "a blob made twice": (
        DATA + relu("r", "data", "x") + relu("s", "data", "x"),
        "made both by r and by s",
    ),
    "in place at another index": (
        DATA + POWER + 'layer { name: "e" type: "Eltwise" bottom: "data" bottom: "a" top: "a" }',
        "made",
    ),
    "one layer, one blob twice": (
        DATA + 'layer { name: "s" type: "Slice" bottom: "data" top: "x" top: "x" }',
        "twice by s",
    ),
    "a top like a net input": (
        'input: "data"\nlayer { name: "r" type: "ReLU" top: "data" }',
        "made",
    ),
    "include and exclude": (
        relu("r", "a", "b", " include { phase: TEST } exclude { phase: TRAIN }"),
        "include rules and exclude",
    ),
    "not closed": ('layer { name: "a"\n', "not closed"),
    "closed twice": ('layer { name: "a" } }\n', "field name"),
    "a string over the line's end": ('layer { name: "a\n" }', "line 1"),
    "a blob without quotes": ('layer { name: "a" top: data }', "quoted string"),
    "no value": ("name:\n", "line 2"),
    "too deep": ("layer " + "{ a " * 200 + "}" * 200, "deeper"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_net_that_cannot_be_repaired_is_refused_with_the_reason(name):
    text, reason = REFUSED[name]
    with pytest.raises(InputError, match=re.escape(reason)) as caught:
        deinplace_text(Document(text))
    assert caught.value.exit_code == 4


def test_dropout_that_says_phase_train_itself_is_not_dropped():
    text = (
        DATA
        + POWER
        + 'layer { name: "d" type: "Dropout" bottom: "a" top: "a" phase: %s }\n'
        + relu("t", "a", "t")
    )
    assert deinplace_text(Document(text % "TRAIN"), drop_dropout=True).removed == []
    assert deinplace_text(Document(text % "TEST"), drop_dropout=True).removed == ["d"]


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (
            'type: "AbsVal" bottom: "a" top: "a"',
            "works in place, which Caffe itself refuses for AbsVal",
        ),
        (
            'type: "Eltwise" bottom: "a" bottom: "a" top: "a" eltwise_param { operation: PROD }',
            "reads blob a twice and writes over it",
        ),
        ('type: "Python" bottom: "a" top: "a"', "is a Python layer in place"),
    ],
)
def test_an_in_place_layer_that_caffe_does_not_compute_in_place_is_warned_of(layer, told):
    done = deinplace_text(
        Document(DATA + POWER + 'layer { name: "p" %s }\n' % layer + relu("t", "a", "t"))
    )
    assert [entry["layer"] for entry in done.warnings] == ["p"] and told in done.warnings[0][
        "message"
    ]
    assert done.renamed == [{"layer": "p", "old": "a", "new": "p"}]


def test_a_blob_that_no_layer_makes_is_warned_of():
    done = deinplace_text(
        Document(DATA + relu("loss", "label", "loss") + relu("again", "label", "again"))
    )
    assert [entry["layer"] for entry in done.warnings] == ["loss"]
    assert (
        "reads blob label, which no layer before it makes in phase TEST"
        in done.warnings[0]["message"]
    )


def test_names_with_quotation_marks_stay_quoted():
    text = (
        "layer { name: 'd' type: 'Input' top: 'it\\'s' }\nlayer { name: 'x\\'y\"' type: 'ReLU' "
        "bottom: 'it' '\\'s' top: %s }\n"
    )
    done = deinplace_text(Document(text % "'it' '\\'s'"))
    assert done.text == text % "'x\\'y\"' ''"


def test_phase_level_and_stages_decide_which_layers_are_kept():
    text = (
        DATA
        + POWER
        + relu("r", "a", "a", " include { phase: TRAIN }")
        + relu("s", "a", "a", ' include { min_level: 2 max_level: 3 stage: "x" stage: "y" }')
    )
    train = deinplace_text(Document(text), phase="TRAIN")
    assert (train.removed, [entry["layer"] for entry in train.renamed]) == (["s"], ["r"])
    staged = deinplace_text(Document(text), level=2, stages=("x", "y", "z"))
    assert (staged.removed, [entry["layer"] for entry in staged.renamed]) == (["r"], ["s"])
    assert deinplace_text(Document(text), level=2, stages=("x",)).removed == ["r", "s"]
    assert deinplace_text(Document(text), level=4, stages=("x", "y")).removed == ["r", "s"]


def test_deinplace_file_writes_beside_its_source_and_leaves_other_bytes_alone(tmp_path):
    model = tmp_path / "net.prototxt"
    data = (DATA + POWER + relu("r", "a", "a")).encode() + b"# \xff\xfe not UTF-8\r\n"
    model.write_bytes(data)
    path, done = deinplace_file(str(model), report=str(tmp_path / "r.json"))
    assert path == str(tmp_path / "new_net.prototxt")
    assert (tmp_path / "new_net.prototxt").read_bytes() == data.replace(
        b'top: "a" }\n#', b'top: "r" }\n#'
    )
    assert model.read_bytes() == data
    with pytest.raises(UsageError, match="exists already"):
        deinplace_file(str(model))
    deinplace_file(str(model), force=True, report=str(tmp_path / "r.json"))
    link = tmp_path / "link.prototxt"
    link.symlink_to(model)
    hard = tmp_path / "hard.prototxt"
    os.link(str(model), str(hard))
    for output in (model, link, hard):
        with pytest.raises(UsageError, match="input itself"):
            deinplace_file(str(model), str(output), force=True)
        with pytest.raises(UsageError, match="input itself"):
            deinplace_file(str(model), str(tmp_path / "other"), report=str(output), force=True)
    # The folder of a file that is written is made.
    made, _ = deinplace_file(
        str(model), str(tmp_path / "no" / "such"), report=str(tmp_path / "n" / "r")
    )
    assert os.path.isfile(made) and (tmp_path / "n" / "r").is_file()
    with pytest.raises(MissingPath):
        deinplace_file(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("keep me")
    with pytest.raises(UsageError, match="exists already") as caught:
        deinplace_file(str(model), str(tmp_path / "x"), report=str(tmp_path / "text"))
    assert "`report`" in caught.value.hint
    assert model.read_bytes() == data
    assert not (tmp_path / "x").exists()
    assert sorted(os.listdir(str(tmp_path))) == [
        "hard.prototxt",
        "link.prototxt",
        "n",
        "net.prototxt",
        "new_net.prototxt",
        "no",
        "r.json",
        "text",
    ]


def test_thousands_of_layers_of_one_name_get_different_tops():
    text = DATA + POWER + "".join(relu("r", "a", "a") for _ in range(3000))
    done = deinplace_text(Document(text))
    assert [entry["new"] for entry in done.renamed] == ["r"] + [
        "r_%d" % number for number in range(1, 3000)
    ]


def test_a_free_name_is_found_without_trying_all_used_names():
    class Counting(set):
        asked = 0

        def __contains__(self, name):
            Counting.asked += 1
            return set.__contains__(self, name)

    layer = Net(Document(DATA + relu("r", "data", "data")), State()).layers[1]
    used, tried = Counting(["r"]), {}
    for _ in range(3000):
        used.add(_new_name(layer, 0, used, tried))
    assert len(used) == 3001 and Counting.asked < 4 * 3000


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "renamed", "removed"),
    [
        (
            "caffenet_deploy",
            ["relu1", "relu2", "relu3", "relu4", "relu5", "relu6", "drop6", "relu7", "drop7"],
            [],
        ),
        ("cifar10_full_train_test", ["relu1", "relu2", "relu3"], ["cifar"]),
        ("lenet_train_test", ["relu1"], ["mnist"]),
    ],
)
def test_public_nets_are_repaired_as_expected(name, renamed, removed, shared_dir, tmp_path):
    model = os.path.join(shared_dir, "data", "caffe", "nets", name + ".prototxt")
    path, done = deinplace_file(model, str(tmp_path / "new"))
    assert [entry["new"] for entry in done.renamed] == renamed
    assert done.removed == removed
    assert done.warnings == []
    with open(model, encoding="utf-8") as stream:
        before = stream.read()
    with open(path, encoding="utf-8") as stream:
        after = stream.read()
    gone = sum(1 for line in before.splitlines() if line.strip()) - sum(
        1 for line in after.splitlines() if line.strip()
    )
    assert gone == 17 * len(removed)
