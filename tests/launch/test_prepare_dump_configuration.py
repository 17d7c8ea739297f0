"""What is refused before a program starts, and how."""

from __future__ import annotations

import json
import os

import pytest

from goldwatch.base.errors import GoldwatchError
from goldwatch.device.launch.prepare_dump_configuration import ACL, PLAN, prepare

MODEL = {
    "name": "net",
    "graph": [
        {
            "name": "g",
            "op": [{"name": "a", "type": "Add", "id": 0, "output_desc": [{"dtype": "DT_FLOAT"}]}],
        }
    ],
}


@pytest.fixture
def ready(tmp_path):
    """Prepares a run with this acl.json; returns what was prepared and said."""
    (tmp_path / "out").mkdir()
    (tmp_path / "om.json").write_text(json.dumps(MODEL))

    def call(document, om_name=None, kind=ACL, acl_at=None):
        path = tmp_path / "acl.json"
        path.write_text(json.dumps(document))
        said = []
        prepared = prepare(
            kind,
            str(path),
            str(tmp_path / "om.json"),
            acl_at,
            str(tmp_path / "out"),
            said.append,
            om_name,
        )
        return prepared, "\n".join(said)

    return call


@pytest.mark.parametrize(
    "document, words",
    [
        ({"Dump": {"dump_path": "/d"}}, "no section called 'dump'"),
        (
            {"dump_path": "/d", "dump_list": [{}]},
            "the file has no dump section; 'dump_path' stands outside of any",
        ),
        ({"dump": {}}, "the dump section is empty"),
        ({}, "the file has no dump section"),
        (
            {"dump": {"dump_path": "/d", "dump_lists": [{}], "dump_op_switch": "off"}},
            "every switch is off and there is no dump_list",
        ),
    ],
)
def test_a_configuration_that_dumps_nothing_is_refused_as_by_the_check(ready, document, words):
    with pytest.raises(GoldwatchError) as caught:
        ready(document)
    assert words in caught.value.message and caught.value.exit_code == 4


def test_a_model_name_that_the_json_does_not_confirm_is_reported(ready, tmp_path):
    document = {"dump": {"dump_path": str(tmp_path / "d"), "dump_list": [{"model_name": "resnet"}]}}
    assert "it may be the .om file's name" in ready(document)[1]
    assert "resnet" not in ready(document, "resnet.om")[1]
    with pytest.raises(GoldwatchError, match="no model is called 'resnet'"):
        ready(document, "vgg")


def test_a_pipe_given_as_acl_json_is_refused(ready, tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    with pytest.raises(GoldwatchError, match="not a regular file"):
        ready(
            {"dump_path": str(tmp_path / "d"), "models": [{}]},
            kind=PLAN,
            acl_at=str(tmp_path / "pipe"),
        )


def test_folders_of_14_digits_that_are_no_date_are_no_earlier_run(ready, tmp_path):
    target = tmp_path / "d"
    for name in ("20260102030405", "20269902030405"):
        (target / name).mkdir(parents=True)
    prepared, said = ready({"dump": {"dump_path": str(target), "dump_list": [{}]}})
    assert (
        prepared.earlier == [str(target / "20260102030405")]
        and "1 time folder from before the start is left alone" in said
    )


def test_a_missing_dump_path_is_created_in_an_existing_folder_with_a_note(ready, tmp_path):
    target = tmp_path / "new"
    document = {"dump": {"dump_path": str(target), "dump_list": [{}]}}
    assert "dump_path %s did not exist: made" % target in ready(document)[1] and target.is_dir()
    assert "did not exist" not in ready(document)[1]


def test_a_dump_path_without_a_parent_folder_is_refused(ready, tmp_path):
    with pytest.raises(
        GoldwatchError, match="nor does the folder that it would stand in"
    ) as caught:
        ready({"dump": {"dump_path": str(tmp_path / "a" / "b"), "dump_list": [{}]}})
    assert caught.value.exit_code == 4 and caught.value.hint == "mkdir -p %s" % (
        tmp_path / "a" / "b"
    )
    assert not (tmp_path / "a").exists()


def test_a_created_dump_path_is_removed_when_the_run_is_refused(ready, tmp_path):
    with pytest.raises(GoldwatchError, match="is a folder"):
        ready(
            {"dump_path": str(tmp_path / "new"), "models": [{}]},
            kind=PLAN,
            acl_at=str(tmp_path / "out"),
        )
    assert not (tmp_path / "new").exists()
