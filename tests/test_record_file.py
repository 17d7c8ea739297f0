"""Records in a file without a name are as they were written, whole or not at all."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from goldwatch.base import record_file
from goldwatch.base.record_file import RecordFile, SomeRecords

RECORD = np.dtype([("number", "i8"), ("bits", "u1")])


def records(first, count):
    made = np.empty(count, RECORD)
    made["number"], made["bits"] = np.arange(first, first + count), np.arange(count) % 7
    return made


def test_columns_and_single_records_are_those_that_were_appended(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(record_file, "_AT_ONCE", 16)
    monkeypatch.setattr(record_file, "_IN_ORDER", 20)
    file, every = RecordFile(str(tmp_path), RECORD), np.empty(0, RECORD)
    for count in (0, 1, 16, 40):
        every = np.append(every, records(len(every), count))
        file.append(every[len(file) :])
        some = np.random.RandomState(count).permutation(len(every))
        view = SomeRecords(file, some)
        assert (len(file), len(view)) == (len(every), len(some))
        for name in RECORD.names:
            assert file.column(name).tolist() == every[name].tolist()
            assert view[name].tolist() == every[name][some].tolist()
            assert view[some % 2 == 0][name].tolist() == every[name][some[some % 2 == 0]].tolist()
        assert [view[at] for at in range(len(some))] == [every[at] for at in some]
        assert [file[at] for at in range(len(every))] == list(every)
        part = slice(len(every) // 3, len(every) // 2)
        for those in (some, some[: len(some) // 3], some[:0], np.sort(some)[::2]):
            file_in_order = file.in_order(those)
            assert len(file_in_order) == len(those)
            assert file_in_order["number"].tolist() == every["number"][those].tolist()
            assert file_in_order[part]["bits"].tolist() == every[those][part]["bits"].tolist()
    assert os.listdir(str(tmp_path)) == []


def test_records_that_cannot_be_written_whole_are_not_there(tmp_path, monkeypatch) -> None:
    file, real = RecordFile(str(tmp_path), RECORD), os.pwrite
    file.append(records(0, 3))

    def full(descriptor, data, offset):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        file.append(records(3, 4))
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: real(descriptor, data[:7], at))
    file.append(records(9, 2))
    assert file.column("number").tolist() == [0, 1, 2, 9, 10]
