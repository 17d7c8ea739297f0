"""The trial of statistics: each run's dumps as tensors, and as statistics; what these find, miss
and accuse beside those.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .faults import KINDS, plant
from .running import Options, Run, Scene, Unit, _goldwatch, _tell_planted, fed_otherwise
from .writing import PLACE, write_changed

Found = Dict[str, Any]
FORMS = ("default", "chosen")
"""With CANN's thirteen columns, and with an l2 norm."""


def _rows(
    dump: str, golden: str, om: str, out: str, words: Sequence[str]
) -> Tuple[int, Dict[str, Any]]:
    path = out + ".json"
    given = [
        "compare",
        os.path.join(dump, PLACE.folder()),
        golden,
        "-f",
        om,
        "-o",
        out,
        "--quiet",
        "--table",
        "none",
        "--jobs",
        "1",
    ]
    code, text = _goldwatch([*given, "--recompute", "none", "--json", path, *words])
    if code not in (0, 1, 3):
        raise RuntimeError("compare ended with %s: %s" % (code, text[-2000:]))
    with open(path, encoding="utf-8") as stream:
        return code, json.load(stream)


def run_one(run: Run, scene: Scene) -> Optional[Found]:
    """Return what tensors and statistics say of a run; None where no operator of the network can
    have the fault.
    """
    from goldwatch.testing import as_statistics

    with tempfile.TemporaryDirectory(dir=scene.folder) as here:
        golden, dump = scene.golden(False), scene.tree("all")
        found: Found = {
            "run": run.text(),
            "net": run.net,
            "habit": run.habit,
            "fault": run.fault,
            "op": "",
        }
        random = np.random.RandomState(zlib.crc32(run.text().encode()) & 0x7FFFFFFF)
        if run.fault in KINDS:
            made = plant(run.fault, scene.device, scene.healthy, random)
            if made is None:
                return None
            dump = os.path.join(here, "dump")
            write_changed(
                scene.lowered, made.changed, made.store, scene.habit, "all", dump, scene.tree("all")
            )
            _tell_planted(found, made, scene)
        elif run.fault:
            dump = os.path.join(here, "dump")
            if not fed_otherwise(found, scene, run, "all", dump):
                return None
        code, tensors = _rows(dump, golden, scene.om, os.path.join(here, "tensors"), ())
        rows = {row["tensor"]: row for row in tensors["rows"] if row["verdict"] in ("pass", "fail")}
        found["code"] = code
        for form in FORMS:
            stats = os.path.join(here, form)
            as_statistics(dump, stats, form)
            code, told = _rows(
                stats, golden, scene.om, os.path.join(here, "out_" + form), scene.options.words
            )
            found[form] = {"code": code, "rows": []}
            for row in told["rows"]:
                if row["verdict"] in ("pass", "fail") and row["tensor"] in rows:
                    other = rows[row["tensor"]]
                    found[form]["rows"].append([
                        row["tensor"], row["op_type"], row["kind"], row["target_dtype"],
                        other["verdict"], row["verdict"],
                        other["metrics"].get("RelativeEuclideanDistance"),
                        other["metrics"].get("WorstSliceDistance"),
                        {name: value for name,
                        value in row["metrics"].items() if name != "StandardDeviation"},
                        row["shape"],
                        row["reason"][:150],
                    ])  # fmt: skip
    return found


def work(given: Tuple[Unit, Options]) -> List[Found]:
    """Do the runs of one network with one input on one device."""
    (key, runs), options = given
    found: List[Found] = []
    with tempfile.TemporaryDirectory(prefix="goldwatch-real-trial-") as folder:
        try:
            scene = Scene(*key, options, folder)
        except LookupError as reason:
            return [{"run": run.text(), "left_out": str(reason)} for run in runs]
        for run in runs:
            # One healthy run is like the other, and exchanged golden data are not the device's
            # fault.
            if run.fault == "golden-exchanged" or not (run.fault or run.form == "all"):
                continue
            made = run_one(run, scene)
            found.append(
                made
                if made is not None
                else {"run": run.text(), "left_out": "no operator can have it"}
            )
    return found


SIZES: Tuple[Tuple[str, Callable[[Found], bool]], ...] = (
    ("moved > 3 %", lambda entry: entry["moved"] > 0.03),
    ("1 to 3 %", lambda entry: 0.01 < entry["moved"] <= 0.03),
    ("< 1 %, > 10 roundings", lambda entry: entry["moved"] <= 0.01 and entry["roundings"] > 10),
)
RADIUS = 3
"""Edges that the configuration goes which compare names after statistics."""


def table(found: Sequence[Found]) -> List[str]:
    """Return the lines of both tables: of whole runs, and of single tensors."""
    runs = [entry for entry in found if "left_out" not in entry]
    lines = [
        "| runs | | tensors: at it | near | later | before | silent | statistics: at it | "
        "near | later | before | silent "
        "| with l2 norm: at it | near | later | before | silent |",
        "|---|---|" + "---|" * 15,
    ]
    healthy = [entry for entry in runs if not entry["fault"]]
    groups = [("healthy", healthy)]
    groups += [
        (name, [entry for entry in runs if entry["fault"] and fits(entry)]) for name, fits in SIZES
    ]
    for name, group in groups:
        cells = []
        for where in ("tensors", *FORMS):
            counts = Counter(_place(entry, where) for entry in group)
            cells += ["%d" % counts[kind] for kind in ("at", "near", "later", "before", "silent")]
        lines.append("| %s | %d | %s |" % (name, len(group), " | ".join(cells)))
    lines += [
        "",
        "| tensors | form | fail by their elements | of these by statistics | pass | of these "
        "fail by statistics |",
        "|---|---|---|---|---|---|",
    ]
    for name, group in groups:
        for form in FORMS:
            rows = [row for entry in group for row in entry[form]["rows"]]
            failing = [row for row in rows if row[4] == "fail"]
            passing = [row for row in rows if row[4] == "pass"]
            cells = [
                len(failing),
                sum(map(_fails, failing)),
                len(passing),
                sum(map(_fails, passing)),
            ]
            lines.append("| %s | %s | %s |" % (name, form, " | ".join(map(str, cells))))
    return lines


def _place(entry: Found, where: str) -> str:
    """Return where the first divergence of a run is, beside the planted operator, in the order of
    the execution.
    """
    rows = entry[FORMS[0] if where == "tensors" else where]["rows"]
    fails = _fails if where != "tensors" else lambda row: row[4] == "fail"
    order = {name: number for number, name in enumerate(dict.fromkeys(_op(row) for row in rows))}
    at = min((order[_op(row)] for row in rows if fails(row)), default=-1)
    if at < 0 or not entry["fault"]:
        return "silent" if at < 0 else "before"
    # Another input: wrong from the first operator on.
    planted = order.get(entry["op"], 0)
    return (
        "at"
        if at == planted
        else "before"
        if at < planted
        else "near"
        if at <= planted + RADIUS
        else "later"
    )


def _op(row: Sequence[Any]) -> str:
    return str(row[0].rsplit(":", 2)[0])


def _fails(row: Sequence[Any]) -> bool:
    return bool(row[5] == "fail")
