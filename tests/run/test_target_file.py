"""The states of a file below TARGET, and which file counts, without device or process."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.dumps.folder_listing import Signature, look_at
from goldwatch.dumps.place import NOWHERE, Place
from goldwatch.dumps.write import write_dump
from goldwatch.run import target_file
from goldwatch.run.dump_catalogue import Catalogue
from goldwatch.run.target_file import (
    DELETED,
    EARLIER,
    GONE,
    GROWING,
    HELD,
    NOTHING,
    PLANNED,
    SETTLING,
    UNREADABLE,
    FileColumns,
    FileFolder,
    TargetFile,
)
from goldwatch.run.tensor_planner import FilePlan

STATES = (GROWING, SETTLING, UNREADABLE, HELD, PLANNED, EARLIER, GONE, DELETED)
SEEN = Signature(100, 5, 7, 5)
MOVES = {
    "change": lambda file: file.change(SEEN),
    "grow": lambda file: file.grow(200),
    "doubt": TargetFile.doubt,
    "refuse": TargetFile.refuse,
    "hold": TargetFile.hold,
    "release": TargetFile.release,
    "plan": lambda file: file.plan(FilePlan(expected_bytes=100, n_inputs=1, n_outputs=2), 1, {}),
    "supersede": TargetFile.supersede,
    "vanish": TargetFile.vanish,
    "delete": TargetFile.delete,
    "remember": lambda file: file.remember(True),
}
LOOKED_AT = {GROWING, SETTLING, UNREADABLE, HELD, PLANNED}
ALLOWED = {
    "change": (set(STATES) - {EARLIER}, GROWING),
    "grow": (LOOKED_AT, GROWING),
    "doubt": (LOOKED_AT, SETTLING),
    "refuse": (LOOKED_AT, UNREADABLE),
    "hold": (LOOKED_AT, HELD),
    "release": ({HELD, EARLIER}, GROWING),
    "plan": (LOOKED_AT | {EARLIER}, PLANNED),
    "supersede": (set(STATES), EARLIER),
    "vanish": (set(STATES) - {DELETED}, GONE),
    "delete": ({PLANNED}, DELETED),
    "remember": ({GROWING}, DELETED),
}


def make(state=GROWING, name="Relu.a.1.2.3"):
    columns = FileColumns()
    columns.folders.append(FileFolder("/t", "", "t", "/t", NOWHERE))
    file = columns.add(0, name, None, ("Relu", "a", None, None, None, None), 3)
    file.state = state
    return file


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("move", sorted(MOVES))
def test_every_transition_from_every_state_is_allowed_or_refused(move, state) -> None:
    file = make(state)
    file.pending = {("output", 0): object()}
    sources, target = ALLOWED[move]
    if state not in sources:
        with pytest.raises(
            ValueError, match="Relu.a.1.2.3: a file that is %s cannot %s" % (state, move)
        ):
            MOVES[move](file)
        assert file.state == state
    else:
        MOVES[move](file)
        assert file.state == target and file.pending is NOTHING


def test_the_table_in_the_docstring_names_every_transition() -> None:
    lines = [line.split() for line in (TargetFile.__doc__ or "").splitlines()]
    assert (
        {words[0] for words in lines if words and words[0] in MOVES}
        == set(MOVES)
        == set(target_file._MOVES)
    )


def test_a_file_that_is_recreated_has_no_known_size() -> None:
    file = make()
    file.change(SEEN)
    file.grow(500)
    file.change(SEEN._replace(size_bytes=120, mtime_ns=6))
    assert file.expected_bytes == 500
    file.change(SEEN._replace(size_bytes=90))
    assert file.expected_bytes == 0
    file.grow(500)
    file.change(SEEN._replace(size_bytes=600, inode=8))
    assert file.expected_bytes == 0 and file.signature == Signature(600, 5, 8, 5)


def test_a_file_deleted_after_comparison_still_counts_but_a_vanished_one_does_not() -> None:
    file = make()
    file.vanish()
    assert not file.there
    file = make()
    file.remember(False)
    assert file.state == GONE and file.there
    assert make(EARLIER).there


def test_an_overwritten_file_is_noticed_though_its_time_was_restored(tmp_path) -> None:
    path = str(tmp_path / "file")
    with open(path, "wb") as stream:
        stream.write(b"12345")
    before = look_at(path)
    status = os.stat(path)
    while look_at(path) == before:
        with open(path, "r+b") as stream:
            stream.write(b"54321")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = look_at(path)
    assert (
        now.size_bytes == before.size_bytes
        and now.mtime_ns == before.mtime_ns
        and now.text != before.text
    )
    os.rename(path, path + "2")
    assert (
        now.is_file(look_at(path + "2"))
        and look_at(path) is None
        and look_at(str(tmp_path)) is None
    )


def place(folder, *names):
    for name in names:
        os.makedirs(str(folder), exist_ok=True)
        write_dump(str(folder / name), [], [np.float32([1])])
    return [str(folder / name) for name in names]


def test_the_newest_dump_of_an_op_counts_in_any_order_of_arrival(tmp_path) -> None:
    old, new, other, newest = place(
        tmp_path, "Relu.a.1.1.5", "Relu.a.2.1.7", "Gelu.a.1.1.6", "Relu.a.3.1.9"
    )
    catalogue = Catalogue(str(tmp_path))
    first, earlier = catalogue.meet(new)
    assert first.state == GROWING and earlier is None
    late, earlier = catalogue.meet(old)
    assert late.state == EARLIER and earlier is None and catalogue.newer(late) == first
    assert catalogue.meet(other)[1] is None
    last, earlier = catalogue.meet(newest)
    assert earlier == first and catalogue.newer(first) == last
    first.supersede()
    assert [file.path for file in catalogue.earlier(last)] == [old, new]
    last.vanish()
    assert (
        catalogue.next_best(last) == first
        and first.state == GROWING
        and catalogue.newer(late) == first
    )


def test_files_of_times_that_do_not_count_and_links_are_left_out(tmp_path) -> None:
    old = tmp_path / "20260101000000" / "0" / "net" / "1" / "0"
    new = tmp_path / "20260102000000" / "0" / "net" / "1" / "0"
    (a,), (b, c) = place(old, "Relu.a.1.1.5"), place(new, "Relu.a.1.1.6", "Relu.b.1.1.6")
    os.symlink(c, c + "7")
    catalogue = Catalogue(str(tmp_path))
    catalogue.left = {("20260101000000", "0", "net")}
    assert catalogue.meet(a) == (None, None) and catalogue.meet(c + "7") == (None, None)
    file, _ = catalogue.meet(b)
    assert file.place == Place("20260102000000", "0", "net", "1", "0")
    catalogue = Catalogue(str(tmp_path))
    catalogue.only_time = "20260101000000"
    assert catalogue.meet(a)[0] is not None and catalogue.meet(b) == (None, None)
