from __future__ import annotations

from goldwatch.reports.counts_by_place import PlaceCounts, place_lines, step_lines, worst_first


def counted(rows):
    places = {}
    for row in rows:
        one = places.setdefault(row.place, PlaceCounts(row.place))
        one.counts[row.verdict] += 1
        if row.verdict == "fail" and one.first is None:
            one.first = row.tensor
    return worst_first(places.values())


def test_each_place_has_a_line_with_the_worst_first(make_row):
    rows = [
        make_row(number, device=device, model="m", step=step)
        for device in "01"
        for step in ("9", "10")
        for number in range(4)
    ]
    rows[2] = make_row(2, device="0", model="m", step="9", verdict="not_compared")
    rows[13] = make_row(1, device="1", model="m", step="10", verdict="fail")
    lines = list(place_lines(counted(rows)))
    assert lines == [
        "  FAIL          device 1, step 10  1 of 4 fail, first op0:output:1",
        "  not compared  device 0, step 9   4 rows, 1 not compared",
        "  pass          device 0, step 10  4 rows",
        "  pass          device 1, step 9   4 rows",
    ]
    assert list(place_lines(counted(rows), colour=True))[0].startswith(
        "  \x1b[31mFAIL        \x1b[0m  device 1"
    )


def test_place_lines_fit_and_surplus_places_are_counted(make_row):
    rows = []
    for step in range(150):
        verdict = "fail" if step > 100 else "pass"
        rows.append(
            make_row(
                0, device="\x1b" + "d" * 90, step=str(step), tensor="层" * 200, verdict=verdict
            )
        )
    lines = list(place_lines(counted(rows), width=60))
    assert len(lines) == 101 and lines[-1] == "  ... and 50 more, 0 of them with failing rows"
    assert (
        all(len(line.encode("gbk")) <= 60 for line in lines)
        and "step 101" in lines[0]
        and "..." in lines[0]
    )


def test_first_tensors_that_differ_in_their_middle_stay_different(make_row):
    names = [
        "bert/encoder/layer_%d/output/LayerNorm/batchnorm/add_1:output:0" % number
        for number in range(12)
    ]
    rows = [
        make_row(0, step=str(number), tensor=name, verdict="fail")
        for number, name in enumerate(names)
    ]
    lines = list(place_lines(counted(rows), width=80))
    assert all(len(line) <= 80 for line in lines) and len(
        {line.split(", first ")[1] for line in lines}
    ) == len(names)
    assert all("/layer_%s." % line.split()[2] in line for line in lines)


def test_of_several_steps_the_first_that_diverges_stands_first_and_the_rest_is_counted(make_row):
    rows = [
        make_row(
            number,
            device=device,
            model="m",
            step=str(step),
            verdict="fail" if step >= 9 and device == "3" and number else "pass",
        )
        for device in "0123"
        for step in range(1, 31)
        for number in range(2)
    ]
    lines = list(step_lines(counted(rows)))
    assert lines[:2] == [
        "  FAIL  step 9  1 of 8 fail on device 3, first op0:output:1",
        "  FAIL  step 10  1 of 8 fail on device 3, first op0:output:1",
    ]
    assert lines[5:] == [
        "  ... 17 more steps, 17 of them with failing rows; all rows of 8 other steps pass"
    ]


def test_a_step_of_which_rows_were_not_compared_hides_no_step_that_fails(make_row):
    rows = [make_row(0, step=str(step), verdict="not_compared") for step in range(1, 20)]
    rows.append(make_row(0, step="20", verdict="fail"))
    lines = list(step_lines(counted(rows)))
    assert lines[0] == "  FAIL          step 20  1 of 1 fail, first op0:output:0"
    assert lines[1] == "  not compared  step 1  1 of 1 not compared"
    assert lines[-1] == "  ... 15 more steps, 0 of them with failing rows"


def test_lines_of_steps_fit_the_terminal(make_row):
    rows = [
        make_row(0, device=str(device), step=step, tensor="层" * 200, verdict="fail")
        for step in "123456789"
        for device in range(100)
    ]
    lines = list(step_lines(counted(rows), width=60))
    assert len(lines) == 6 and all(len(line.encode("gbk")) <= 60 for line in lines)
