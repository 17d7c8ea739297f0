"""Routes with the metrics of a merge over all devices, of which it stores few rows: line by line,
and the worst of each op in each step.
"""

from __future__ import annotations

from typing import Any, Dict

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ..errors import FormatError
from ..metrics.row import FAIL, PASS
from ..pages.worst_by_op_and_step import over_devices
from ..store.merged_metrics import metrics_of_step_ops, worst_outputs, worst_step_ops
from ..store.row_counts import rows_of
from ..store.store_reader import StoreReader
from ..store.stored_networks import GRAPHS
from .answers import json_answer, number_of
from .run_routes import MOST_ROWS, metrics_of
from .runs import Run, Runs

_LINES = 1000
_QUERY_CHARACTERS = 200


class MergeMetricsRoutes:
    """Serves merges; other runs have empty answers."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    async def steps(self, request: Request) -> Response:
        """Answer ``{"steps", "metrics", "unstored"}``: for a merge the value of one metric over all
        devices in each step, the worst first, and the number of rows of each device and step that
        are counted but not stored.
        """
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        metric = request.query_params.get("metric", "RelativeEuclideanDistance")[:_QUERY_CHARACTERS]
        limit = number_of(request.query_params.get("limit"), "limit", _LINES, MOST_ROWS)
        return json_answer(await run_in_threadpool(_steps, run, metric, limit))

    async def overview(self, request: Request) -> Response:
        """Answer ``{"metric", "models"}``: for a merge the worst value of each op in each step over
        all devices, as pages draw it.
        """
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        return json_answer(await run_in_threadpool(_overview, run))


def _steps(run: Run, metric: str, limit: int) -> Dict[str, Any]:
    with StoreReader(run.path) as store:
        if not store.has_hosts:
            return {"steps": [], "metrics": [], "unstored": []}
        lines, metrics = (
            worst_step_ops(store.query, metric, limit),
            metrics_of_step_ops(store.query),
        )
        left = list(store.counted.unstored().items())[:MOST_ROWS]
    unstored = [
        {
            **place._asdict(),
            "failed": counts.get(FAIL, 0),
            "passed": counts.get(PASS, 0),
            "rows": rows_of(counts),
        }
        for place, counts in left
    ]
    return {"steps": lines, "metrics": metrics, "unstored": unstored}


def _overview(run: Run) -> Dict[str, Any]:
    with StoreReader(run.path) as store:
        worst = worst_outputs(store.query, metrics_of(store)) if store.has_hosts else None
        try:
            return over_devices(worst, store.fact(GRAPHS) or []) or {"metric": None, "models": []}
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(
                "damaged: its networks cannot be read (%s)" % type(error).__name__, store.path
            ) from None
