"""The file that ``config new`` writes or changes."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from goldwatch.base.errors import FormatError, MissingPath, UsageError
from goldwatch.base.naming import printable
from goldwatch.cli.config_new import new
from goldwatch.config.dump_plan import DumpPlan, ModelDump
from goldwatch.config.dump_plan_formats import read_plan, write_plan

ARGS = ["--for", "acl", "--dump-path", "/anywhere", "--elsewhere", "-q"]


def test_a_dash_writes_to_stdout(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(new, [*ARGS, "-o", "-"], standalone_mode=False)
    assert done.exception is None and '"dump_path": "/anywhere"' in done.output
    assert os.listdir(".") == []


def test_a_pipe_or_folder_is_never_replaced(tmp_path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    for path in (fifo, str(tmp_path)):
        done = CliRunner().invoke(new, [*ARGS, "-o", path], standalone_mode=False)
        assert isinstance(done.exception, MissingPath)
    with pytest.raises(OSError):
        os.rmdir(fifo)


def run(*words):
    return CliRunner().invoke(new, [*ARGS, *map(str, words)], standalone_mode=False)


def test_an_existing_file_is_kept_unless_forced(tmp_path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import everything\n")
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    for output in (path, link):
        error = run("-o", output).exception
        assert (
            isinstance(error, UsageError) and "exists" in error.message and "--force" in error.hint
        )
    assert path.read_text() == "import everything\n" and os.readlink(str(link))
    assert run("-o", path, "--force").exception is None
    assert (
        json.loads(path.read_text())["dump"]["dump_path"] == "/anywhere"
        and path.stat().st_mode & 0o777 == 0o640
    )


def test_a_missing_folder_is_made_as_for_every_file_that_a_command_writes(tmp_path) -> None:
    path = tmp_path / "no" / "such" / "acl.json"
    assert run("-o", path).exception is None and path.is_file()
    in_the_way = path / "acl.json"
    error = run("-o", in_the_way).exception
    assert isinstance(error, MissingPath) and "there can be no folder" in error.message


@pytest.mark.parametrize(
    "words",
    [
        ["--force"],
        ["--merge"],
        ["-o", "a", "--force", "--merge"],
        ["-o", "a", "--merge", "--for", "tf2"],
    ],
)
def test_force_and_merge_together_or_without_a_file_are_refused(
    tmp_path, monkeypatch, words
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(run(*words).exception, UsageError) and os.listdir(".") == []


BEFORE = (
    '{"profiler": {"output": "é", "list": [1,2 , 3]},\r\n\t"dump":',
    '\n  ,"other":1.0, "more": {"dump": {"dump_path": "x"}} }\t\n',
)


@pytest.mark.parametrize(
    "old", ["{}", '{"dump_path": "}{", "dump_list": []}', "[1]", '"text"', "null", "7"]
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_merging_replaces_the_dump_section_and_no_other_byte(tmp_path, old, bom) -> None:
    path = tmp_path / "acl.json"
    before, after = (part.encode("utf-8") for part in BEFORE)
    path.write_bytes(bom + before + old.encode() + after)
    assert run("-o", path, "--merge", "--model", "m").exception is None
    data = path.read_bytes()
    assert data.startswith(bom + before) and data.endswith(after)
    document = json.loads(data.decode("utf-8-sig"))
    assert document["dump"] == {"dump_path": "/anywhere", "dump_list": [{"model_name": "m"}]}
    assert document["other"] == 1 and document["more"] == {"dump": {"dump_path": "x"}}


@pytest.mark.parametrize("old", ["{}", "{ }", '{"profiler": {}}', '{\n\t"profiler": {}\n}\n', ""])
def test_merging_adds_a_missing_dump_section(tmp_path, old) -> None:
    path = tmp_path / "acl.json"
    path.write_text(old)
    assert run("-o", path, "--merge").exception is None
    document = json.loads(path.read_text())
    assert document.pop("dump") == {"dump_path": "/anywhere", "dump_list": [{}]}
    assert document == json.loads(old or "{}")
    # What was there is there still, in one piece before and one behind the new section.
    assert path.read_text().startswith(old[:1]) and path.read_text().endswith(old[1:])


def test_merging_writes_through_a_link_and_creates_a_missing_file(tmp_path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text('{"a": 1}')
    link.symlink_to(real)
    assert run("-o", link, "--merge").exception is None
    assert link.is_symlink() and set(json.loads(real.read_text())) == {"a", "dump"}
    assert run("-o", tmp_path / "new.json", "--merge").exception is None
    assert set(json.loads((tmp_path / "new.json").read_text())) == {"dump"}


@pytest.mark.parametrize("old", ['{"a": 1,}', "[]", '{"dump": {}, "dump": {}}', "import x\n", "\0"])
def test_a_file_that_cannot_be_merged_stays_as_it_is(tmp_path, old) -> None:
    path = tmp_path / "acl.json"
    path.write_text(old)
    assert isinstance(run("-o", path, "--merge").exception, FormatError)
    assert path.read_text() == old


@pytest.mark.parametrize("form", ["acl", "estimator", "session", "tf2", "npu-json", "plan"])
def test_written_text_holds_no_characters_that_reorder_a_terminal(form) -> None:
    name = "a\u2066b\u202ec\x85d\u2028e\x7ff"
    text = (
        CliRunner()
        .invoke(
            new,
            [
                "--for",
                form,
                "--dump-path",
                "/anywhere",
                "--elsewhere",
                "-q",
                "--model",
                "m:" + "conv\u2067",
            ],
        )
        .output
    )
    assert printable(text.replace("\n", "")) == text.replace("\n", "") and "\\u2067" in text
    plan = DumpPlan(dump_path="/anywhere", models=(ModelDump("m", (name,)),))
    if form in ("acl", "plan"):
        assert read_plan(write_plan(plan, form).encode(), "a.json") == plan
