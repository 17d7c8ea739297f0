from __future__ import annotations

import os
from typing import Any, Callable, List

import pytest

from goldwatch.base.errors import MissingPath
from goldwatch.base.naming import mapping_line
from goldwatch.dumps import DumpTree
from goldwatch.dumps import folder_listing as listing_module
from goldwatch.dumps.folder_listing import list_folder
from goldwatch.dumps.place import Place, place_of

Touch = Callable[[str], str]
TIME, DUMP = "20230405060708", "Conv2D.conv1.3.4.1600000000000000"


def joined(notes: List[str]) -> str:
    return "\n".join(notes)


FULL = ("20230405060708", "0", "resnet50", "1", "7")


@pytest.mark.parametrize("level", range(6))
def test_any_level_of_the_dump_tree_may_be_given(tmp_path: Any, touch: Touch, level: int) -> None:
    touch(str(tmp_path.joinpath(*FULL, DUMP)))
    tree = DumpTree(str(tmp_path.joinpath(*FULL[:level])))
    (step_folder,) = tree.step_folders
    assert step_folder.place == Place(*FULL)
    assert step_folder.rel == os.path.join("", *FULL[level:])
    (entry,) = step_folder.files
    assert (
        entry.rel == os.path.join(step_folder.rel, DUMP)
        and os.path.exists(entry.path)
        and entry.name.op_name == "conv1"
    )
    assert "took" in joined(tree.notes) and "1 dump files" in joined(tree.notes)


def test_a_relative_folder_is_named_by_its_real_parents(
    tmp_path: Any, touch: Touch, monkeypatch: Any
) -> None:
    touch(str(tmp_path.joinpath(*FULL, DUMP)))
    monkeypatch.chdir(str(tmp_path.joinpath(*FULL)))
    (step_folder,) = DumpTree(".").step_folders
    assert (step_folder.place.time, step_folder.place.step) == (TIME, "7")


@pytest.mark.parametrize(
    "folder, expected",
    [
        ("/x/%s/0" % TIME, (TIME, "0", None, None, None)),
        ("/x/0/conv1", (None, "0", None, None, None)),
        ("/x/%s/0/conv1" % TIME, (TIME, "0", None, None, None)),
        ("/x/0/other", (None, None, None, None, None)),
        ("/x/99999999999999/0/m/1/2", (None, "0", "m", "1", "2")),
        ("/x/here/0/m/1/2", (None, "0", "m", "1", "2")),
        ("/x/here/dev/m/1/2", (None, None, "m", "1", "2")),
        ("/x/rank_10/m/1/2", (None, "rank_10", "m", "1", "2")),
        ("/x/global_rank_0/m/1/2", (None, None, "m", "1", "2")),
        ("/x/flat", (None, None, None, None, None)),
        ("/", (None, None, None, None, None)),
        ("/1/2", (None, None, None, None, None)),
    ],
)
def test_time_device_model_and_step_are_read_from_folder_names(folder: str, expected: Any) -> None:
    assert place_of(folder, {"conv1"}) == Place(*expected)


def test_the_ranks_of_a_mindspore_dump_are_its_devices(tmp_path: Any, touch: Touch) -> None:
    for rank in (10, 9):
        touch(str(tmp_path / ("rank_%d" % rank) / "net" / "0" / "3" / DUMP))
    places = [step_folder.place for step_folder in DumpTree(str(tmp_path)).step_folders]
    assert [(place.device, place.step) for place in places] == [("rank_9", "3"), ("rank_10", "3")]


def test_op_folders_of_one_device_are_one_run(tmp_path: Any, touch: Touch) -> None:
    for device in ("0", "1"):
        for number, op in enumerate(("b", "a", "c")):
            touch(str(tmp_path / device / op / ("Add.%s.1.%d" % (op, number))))
    touch(str(tmp_path / "0" / "a" / "notes.txt"))
    first, second = DumpTree(str(tmp_path)).step_folders
    assert (first.place.device, first.rel, second.place.device, second.rel) == ("0", "0", "1", "1")
    assert [entry.rel for entry in first.files] == [
        "0/b/Add.b.1.0",
        "0/a/Add.a.1.1",
        "0/c/Add.c.1.2",
    ]
    assert first.others == ["a/notes.txt"]


def test_dumps_in_a_flat_folder_have_no_place(tmp_path: Any, touch: Touch) -> None:
    touch(str(tmp_path / "flat" / DUMP))
    (step_folder,) = DumpTree(str(tmp_path / "flat")).step_folders
    assert step_folder.place == Place()


def test_the_newest_time_of_each_device_is_taken(tmp_path: Any, touch: Touch) -> None:
    for time, device in (("20230101000000", "0"), ("20230102000000", "0"), ("20230101000000", "1")):
        touch(str(tmp_path / time / device / "m" / "1" / "0" / DUMP))
    tree = DumpTree(str(tmp_path))
    assert [
        (step_folder.place.time, step_folder.place.device) for step_folder in tree.step_folders
    ] == [
        ("20230102000000", "0"),
        ("20230101000000", "1"),
    ]
    assert [(step_folder.place.time, step_folder.place.device) for step_folder in tree.left] == [
        ("20230101000000", "0")
    ]
    assert (
        "left out 20230101000000/0/m/1/0: time 20230101000000 of device 0 is older than "
        "20230102000000" in tree.left_notes
    )
    assert len(DumpTree(str(tmp_path), time="all").step_folders) == 3
    assert [
        step_folder.place.device
        for step_folder in DumpTree(str(tmp_path), time="20230101000000").step_folders
    ] == ["0", "1"]


def test_the_newest_time_of_each_model_is_taken_and_empty_steps_are_listed(
    tmp_path: Any, touch: Touch
) -> None:
    for time, model in (
        ("20230101000000", "a"),
        ("20230102000000", "b"),
        ("20230103000000", "a_20230103000000"),
        ("20230104000000", "b"),
    ):
        touch(str(tmp_path / time / "0" / model / "1" / "0" / DUMP))
        (tmp_path / time / "0" / model / "1" / "1").mkdir()
    tree = DumpTree(str(tmp_path))
    assert {step_folder.place[:3] for step_folder in tree.step_folders} == {
        ("20230101000000", "0", "a"),
        ("20230103000000", "0", "a_20230103000000"),
        ("20230104000000", "0", "b"),
    }
    assert {(step_folder.place.time, step_folder.place.step) for step_folder in tree.empty} == {
        (time, "1") for time in ("20230101000000", "20230103000000", "20230104000000")
    }


def test_steps_and_devices_are_ordered_as_numbers(tmp_path: Any, touch: Touch) -> None:
    for device in ("10", "9"):
        for step in ("100", "20", "3"):
            touch(str(tmp_path / TIME / device / "m" / "1" / step / DUMP))
    assert [
        (step_folder.place.device, step_folder.place.step)
        for step_folder in DumpTree(str(tmp_path)).step_folders
    ] == [(device, step) for device in ("9", "10") for step in ("3", "20", "100")]


def test_dumps_overflow_records_statistics_and_other_files_are_told_apart(
    tmp_path: Any, touch: Touch
) -> None:
    names = [
        DUMP,
        "Opdebug.Node_OpDebug.5.6.1600000000000009",
        DUMP + ".csv",
        "notes.txt",
        "conv1.0.1600000000000000.npy",
        "Relu.relu.1.1600000000000001.1.2.3",
    ]
    for name in names:
        touch(str(tmp_path / name))
    listing = list_folder(str(tmp_path))
    assert [entry.name.op_name for entry in listing.dumps] == ["conv1", "relu"]
    assert listing.dumps[1].name.thread_id == 3
    assert [entry.name.kind for entry in listing.overflow + listing.stats] == ["overflow", "stats"]
    assert [entry.rel for entry in listing.golden] == [
        "conv1.0.1600000000000000.npy"
    ] and listing.others == ["notes.txt"]
    tree = DumpTree(str(tmp_path))
    (step_folder,) = tree.step_folders
    assert (
        len(step_folder.files),
        len(step_folder.overflow),
        len(step_folder.stats),
        step_folder.others,
    ) == (
        2,
        1,
        1,
        ["notes.txt"],
    )
    assert "1 golden files (npy, pb, quant) lie among the dumps" in joined(tree.notes)


def test_earlier_dumps_of_an_op_are_kept_and_counted(tmp_path: Any, touch: Touch) -> None:
    for name in (
        "A.a.1.1.30",
        "A.a.9.9.100",
        "B.b.1.1.50",
        "A.a.1.1.1600000000000000.0.1.2",
        "A.a.1.1.1600000000000001.0.1.3",
    ):
        touch(str(tmp_path / name))
    tree = DumpTree(str(tmp_path))
    (step_folder,) = tree.step_folders
    assert [entry.name.timestamp_us for entry in step_folder.files] == [
        30,
        50,
        100,
        1600000000000000,
        1600000000000001,
    ]
    assert "5 dump files, 1 of them earlier runs of the same op" in joined(tree.notes)


def test_hash_names_are_resolved_by_the_mapping_or_noted(tmp_path: Any, touch: Touch) -> None:
    long_name = "Conv2D.%s.1.2.1600000000000000" % ("x" * 300)
    for name in ("11", "22", "33", DUMP):
        touch(str(tmp_path / name))
    with open(str(tmp_path / "mapping.csv"), "w", encoding="utf-8") as stream:
        stream.write(mapping_line("11", long_name) * 2 + mapping_line("33", "nonsense"))
    tree = DumpTree(str(tmp_path))
    (step_folder,) = tree.step_folders
    (hashed,) = [entry for entry in step_folder.files if entry.hash_name]
    assert (hashed.hash_name, hashed.rel, hashed.name.op_name) == ("11", "11", "x" * 300)
    assert step_folder.unresolved == ["22", "33"]
    assert (
        "22 is not in mapping.csv" in tree.notes
        and "33: mapping.csv calls it nonsense, which is no dump name" in tree.notes
    )


@pytest.mark.parametrize("content", [None, "11,Conv2D.a.1.2.3\n11,Conv2D.b.1.2.3\n", "one field\n"])
def test_a_missing_or_ambiguous_mapping_is_noted(tmp_path: Any, touch: Touch, content: Any) -> None:
    touch(str(tmp_path / "11"))
    if content is not None:
        with open(str(tmp_path / "mapping.csv"), "w", encoding="utf-8") as stream:
            stream.write(content)
    tree = DumpTree(str(tmp_path))
    assert tree.step_folders == [] and tree.without_dumps[0].unresolved == ["11"]
    assert "mapping.csv" in joined(tree.notes) and "1 files with unexplained hash names" in joined(
        tree.notes
    )


def test_names_with_control_characters_or_broken_utf_8_are_kept(
    tmp_path: Any, touch: Touch
) -> None:
    names = [
        "Conv.new\nline.1.2.30",
        "Conv.\x1b[31mred.1.2.31",
        "Conv.=cmd().1.2.32",
        os.fsdecode(b"Conv.\xff\xfe.1.2.33"),
    ]
    for name in names:
        touch(str(tmp_path / name))
    (step_folder,) = DumpTree(str(tmp_path)).step_folders
    assert [entry.rel for entry in step_folder.files] == names
    assert all(os.path.exists(entry.path) for entry in step_folder.files)


def test_link_loops_end_and_each_folder_is_listed_once(
    tmp_path: Any, touch: Touch, monkeypatch: Any
) -> None:
    touch(str(tmp_path / TIME / "0" / "m" / "1" / "0" / DUMP))
    os.symlink(str(tmp_path), str(tmp_path / TIME / "back"))
    os.symlink(str(tmp_path / TIME), str(tmp_path / "0_latest"))
    os.symlink(str(tmp_path / "nowhere"), str(tmp_path / "broken"))
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(
        listing_module.os,
        "scandir",
        lambda path: listed.append(os.path.realpath(path)) or scandir(path),
    )
    tree = DumpTree(str(tmp_path))
    assert len(tree.step_folders) == 1 and tree.step_folders[0].rel == "%s/0/m/1/0" % TIME
    assert len(listed) == len(set(listed)) == 6
    assert joined(tree.left_notes).count("is the same folder as one that was already listed") == 2
    assert "left out: broken is not a regular file (or a link to nothing)" in tree.left_notes


def test_a_folder_that_cannot_be_listed_is_noted(
    tmp_path: Any, touch: Touch, monkeypatch: Any
) -> None:
    touch(str(tmp_path / "good" / DUMP))
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def guarded(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(listing_module.os, "scandir", guarded)
    tree = DumpTree(str(tmp_path))
    assert (
        len(tree.step_folders) == 1 and "locked cannot be listed: Permission denied" in tree.notes
    )


def test_pipes_and_very_deep_folders_are_left_out_with_a_note(tmp_path: Any, touch: Touch) -> None:
    touch(str(tmp_path / DUMP))
    os.mkfifo(str(tmp_path / "Conv2D.pipe.1.2.3"))
    os.makedirs(str(tmp_path.joinpath(*["d"] * 120)))
    tree = DumpTree(str(tmp_path))
    assert [len(step_folder.files) for step_folder in tree.step_folders] == [1]
    assert (
        "left out: Conv2D.pipe.1.2.3 is not a regular file (or a link to nothing)"
        in tree.left_notes
    )
    assert "more than 100 folders deep" in joined(tree.left_notes)


def test_a_root_that_is_no_folder_is_refused(tmp_path: Any, touch: Touch) -> None:
    for path in (str(tmp_path / "absent"), touch(str(tmp_path / "file"))):
        with pytest.raises(MissingPath):
            DumpTree(path)
    (tmp_path / "empty").mkdir()
    tree = DumpTree(str(tmp_path / "empty"))
    assert (tree.step_folders, tree.left, tree.notes) == ([], [], [])
