"""Files written by the dump server, against the public device code."""

from __future__ import annotations

import errno
import os
import threading
import types

import pytest

from goldwatch.base.errors import UsageError
from goldwatch.base.naming import read_mapping
from goldwatch.dumps import DumpFile, probe, write_dump
from goldwatch.testing import (
    DeviceDump,
    DeviceOp,
    DeviceTensor,
    DumpServer,
    Fault,
    overflow_record,
    quota,
    recorded,
)
from goldwatch.testing.device_dump import Place
from goldwatch.testing.dump_server import RESERVE_BYTES, cut


def plain(name: str, data: bytes, folder: str = "0") -> DeviceDump:
    return DeviceDump(folder, name, source=lambda: iter([data]))


def test_every_served_file_equals_a_written_dump(tmp_path, model, read_tree) -> None:
    dumps = list(model.dumps(first_address=1 << 32)) + [
        overflow_record(Place(model="net"), 9, 1767323045999999, data=b"\x5a")
    ]
    report = DumpServer(str(tmp_path / "dump"), dumps, chunk_bytes=777).run()
    written = read_tree(tmp_path / "dump")
    assert report.finished and report.files == len(dumps) == len(written)
    assert report.bytes_written == sum(map(len, written.values())) and report.counts() == {
        "written": len(report.events)
    }
    for dump in dumps:
        other = str(tmp_path / "whole")
        write_dump(other, dump.inputs, dump.outputs, op_name=dump.op_name)
        with open(other, "rb") as stream:
            assert written[dump.path()] == stream.read()
        assert probe(str(tmp_path / "dump" / dump.path())).state == "complete"


def test_a_served_tensor_is_read_back_unchanged(tmp_path, model) -> None:
    DumpServer(str(tmp_path), model.dumps(first_address=1 << 32), chunk_bytes=100).run()
    for op, dump in zip(model.dumped_ops(), model.dumps()):
        file = DumpFile.open(str(tmp_path / dump.path()))
        (output,) = file.outputs
        assert (
            output.format == op.outputs[0].format
            and output.original_shape == op.outputs[0].array.shape
        )
        assert (file.tensor("output", 0).array() == op.outputs[0].stored()).all()
        assert output.address and output.shape == op.outputs[0].stored_shape()


def test_chunks_are_appended_to_the_final_file(tmp_path, model) -> None:
    """No temporary name, no rename: the file grows by at most a chunk, keeps its inode, and nothing
    else is in its folder.
    """
    inodes, sizes, names = {}, {}, set()

    def look(event) -> None:
        path = os.path.join(str(tmp_path), event.path)
        assert os.path.getsize(path) - sizes.get(event.path, 0) == event.size_bytes <= 1000
        sizes[event.path] = os.path.getsize(path)
        assert inodes.setdefault(event.path, os.stat(path).st_ino) == os.stat(path).st_ino
        names.update(os.listdir(os.path.dirname(path)))

    report = DumpServer(str(tmp_path), model.dumps(), chunk_bytes=1000, on_event=look).run()
    assert names == {os.path.basename(dump.path()) for dump in model.dumps()}
    for dump in model.dumps():
        chunks = [event.chunk for event in report.events if event.path == dump.path()]
        assert chunks == list(range(-(-len(dump.content()) // 1000)))


def test_chunks_are_cut_across_pieces_and_join_to_the_same_bytes() -> None:
    pieces = [bytes([number]) * size for number, size in enumerate([1, 700, 0, 299, 5000, 3])]
    chunks = [b"".join(map(bytes, chunk)) for chunk in cut(pieces, 1000)]
    assert b"".join(chunks) == b"".join(pieces)
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 1000, 1000, 1000, 1000, 3]
    assert list(cut([], 10)) == [] and list(cut([b""], 10)) == []


def test_each_chunk_is_appended_by_an_open_and_a_close(tmp_path, model, monkeypatch) -> None:
    opened, closed = [], []
    real_open, real_close = os.open, os.close

    def note_open(path, flags, *rest):
        opened.append(flags)
        return real_open(path, flags, *rest)

    def note_close(descriptor):
        closed.append(descriptor)
        real_close(descriptor)

    monkeypatch.setattr(os, "open", note_open)
    monkeypatch.setattr(os, "close", note_close)
    report = DumpServer(str(tmp_path), model.dumps(), chunk_bytes=4096).run()
    assert len(opened) == len(closed) == len(report.events)
    assert set(opened) == {os.O_APPEND | os.O_RDWR | os.O_CREAT}


def test_files_of_ops_and_devices_interleave_in_an_order_fixed_by_the_seed(
    tmp_path, model, read_tree
) -> None:
    orders = []
    for run, seed in enumerate((3, 3, 4)):
        server = DumpServer(
            str(tmp_path / str(run)),
            model.dumps(device=0),
            model.dumps(device=1),
            chunk_bytes=500,
            seed=seed,
        )
        orders.append([(event.path, event.chunk) for event in server.run().events])
    assert orders[0] == orders[1] != orders[2]
    assert read_tree(tmp_path / "0") == read_tree(tmp_path / "1") == read_tree(tmp_path / "2")
    paths = [path for path, _ in orders[0]]
    devices = [path.split(os.sep)[1] for path in paths]
    assert sum(before != after for before, after in zip(devices, devices[1:])) > 10
    first, last = {}, {}
    for place, path in enumerate(paths):
        first.setdefault(path, place)
        last[path] = place
    one = sorted((first[path], last[path]) for path in first if path.split(os.sep)[1] == "0")
    assert any(later[0] < earlier[1] for earlier, later in zip(one, one[1:]))
    for path in first:
        chunks = [chunk for other, chunk in orders[0] if other == path]
        assert chunks == sorted(chunks)


def test_a_dropped_chunk_leaves_a_hole(tmp_path, model) -> None:
    dump = next(dump for dump in model.dumps() if dump.op_name == "op/3")
    report = DumpServer(
        str(tmp_path), model.dumps(), chunk_bytes=1000, faults=[Fault("drop_chunk", "op_3", 1)]
    ).run()
    content = dump.content()
    with open(str(tmp_path / dump.path()), "rb") as stream:
        assert stream.read() == content[:1000] + content[2000:]
    found = probe(str(tmp_path / dump.path()))
    assert (found.state, found.expected_bytes, found.actual_bytes) == (
        "short",
        len(content),
        len(content) - 1000,
    )
    assert report.counts()["dropped"] == 1


def test_a_write_error_removes_the_file_and_later_chunks_recreate_it_without_header(
    tmp_path, model
) -> None:
    dump = next(dump for dump in model.dumps() if dump.op_name == "op/3")
    inodes = set()

    def look(event) -> None:
        if event.path == dump.path():
            path = os.path.join(str(tmp_path), event.path)
            assert os.path.exists(path) == (event.what == "written")
            if event.what == "written":
                inodes.add((event.chunk > 2, os.stat(path).st_size))

    DumpServer(
        str(tmp_path),
        model.dumps(),
        chunk_bytes=1000,
        faults=[Fault("write_error", "*.op_3.*", 2)],
        on_event=look,
    ).run()
    with open(str(tmp_path / dump.path()), "rb") as stream:
        assert stream.read() == dump.content()[3000:]
    assert probe(str(tmp_path / dump.path())).state == "headerless"
    assert (False, 2000) in inodes and (True, 1000) in inodes


def test_a_write_error_in_the_last_chunk_leaves_nothing(tmp_path) -> None:
    report = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 50)], faults=[Fault("write_error", "b")]
    ).run()
    assert report.counts() == {"write_error": 1} and os.listdir(str(tmp_path / "0")) == []


def test_a_real_write_error_acts_like_a_planted_one(tmp_path, monkeypatch) -> None:
    real, calls = os.write, []

    def full(descriptor, data):
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    report = DumpServer(str(tmp_path), [plain("A.b.1.2.3", b"abc" * 10)], chunk_bytes=10).run()
    assert [event.what for event in report.events] == ["written", "write_error", "written"]
    with open(str(tmp_path / "0" / "A.b.1.2.3"), "rb") as stream:
        assert stream.read() == b"cabcabcabc"


def test_a_twin_appends_the_dump_again(tmp_path, model) -> None:
    dump = next(dump for dump in model.dumps() if dump.op_name == "op/2")
    report = DumpServer(
        str(tmp_path), model.dumps(), chunk_bytes=300, faults=[Fault("twin", "op_2")]
    ).run()
    with open(str(tmp_path / dump.path()), "rb") as stream:
        assert stream.read() == dump.content() * 2
    found = probe(str(tmp_path / dump.path()))
    assert (found.state, found.expected_bytes) == ("long", len(dump.content()))
    assert report.counts().keys() == {"written"}


def test_two_dumps_of_one_name_never_mix(tmp_path) -> None:
    dumps = [
        plain("A.b.1.2.3", b"1" * 1000),
        plain("A.b.1.2.3", b"2" * 1000),
        plain("A.c.1.2.3", b"3" * 1000),
    ]
    DumpServer(str(tmp_path), dumps, chunk_bytes=10, open_files=3).run()
    with open(str(tmp_path / "0" / "A.b.1.2.3"), "rb") as stream:
        assert stream.read() == b"1" * 1000 + b"2" * 1000


@pytest.mark.parametrize("tensor", ["input:0", "output:0"])
def test_a_tensor_with_a_null_address_is_announced_but_not_written(tmp_path, model, tensor) -> None:
    dumps = list(model.dumps(first_address=1 << 32))
    dump = next(dump for dump in dumps if dump.op_name == "op/3")
    DumpServer(
        str(tmp_path),
        dumps,
        chunk_bytes=1000,
        faults=[Fault("null_address", "op_3", tensor=tensor)],
    ).run()
    kind, _, index = tensor.partition(":")
    left_out = (dump.inputs if kind == "input" else dump.outputs)[int(index)]
    path = str(tmp_path / dump.path())
    file = DumpFile.open(path)
    info = (file.inputs if kind == "input" else file.outputs)[int(index)]
    assert not info.address and info.shape == left_out.data.shape
    assert "null address, %d bytes by the header" % left_out.data.nbytes in info.problem
    found = probe(path)
    assert found.state == "short" and found.nulls_left_out
    assert found.expected_bytes - found.actual_bytes == left_out.data.nbytes
    other = "output" if kind == "input" else "input"
    kept = (dump.outputs if kind == "input" else dump.inputs)[0]
    assert (file.tensor(other, 0).array() == kept.data).all()


def test_a_null_address_fault_must_name_a_tensor(tmp_path, model) -> None:
    with pytest.raises(UsageError, match="output:7"):
        DumpServer(
            str(tmp_path), model.dumps(), faults=[Fault("null_address", "op_3", tensor="output:7")]
        ).run()
    with pytest.raises(UsageError):
        DumpServer(
            str(tmp_path), [plain("A.b.1.2.3", b"x")], faults=[Fault("null_address", "b")]
        ).run()


def test_a_full_disk_drops_chunks_until_space_is_free(tmp_path) -> None:
    free = iter([RESERVE_BYTES + 100, RESERVE_BYTES, 5, RESERVE_BYTES + 1])
    server = DumpServer(
        str(tmp_path),
        [plain("A.b.1.2.3", b"abcd" * 10)],
        chunk_bytes=10,
        free_bytes=lambda: next(free),
    )
    assert [event.what for event in server.run().events] == [
        "written",
        "disk_full",
        "disk_full",
        "written",
    ]
    with open(str(tmp_path / "0" / "A.b.1.2.3"), "rb") as stream:
        assert stream.read() == b"abcdabcdab" + b"cdabcdabcd"


def test_a_chunk_larger_than_the_free_space_is_dropped(tmp_path) -> None:
    big = RESERVE_BYTES + 1000
    server = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * (big + 1))], free_bytes=lambda: big
    )
    assert server.run().counts() == {"disk_full": 1} and not os.path.exists(str(tmp_path / "0"))


def test_a_quota_counts_what_lies_below_the_root(tmp_path) -> None:
    free = quota(str(tmp_path), RESERVE_BYTES + 2500)
    assert quota(str(tmp_path / "none"), 7)() == 7
    report = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 5000)], chunk_bytes=1000, free_bytes=free
    ).run()
    assert [event.what for event in report.events] == ["written"] * 3 + ["disk_full"] * 2
    os.unlink(str(tmp_path / "0" / "A.b.1.2.3"))
    assert free() == RESERVE_BYTES + 2500


def test_files_that_cannot_be_opened_are_refused(tmp_path) -> None:
    dumps = [plain("A.b.1.2.3", b"x" * 30), plain("A.c.2.2.4", b"y")]
    report = DumpServer(
        str(tmp_path), dumps, chunk_bytes=10, faults=[Fault("refuse_open", "b")]
    ).run()
    assert report.counts() == {"refused": 3, "written": 1} and os.listdir(str(tmp_path / "0")) == [
        "A.c.2.2.4"
    ]
    with open(str(tmp_path / "file"), "w"):
        pass
    assert DumpServer(str(tmp_path / "file"), dumps).run().counts() == {"refused": 2}


def test_dump_files_have_the_requested_permissions(tmp_path) -> None:
    dumps = [plain("A.b.1.2.3", b"x" * 30), plain("A.c.2.2.4", b"y")]
    before = os.umask(0o022)
    try:
        DumpServer(str(tmp_path), dumps, faults=[Fault("unreadable", "c")], file_mode=0o664).run()
    finally:
        os.umask(before)
    assert os.stat(str(tmp_path / "0" / "A.b.1.2.3")).st_mode & 0o777 == 0o644
    assert os.stat(str(tmp_path / "0" / "A.c.2.2.4")).st_mode & 0o777 == 0


def long_named(model):
    name = "x" * 250
    model.add(
        DeviceOp(
            name, "Conv2D", (("op/5", 0),), (DeviceTensor(model.output("op/5").array),), (name,)
        )
    )
    return [dump for dump in model.dumps() if dump.op_name == name][0]


def test_a_too_long_name_becomes_a_hash_with_a_mapping_line_per_chunk(tmp_path, model) -> None:
    dump = long_named(model)
    DumpServer(str(tmp_path), model.dumps(), chunk_bytes=100).run()
    folder = os.path.dirname(str(tmp_path / dump.path()))
    with open(os.path.join(folder, "mapping.csv")) as stream:
        lines = stream.read().splitlines()
    name = os.path.basename(dump.path())
    assert name.isdigit() and lines == ["%s,%s" % (name, dump.name)] * -(
        -len(dump.content()) // 100
    )
    assert read_mapping(os.path.join(folder, "mapping.csv")) == {name: dump.name}
    with open(os.path.join(folder, name), "rb") as stream:
        assert stream.read() == dump.content()


def test_the_mapping_may_be_written_late(tmp_path, model) -> None:
    dump = long_named(model)
    path = os.path.join(os.path.dirname(str(tmp_path / dump.path())), "mapping.csv")
    seen = []
    server = DumpServer(
        str(tmp_path),
        model.dumps(),
        late_mapping=True,
        on_event=lambda event: seen.append(os.path.exists(path)),
    )
    server.run()
    assert not any(seen) and list(read_mapping(path).values()) == [dump.name]


def still(monkeypatch, server) -> float:
    """Run the server on a clock that only its own waiting moves; return where it stands in the
    end.
    """
    now = [0.0]

    def wait(timeout) -> bool:
        now[0] += timeout
        return False

    monkeypatch.setattr(
        "goldwatch.testing.dump_server.time", types.SimpleNamespace(monotonic=lambda: now[0])
    )
    monkeypatch.setattr(server._stopping, "wait", wait)
    server.run()
    return now[0]


def test_the_byte_rate_is_limited(tmp_path, monkeypatch) -> None:
    server = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 600000)], chunk_bytes=100000, bytes_per_s=2e6
    )
    assert (
        still(monkeypatch, server) == pytest.approx(0.3) and server.report.bytes_written == 600000
    )


def test_the_server_pauses_after_each_chunk(tmp_path, monkeypatch) -> None:
    server = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 40)], chunk_bytes=10, delay_s=0.05
    )
    assert still(monkeypatch, server) == pytest.approx(0.2)


def test_a_server_in_a_thread_stops_like_a_killed_process(tmp_path) -> None:
    go_on, reached = threading.Event(), threading.Event()

    def hold(event) -> None:
        if event.chunk == 2:
            reached.set()
            go_on.wait(30)

    server = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 100)], chunk_bytes=10, on_event=hold
    ).start()
    assert reached.wait(30) and server.running
    with pytest.raises(TimeoutError):
        server.join(0.01)
    with pytest.raises(UsageError):
        server.start()
    server.stop()
    go_on.set()
    report = server.join(30)
    assert not report.finished and os.path.getsize(str(tmp_path / "0" / "A.b.1.2.3")) == 30
    with DumpServer(str(tmp_path), [plain("A.c.1.2.3", b"x" * 100)], chunk_bytes=10) as server:
        pass
    assert server.report.finished and not server.running


def test_stopping_a_slow_server_does_not_wait(tmp_path, until) -> None:
    server = DumpServer(
        str(tmp_path), [plain("A.b.1.2.3", b"x" * 5000000)], bytes_per_s=1000
    ).start()
    until(lambda: server.report.bytes_written)
    server.stop()
    report = server.join(10)
    assert [event.what for event in report.events] == ["stopped"]
    assert os.path.getsize(str(tmp_path / "0" / "A.b.1.2.3")) == report.bytes_written == 1 << 20


def test_errors_in_the_servers_thread_reach_the_caller(tmp_path, model) -> None:
    server = DumpServer(
        str(tmp_path), model.dumps(), faults=[Fault("null_address", "op_3", tensor="input:4")]
    ).start()
    with pytest.raises(UsageError):
        server.join(30)


def test_an_endless_series_of_dumps_is_made_when_needed(tmp_path) -> None:
    made = []

    def dumps():
        while True:
            made.append(len(made))
            yield plain("A.b%d.1.2.3" % len(made), b"x")

    server = DumpServer(
        str(tmp_path),
        dumps(),
        on_event=lambda event: server.stop() if len(server.report.events) == 10 else None,
    )
    server.run()
    assert len(server.report.events) == 10 and len(made) <= 13


@pytest.mark.parametrize(
    "wrong", [{"chunk_bytes": 0}, {"open_files": 0}, {"bytes_per_s": 0}, {"delay_s": -1}]
)
def test_senseless_numbers_are_refused(tmp_path, wrong) -> None:
    with pytest.raises(UsageError):
        DumpServer(str(tmp_path), [], **wrong)


@pytest.mark.parametrize(
    "text", ["", "drop_chunk", "drop_chunk=", "nothing=x", "drop_chunk=x@y", "drop_chunk=x@-1"]
)
def test_senseless_faults_are_refused(text) -> None:
    with pytest.raises(UsageError):
        Fault.parse(text)


def test_faults_are_parsed_from_text() -> None:
    assert Fault.parse("drop_chunk=Conv2D.op_?.*@3") == Fault("drop_chunk", "Conv2D.op_?.*", 3)
    assert Fault.parse("null_address=op@input:1") == Fault("null_address", "op", tensor="input:1")
    assert Fault.parse("twin=op") == Fault("twin", "op")
    dump = plain("Conv2D.op_1.4.0.99", b"")
    assert Fault("twin", "Conv2D.op_?.*").concerns(dump) and Fault("twin", "op_1").concerns(dump)
    assert not Fault("twin", "op").concerns(dump) and not Fault("twin", "conv2d.*").concerns(dump)


def test_a_recorded_tree_is_served_byte_for_byte(tmp_path, model, read_tree) -> None:
    long_named(model)
    model.write_tree(str(tmp_path / "first"), step=3)
    model.write_tree(str(tmp_path / "first"), device=1)
    DumpServer(
        str(tmp_path / "second"), recorded(str(tmp_path / "first")), chunk_bytes=1 << 20
    ).run()
    assert read_tree(tmp_path / "second") == read_tree(tmp_path / "first")
