"""The routes of runs: the list and its order, one run, its rows, its networks, and the metrics of a
merge over all devices, of which it stores few rows.

What is no coroutine here, Starlette calls in a thread: it reads stores.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

from starlette.requests import Request
from starlette.responses import Response

from ..base.errors import FormatError, GoldwatchError
from ..metrics.row import FAIL, METRICS, PASS
from ..reports.pages.report_graph import report_graphs
from ..reports.pages.worst_by_op_and_step import over_devices
from ..reports.row_json import row_text
from ..run.comparison_options import ComparisonOptions
from ..run.run_status import JUDGED, stored_options
from ..run.write_report import Commands
from ..store.json_numbers import plain_tree
from ..store.merged_metrics import metrics_of_step_ops, worst_outputs, worst_step_ops
from ..store.row_counts import rows_of
from ..store.store_reader import Finality, NumberedRow, StoreReader
from ..store.stored_networks import GRAPHS
from .answers import Problem, json_answer, json_text, number_of
from .run_fields import RunStates
from .runs import Runs

MOST_ROWS = 10_000
_ROWS, _RUNS, _MOST_RUNS = 1000, 100, 1000
_LINES = 1000
_KEPT_DRAWINGS = 16
VERDICTS = ("pass", "fail", "incomplete", "none")
_QUERY_CHARACTERS = 200
_EVENTS = 50

Document = Dict[str, Any]

_VERDICTS = {"fail": 0, "incomplete": 1, None: 2, "pass": 3}


def _count(name: str) -> Callable[[Document], Any]:
    return lambda document: len(document[name])


def _text(name: str) -> Callable[[Document], Any]:
    return lambda document: document[name] or ""


SORTS: Mapping[str, Callable[[Document], Any]] = {
    "verdict": lambda document: _VERDICTS.get(document["verdict"], 2),
    "run": _text("path"),
    "model": _text("model"),
    "first": lambda document: (document["first_divergence"] or {}).get("op", ""),
    "devices": _count("devices"),
    "steps": _count("steps"),
    "rows": lambda document: document["rows"],
    "fail": lambda document: document["failed"],
    "progress": lambda document: -1.0 if document["progress"] is None else document["progress"],
    "started": _text("started"),
    "host": _text("host"),
}
"""By what runs can be sorted."""

ORDERS: Tuple[str, ...] = ("asc", "desc")


class RunRoutes:
    """Serves runs."""

    def __init__(self, runs: Runs, run_states: RunStates, commands: Commands) -> None:
        self.runs = runs
        self.run_states = run_states
        self._commands = commands
        # Taken before the mutex of a run's memory (`graphs` asks for its state), never under it.
        self._mutex = threading.Lock()
        self._drawings: "OrderedDict[Tuple[Any, ...], str]" = OrderedDict()

    def list(self, request: Request) -> Response:
        """Answer ``{"runs", "total"}``, newest first: ``total`` is the number of runs that pass the
        filters.
        """
        text, verdict = request.query_params.get("q", ""), request.query_params.get("verdict", "")
        if verdict and verdict not in VERDICTS:
            raise Problem(400, "verdict: expected one of %s" % ", ".join(VERDICTS))
        if len(text) > _QUERY_CHARACTERS:
            raise Problem(400, "q: at most %d characters" % _QUERY_CHARACTERS)
        limit = number_of(request.query_params.get("limit"), "limit", _RUNS, _MOST_RUNS)
        offset = number_of(request.query_params.get("offset"), "offset", 0)
        sort, order = (
            request.query_params.get("sort", ""),
            request.query_params.get("order", ORDERS[0]),
        )
        if sort and sort not in SORTS:
            raise Problem(400, "sort: expected one of %s" % ", ".join(SORTS))
        if order not in ORDERS:
            raise Problem(400, "order: expected one of %s" % ", ".join(ORDERS))
        documents = [document for document in self.documents() if _matches(document, text, verdict)]
        if sort:
            documents.sort(key=SORTS[sort], reverse=order == "desc")
        return json_answer({"runs": documents[offset : offset + limit], "total": len(documents)})

    def documents(self) -> List[Dict[str, Any]]:
        """Return all runs, newest first."""
        runs = self.runs.all()
        self.run_states.forget({run.path for run in runs})
        documents = [self.run_states.document(run) for run in runs]
        return sorted(
            documents,
            key=lambda document: (document["started"] or "", document["path"]),
            reverse=True,
        )

    def one(self, request: Request) -> Response:
        """Answer a run with ``summary`` (null until it has finished) and ``limits``."""
        run = self.runs.find(request.path_params["run"])
        document = self.run_states.document(run)
        limits, events = None, []
        summary = self.run_states.state_of(run).summary
        more: Dict[str, Any] = {"sentence": None, "inputs": {}, "limit_texts": [], "commands": {}}
        with contextlib.suppress(GoldwatchError), StoreReader(run.path) as store:
            events = [
                {"time": time_ns // 10**6, "kind": kind, "op": op, "text": text}
                for time_ns, kind, op, text in store.events(_EVENTS)
            ]
            options = options_of(store)
            limits = plain_tree(options.limits.document())
            more["limit_texts"] = [str(limit) for limit in options.limits.entries]
            more["inputs"] = {
                "target": options.target,
                "golden": options.golden,
                "model": options.model,
            }
            if summary is not None:
                more.update(self._judged(store, options, summary))
        return json_answer(
            {**document, "summary": summary, **more, "limits": limits, "events": events}
        )

    def _judged(
        self, store: StoreReader, options: ComparisonOptions, summary: Dict[str, Any]
    ) -> Dict[str, Any]:
        """Return the last sentence of a finished run, and the commands that look closer at its
        suspects.
        """
        try:
            sentence = (store.fact(JUDGED) or {}).get("sentence")
            return {
                "sentence": None if sentence is None else str(sentence),
                "commands": self._commands(options, summary),
            }
        except (KeyError, TypeError, AttributeError, ValueError):
            # The content of stores is not trusted.
            return {}

    def rows(self, request: Request) -> Response:
        """Answer ``{"rows", "last_id"}``: the rows after an id, in the order of arrival."""
        run = self.runs.find(request.path_params["run"])
        after = number_of(request.query_params.get("after"), "after", 0)
        limit = number_of(request.query_params.get("limit"), "limit", _ROWS, MOST_ROWS)
        with StoreReader(run.path) as store:
            rows, last = store.page(after, limit)
            metrics, finality = metrics_of(store), store.finality()
        texts = [numbered_text(row, metrics, finality) for row in rows]
        return json_text('{"rows": [%s], "last_id": %d}' % (", ".join(texts), last))

    def steps(self, request: Request) -> Response:
        """Answer ``{"steps", "metrics", "unstored"}``: for a merge the value of one metric over all
        devices in each step, the worst first, and the number of rows of each device and step that
        are counted but not stored; of another run nothing.
        """
        run = self.runs.find(request.path_params["run"])
        metric = request.query_params.get("metric", "RelativeEuclideanDistance")[:_QUERY_CHARACTERS]
        limit = number_of(request.query_params.get("limit"), "limit", _LINES, MOST_ROWS)
        with StoreReader(run.path) as store:
            if not store.has_hosts:
                return json_answer({"steps": [], "metrics": [], "unstored": []})
            lines = worst_step_ops(store.query, metric, limit)
            metrics = metrics_of_step_ops(store.query)
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
        return json_answer({"steps": lines, "metrics": metrics, "unstored": unstored})

    def overview(self, request: Request) -> Response:
        """Answer ``{"metric", "models"}``: for a merge the worst value of each op in each step over
        all devices, as pages draw it; of another run nothing.
        """
        run = self.runs.find(request.path_params["run"])
        with StoreReader(run.path) as store:
            worst = worst_outputs(store.query, metrics_of(store)) if store.has_hosts else None
            networks = store.fact(GRAPHS) or []
        with _networks_read(store):
            drawn = over_devices(worst, networks)
        return json_answer(drawn or {"metric": None, "models": []})

    def graphs(self, request: Request) -> Response:
        """Answer ``{"graphs"}``: drawings of the nearest ops without verdicts; that of the first
        suspect first. Each is laid out once.
        """
        run = self.runs.find(request.path_params["run"])
        with self._mutex, StoreReader(run.path) as store:
            summary = self.run_states.state_of(run).summary or {}
            focus = [
                entry["op"]
                for name in ("suspects", "culprits")
                for entry in summary.get(name) or ()
            ]
            first = None if focus else store.first_failing()
            if first is not None:
                focus = [first.op]
            # The networks of a run change once, at its end.
            key = (run.path, store.began_ns(), store.size_of(GRAPHS), tuple(focus))
            if key not in self._drawings:
                networks = store.fact(GRAPHS) or []
                with _networks_read(store):
                    drawn = report_graphs(networks, {}, focus, whole=False)
                    self._drawings[key] = json.dumps({"graphs": drawn}, allow_nan=False)
            self._drawings.move_to_end(key)
            while len(self._drawings) > _KEPT_DRAWINGS:
                self._drawings.popitem(last=False)
            return json_text(self._drawings[key])


@contextlib.contextmanager
def _networks_read(store: StoreReader) -> Iterator[None]:
    """Raise FormatError for what damaged networks raise: the content of stores is not trusted."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            "damaged: its networks cannot be read (%s)" % type(error).__name__, store.path
        ) from None


def options_of(store: StoreReader) -> ComparisonOptions:
    """Return the options of the comparison; raises FormatError where the store does not have
    them.
    """
    return stored_options(os.path.dirname(store.path), store.has_hosts, store.fact)


def metrics_of(store: StoreReader) -> Any:
    """Return the metrics of each row in the run's result.json."""
    try:
        return options_of(store).metrics
    except GoldwatchError:
        return METRICS


def numbered_text(numbered: NumberedRow, metrics: Any, finality: Finality) -> str:
    """Return a row of result.json with its ``id`` and whether it is ``final``, as one line of
    JSON.
    """
    final = "true" if finality.holds(numbered.id, numbered.row.verdict) else "false"
    return '{"id": %d, "final": %s, %s' % (numbered.id, final, row_text(numbered.row, metrics)[1:])


def _matches(document: Dict[str, Any], text: str, verdict: str) -> bool:
    if verdict and (document["verdict"] or "none") != verdict:
        return False
    words = text.lower().split()
    first = (document["first_divergence"] or {}).get("op", "")
    known = " ".join(
        [
            first,
            *(
                str(document[name] or "")
                for name in ("id", "path", "model", "host", "state", "verdict")
            ),
        ]
    ).lower()
    return all(word in known for word in words)
