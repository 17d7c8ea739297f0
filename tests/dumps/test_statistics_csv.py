"""Tables of statistics, read by their headers."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import FormatError
from goldwatch.dumps.statistics_csv import (
    is_table_of_ops,
    parse_table,
    read_table,
    rows_of,
)

CANN = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,"
    "Nan Count,Negative Inf Count,Positive Inf Count\n"
)
CHOSEN = "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value,Min Value,l2norm\n"
MINDSPORE = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
MINDSPORE += "Max Value,L2Norm Value\n"


def only(text):
    (rows,) = parse_table(text, "x.csv").rows.values()
    return rows


def test_statistics_are_read_by_the_names_of_their_columns():
    (row,) = only(CANN + "Output,1,48,DT_FLOAT16,ND,2x3x4,1.5,-2,0.25,24,3,1,2\n")
    told = row.statistics
    assert row[:2] == ("output", 1) and told.shape == (2, 3, 4) and told.dtype == "DT_FLOAT16"
    assert (told.max, told.min, told.mean, told.norm) == (1.5, -2.0, 0.25, None)
    assert (told.elements, told.nan, told.infinite) == (24, 3, 3)
    (row,) = only("Min Value,Index,Input/Output,Own\n7,0,Input,x\n")
    assert row[:2] == ("input", 0) and row.statistics.min == 7 and row.statistics.elements is None


@pytest.mark.parametrize("column", ["l2norm", "L2Norm Value", "L2 Norm Value"])
def test_the_norm_column_is_recognised_by_each_of_its_names(column):
    (row,) = only("Input/Output,Slot,%s,Count,Shape\nOutput,0,2.5,\u00b2,\u00b2x3\n" % column)
    assert row.statistics.norm == 2.5
    assert row.statistics.elements is None and row.statistics.shape is None  # no digits of numbers


def test_a_count_that_adump_omits_does_not_shift_other_cells():
    whole, short = only(
        CHOSEN + "Input,0,4,DT_INT32,ND,2,9,5,4,90.5\nInput,1,4,DT_INT32,ND,2,5,4,90.5\n"
    )
    assert [told.statistics[4:8] for told in (whole, short)] == [
        (9, 5.0, 4.0, None),
        (None, 5.0, 4.0, None),
    ]
    assert short.statistics.norm == 90.5


@pytest.mark.parametrize("cells", ["NA,NA,NA,4,NA,NA,NA", ",,,,,,"])
def test_cells_without_a_value_are_empty(cells):
    (row,) = only(CANN + "Output,0,16,DT_DUAL,ND,-,%s\n" % cells)
    assert row.statistics.empty and row.statistics.shape is None and row.statistics.nan is None


def test_a_repeated_header_is_skipped_and_an_unfinished_line_waits():
    rows = only(
        CANN + "Input,0,2,DT_INT8,ND,2,1,0,1,2,0,0,0\n" + CANN + "Input,1,2,DT_INT8,ND,2,1,0,"
    )
    assert [row.number for row in rows] == [0]
    # The AI CPU's own file has no end of line behind its last row.
    assert len(only(CANN + "Input,0,2,DT_INT8,ND,2,1,0,1,2,0,0,0")) == 1


def test_ops_of_one_table_and_their_runs_are_told_apart():
    lines = [
        'Sub,net/Sub-op0,0,0,17,input,0,4,float32,"(2, 3)",3,3,\n',
        "Sub,net/Sub-op0,0,0,18,output,0,4,float32,(2,3),2,2\n",
        'Sub,net/Sub-op0,0,0,19,output,0,4,float32,"()",True,2,\n',
    ]
    table = parse_table(MINDSPORE + "".join(lines), "x.csv")
    first, second = table.rows
    assert first.startswith("Sub.net_Sub-op0.0.0.") and first.endswith("17.csv")
    assert [row.statistics.shape for row in table.rows[first]] == [(2, 3), (2, 3)]
    assert second.endswith("19.csv") and table.rows[second][0].statistics[2:6:3] == ((), 1.0)
    more = parse_table(MINDSPORE + "".join(lines) + lines[0].replace("Sub", "Add"), "x.csv")
    assert {name: more.marks[name] for name in table.marks} == table.marks and len(more.marks) == 3


def test_a_file_that_is_no_statistics_table_is_refused(tmp_path):
    path = tmp_path / "statistic.csv"
    for text in ("", "a,b,c\n1,2,3\n", CANN + '"' + "x" * 140000):
        path.write_text(text)
        assert not is_table_of_ops(str(path))
        with pytest.raises(FormatError):
            read_table(str(path))
    path.write_text(MINDSPORE + "Sub,s,0,0,17,input,0,4,float32,(2),3,3\n")
    assert is_table_of_ops(str(path)) and not is_table_of_ops(str(tmp_path / "mapping.csv"))
    assert len(rows_of(str(path / "Sub.s.0.0.0000000000000017.csv"))) == 1
    with pytest.raises(FormatError):
        rows_of(str(path / "Sub.other.0.0.0000000000000017.csv"))
