"""Report pages of made-up runs, and untrusted names."""

from __future__ import annotations

from goldwatch.dumps.place import NOWHERE
from goldwatch.judging.limits import NAMED
from goldwatch.metrics.row import METRICS, Row
from goldwatch.reports.csv_cells import Columns
from goldwatch.reports.pages.report import HtmlFile
from goldwatch.reports.report_context import ReportContext, write_files

HOSTILE = (
    "a</script><script>document.title='ran'</script>\u2028\"'&<img src=x "
    "onerror=\"document.title='ran'\">\u202egnp.\nnext"
)


def make_row(number=0, error=1e-4, **fields):
    op = fields.get("op", "op%d" % number)
    values = {
        "index": number, "op": op, "op_type": "Conv2D", "tensor": op + ":output:0",
        "kind": "output", "tensor_index": 0, "group": (op,),
        "verdict": "fail" if error > 0.03 else "pass", "shape": (1, 64, 56, 56),
        "target_dtype": "float16", "golden_dtype": "float32",
        "target_file": "Conv2D.%s.1.2.3" % op, "golden_file": op + ".0.1.npy",
        "metrics": {
            **{name: error * (2 + place) for place, name in enumerate(METRICS)},
            "CosineSimilarity": 1 - error * error, "RelativeEuclideanDistance": error,
            "StandardDeviation": {"target": {"mean": 0.5, "std": 1.25},
            "golden": {"mean": -0.5, "std": 1.0}},
        },
    }  # fmt: skip
    values.update(fields)
    return Row(**values)


def make_report_context(rows, suspects=(), **fields):
    """Return what is told of these rows; suspects are numbers of rows."""
    count = {
        verdict: sum(row.verdict == verdict for row in rows)
        for verdict in ("pass", "fail", "not_compared", "expected_absent")
    }
    summary = {
        "verdict": "fail" if count["fail"] else "pass", "ops": len({row.op for row in rows}),
        "rows": len(rows), "passed": count["pass"],
        "failed": count["fail"], "not_compared": count["not_compared"],
        "expected_absent": count["expected_absent"],
        "warnings": [], "models": [],
        "devices_agree": None, "first_divergence": None, "steps_without_golden": [],
        "program": None,
        "suspects": [
            {
                "op": rows[number].op, "op_type": rows[number].op_type,
                "tensor": rows[number].tensor,
                "place": rows[number].place._asdict(),
                "score": 12.0, "confidence": "high", "evidence": "its output differs by 50 %",
                "explanations": [
                    {"kind": "scale", "share": 1.0, "sentence": "the target is the golden x 1.5",
                    "next": "look at its scale"}
                ],
            }
            for number in suspects
        ],
    }  # fmt: skip
    facts = {
        "out": "out", "started": "20260102030405", "finished": True, "summary": summary,
        "sentence": "One operator is wrong.",
        "inputs": {"target": "dump", "golden": "golden", "model": None}, "limits": NAMED["default"],
        "columns": Columns(),
        "places": tuple(dict.fromkeys(row.place for row in rows)) or (NOWHERE,),
        "commands": {rows[number].op: "goldwatch compare-op dump golden '%s'" % rows[number].op for number in suspects},  # noqa: E501
    }  # fmt: skip
    facts.update(fields)
    return ReportContext(**facts)


def write_page(path, rows, suspects=(), **fields):
    """Write the report of these rows; return its text."""
    write_files(rows, {str(path): HtmlFile}, make_report_context(rows, suspects, **fields))
    with open(str(path), encoding="utf-8") as stream:
        return stream.read()


def network(count, broken=None):
    """Return the rows of a network in which everything from op ``broken`` on is wrong, the less the
    further away.
    """
    found = []
    for number in range(count):
        wrong = broken is not None and number >= broken
        error = (0.5 + (number * 7 % 13) / 100 if wrong else 1e-4 * (1 + number * 7 % 11)) * (
            1 + number * 31 % 997 * 1e-4
        )
        name = "block%d/unit%d/Conv2D" % (number // 10, number % 10)
        found.append(
            make_row(number, error, op=name, op_type=("Conv2D", "MatMul", "Relu")[number % 3])
        )
    return found


def chain(rows):
    """Return the network of a list of rows, each op fed by the one before, as the store keeps
    it.
    """
    desc = {
        "dtype": "DT_FLOAT16",
        "layout": "NC1HWC0",
        "shape": [1, 4, 56, 56, 16],
        "origin": None,
        "origin_index": None,
    }
    desc.update(origin_layout="NCHW", origin_shape=[1, 64, 56, 56])
    ops = []
    for number, row in enumerate(rows):
        inputs = [[rows[number - 1].op, 0]] if number else []
        op = {
            "name": row.op,
            "type": row.op_type,
            "id": number,
            "graph": 0,
            "originals": [row.op],
            "inputs": inputs,
            "controls": [],
        }
        ops.append(dict(op, input_descs=[desc] * len(inputs), output_descs=[desc]))
    return {"model": "net", "ops": ops}


def tensors(driver):
    """Return the tensors of the rows that a browser shows, in their order."""
    rows = "[...document.querySelectorAll('#rows tbody tr[data-tensor]')]"
    return driver.execute_script("return %s.map((row) => row.dataset.tensor)" % rows)
