"""``/metrics`` in Prometheus' text form.

Source of the form: Prometheus' "Text-based format", version 0.0.4.
"""

from __future__ import annotations

import time
from typing import Dict, List, Mapping

from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS
from .run_fields import RUNNING, RunStates
from .runs import Runs

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIELDS = (
    (PASS, "passed"),
    (FAIL, "failed"),
    (NOT_COMPARED, "not_compared"),
    (EXPECTED_ABSENT, "expected_absent"),
)


def metrics_text(runs: Runs, run_states: RunStates, jobs: Mapping[str, int]) -> str:
    """Return the text.

    Parameters
    ----------
    jobs
        How many jobs there are by state.
    """
    rows: List[str] = []
    failures: List[str] = []
    lag: List[str] = []
    size: List[str] = []
    for run in runs.all():
        run_state = run_states.state_of(run)
        fields, labels = run_state.fields, {"run": run.id, "name": runs.name(run)}
        rows += [
            _sample("goldwatch_rows", {**labels, "verdict": verdict}, fields[name])
            for verdict, name in _FIELDS
        ]
        failures.append(_sample("goldwatch_failures", labels, fields["failed"]))
        waits = fields["state"] == RUNNING and run_state.written_s is not None
        late_s = max(0.0, time.time() - (run_state.written_s or 0.0)) if waits else 0.0
        lag.append(_sample("goldwatch_lag_seconds", labels, round(late_s, 3)))
        size.append(_sample("goldwatch_bytes", labels, run_state.size_bytes))
    queue = [
        _sample("goldwatch_queue_jobs", {"state": state}, count) for state, count in jobs.items()
    ]
    lines: List[str] = []
    for name, text, samples in (
        ("goldwatch_rows", "Rows of a run by verdict.", rows),
        ("goldwatch_failures", "Rows of a run outside their limits.", failures),
        (
            "goldwatch_lag_seconds",
            "Seconds since a run that goes on last wrote to its store; 0 for others.",
            lag,
        ),
        ("goldwatch_bytes", "Bytes of the dump files that a run has compared.", size),
        ("goldwatch_queue_jobs", "Jobs of the service by state.", queue),
    ):
        lines += ["# HELP %s %s" % (name, text), "# TYPE %s gauge" % name, *samples]
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: Dict[str, str], value: object) -> str:
    label_text = ",".join('%s="%s"' % (key, _escaped(text)) for key, text in labels.items())
    return "%s{%s} %s" % (name, label_text, value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
