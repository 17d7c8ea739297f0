"""The route with drawings of a run's networks around its first suspect."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any, Tuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ..errors import FormatError
from ..pages.report_graph import report_graphs
from ..store.store_reader import StoreReader
from ..store.stored_networks import GRAPHS
from .answers import json_text
from .run_fields import RunStates
from .runs import Run, Runs

_KEPT = 16


class GraphRoutes:
    """Serves drawings of networks; each is laid out once."""

    def __init__(self, runs: Runs, run_states: RunStates) -> None:
        self.runs = runs
        self.run_states = run_states
        self._mutex = threading.Lock()
        self._drawings: "OrderedDict[Tuple[Any, ...], str]" = OrderedDict()

    async def graphs(self, request: Request) -> Response:
        """Answer ``{"graphs"}``: drawings of the nearest ops without verdicts; that of the first
        suspect first.
        """
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        return json_text(await run_in_threadpool(self._graphs, run))

    def _graphs(self, run: Run) -> str:
        with self._mutex, StoreReader(run.path) as store:
            focus = self._focus(run, store)
            # The networks of a run change once, at its end.
            key = (run.path, store.began_ns(), store.size_of(GRAPHS), focus)
            if key not in self._drawings:
                self._drawings[key] = _drawn(store, focus)
            self._drawings.move_to_end(key)
            while len(self._drawings) > _KEPT:
                self._drawings.popitem(last=False)
            return self._drawings[key]

    def _focus(self, run: Run, store: StoreReader) -> Tuple[str, ...]:
        summary = self.run_states.state_of(run).summary or {}
        names = [
            entry["op"] for name in ("suspects", "culprits") for entry in summary.get(name) or ()
        ]
        first = None if names else store.first_failing()
        return tuple(names if first is None else [first.op])


def _drawn(store: StoreReader, focus: Tuple[str, ...]) -> str:
    try:
        return json.dumps(
            {"graphs": report_graphs(store.fact(GRAPHS) or [], {}, focus, whole=False)},
            ensure_ascii=True,
            allow_nan=False,
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            "damaged: its networks cannot be read (%s)" % type(error).__name__, store.path
        ) from None
