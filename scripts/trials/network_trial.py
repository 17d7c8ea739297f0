"""The network half of the trial of the verdict: healthy runs, and runs with one planted fault."""

from __future__ import annotations

import multiprocessing
import zlib
from collections import Counter
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

import numpy as np

from goldwatch.judging.limits import Limits

from .networks import DEVICES, NETS
from .run import FAULTS, judged, moves, rows_of, some_fault

ENOUGH = 10.0
"""A fault counts where it moves the op's output by more than this many times its rounding."""


class Trial(NamedTuple):
    """One network of one seed on one device, and how many faults to plant into it."""

    net: str
    device: str
    seed: int
    faults: int


class Found(NamedTuple):
    """What came of one run.

    Attributes
    ----------
    fault
        The kind of the planted fault; empty for a healthy run.
    rank
        Of the planted op among the suspects, from 0; −1 where it is none of them. Of a healthy run
        the number of suspects.
    explained
        The first explanation's kind is right.
    failed
        A row is outside its limits.
    text
        What a reader of a miss wants to know.
    """

    trial: Trial
    fault: str
    rank: int
    explained: bool
    failed: bool
    text: str


def run_trial(trial: Trial) -> List[Found]:
    """Run one network healthy, then with faults in random ops."""
    with np.errstate(all="ignore"):
        return list(_runs(trial))


def _runs(trial: Trial) -> Iterable[Found]:
    net, device, limits = NETS[trial.net](trial.seed), DEVICES[trial.device], Limits()
    golden, healthy = net.golden(), net.run(device)
    rows = rows_of(net, golden, healthy, device.dtype, limits)
    known = {row.op: row for row in rows}
    summary = judged(net, golden, healthy, rows)
    text = "; ".join("%s: %s" % (suspect.op, suspect.evidence) for suspect in summary.suspects)
    yield Found(trial, "", len(summary.suspects), False, summary.failed > 0, text)
    random = np.random.RandomState(zlib.crc32(repr(trial[:3]).encode()))
    planted = 0
    while planted < trial.faults:
        fault = some_fault(net, FAULTS[random.randint(len(FAULTS))], random)
        if fault is None:
            continue
        ratio, wrong = moves(net, device, healthy, fault)
        if not ratio > ENOUGH:
            continue
        planted += 1
        names = [op.name for op in net.ops]
        before = {name: healthy[name] for name in names[: names.index(fault.op)]}
        made = net.run(device, None, {**before, fault.op: wrong})
        rows = rows_of(
            net, golden, made, device.dtype, limits, {name: known[name] for name in before}
        )
        summary = judged(net, golden, made, rows)
        suspects = [suspect.op for suspect in summary.suspects]
        rank = suspects.index(fault.op) if fault.op in suspects else -1
        explanations = summary.suspects[rank].explanations if rank >= 0 else ()
        right = bool(explanations) and explanations[0].kind in fault.explained
        what = "%s in %s, %.0f times its rounding; suspects %s, explained %s" % (
            fault.kind, fault.op, ratio, suspects[:3], [entry.kind for entry in explanations],
        )  # fmt: skip
        yield Found(trial, fault.kind, rank, right, summary.failed > 0, what)


def run_all(
    seeds: Sequence[int],
    faults: int,
    jobs: int,
    devices: Sequence[str],
    nets: Sequence[str] = tuple(NETS),
) -> List[Found]:
    """Run every network of every seed on every device.

    Parameters
    ----------
    faults
        To plant into each.
    jobs
        Processes.
    """
    trials = [
        Trial(net, device, seed, faults) for seed in seeds for net in nets for device in devices
    ]
    if jobs == 1:
        return [found for trial in trials for found in run_trial(trial)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return [found for part in pool.imap_unordered(run_trial, trials) for found in part]


def table(found: Sequence[Found]) -> List[str]:
    """Return the figures as lines of two tables in Markdown."""
    lines = ["| device | healthy runs | with a failing row | with a suspect |", "|---|---|---|---|"]
    healthy = [entry for entry in found if not entry.fault]
    for device in sorted({entry.trial.device for entry in healthy}):
        of_it = [entry for entry in healthy if entry.trial.device == device]
        lines.append(
            "| %s | %d | %d | %d |"
            % (device, len(of_it), sum(e.failed for e in of_it), sum(e.rank > 0 for e in of_it))
        )
    lines += [
        "",
        "| planted fault | runs | first suspect | among three | explained rightly |",
        "|---|---|---|---|---|",
    ]
    planted = [entry for entry in found if entry.fault]
    by_kind: Dict[str, List[Found]] = {}
    for entry in planted:
        by_kind.setdefault(entry.fault, []).append(entry)
    for kind in sorted(by_kind):
        lines.append(_line(kind, by_kind[kind]))
    for device in sorted({entry.trial.device for entry in planted}):
        lines.append(
            _line("all, " + device, [entry for entry in planted if entry.trial.device == device])
        )
    lines.append(_line("**all**", planted))
    return lines


def figures(found: Sequence[Found]) -> Dict[str, float]:
    """Return the shares that are promised, ``healthy``, ``first``, ``three`` and ``kind``, 0 to 1;
    and how many healthy runs fail.
    """
    healthy, planted = (
        [entry for entry in found if not entry.fault],
        [entry for entry in found if entry.fault],
    )
    count: Any = Counter(_marks(planted))
    total = max(1, len(planted))
    return {
        "healthy": sum(not entry.rank for entry in healthy) / max(1, len(healthy)),
        "fails": float(sum(entry.failed for entry in healthy)),
        "first": count["first"] / total,
        "three": count["three"] / total,
        "kind": count["kind"] / total,
    }


def _marks(found: Iterable[Found]) -> Iterable[str]:
    for entry in found:
        if entry.rank == 0:
            yield "first"
        if 0 <= entry.rank < 3:
            yield "three"
        if entry.explained:
            yield "kind"


def _line(name: str, found: Sequence[Found]) -> str:
    count: Any = Counter(_marks(found))
    parts = [
        "%d (%.1f %%)" % (count[mark], 100.0 * count[mark] / max(1, len(found)))
        for mark in ("first", "three", "kind")
    ]
    return "| %s | %d | %s |" % (name, len(found), " | ".join(parts))


def misses(found: Sequence[Found]) -> List[str]:
    """Return a line for each run that did not come out as it should."""
    lines = []
    for entry in found:
        wrong = (
            entry.rank > 0 or entry.failed
            if not entry.fault
            else entry.rank != 0 or not entry.explained
        )
        if wrong:
            lines.append("%s, %s, seed %d: %s" % (*entry.trial[:3], entry.text or "a row fails"))
    return lines
