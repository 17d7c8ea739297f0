"""The event stream of a run: every row once, in the order of their ids, resumed where a client lost
the connection.
"""

from __future__ import annotations

import logging
from typing import AsyncIterator, Optional

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..base.errors import GoldwatchError
from .access import Access
from .answers import Problem, number_of
from .runs import Run, Runs
from .shared_run_tail import Tail, Tails, event
from .tokens import Token

log = logging.getLogger("goldwatch.service")

MOST_STREAMS = 300
_BEAT_S = 10.0
_RETRY = b"retry: 1000\n\n"


class EventRoutes:
    """Serves event streams."""

    def __init__(self, runs: Runs, tails: Tails, access: Access) -> None:
        self.access = access
        self.runs = runs
        self.tails = tails
        self._streams = 0

    async def events(self, request: Request) -> Response:
        """Answer a stream that ends with the run."""
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        if self._streams >= MOST_STREAMS:
            raise Problem(
                429,
                "%d pages look on already" % MOST_STREAMS,
                "close some",
                headers={"Retry-After": "10"},
            )
        after = number_of(request.query_params.get("after"), "after", 0)
        # An invalid id is accepted: a browser resends it by itself, and gives up after a 400.
        last_event_id = request.headers.get("last-event-id", str(after))
        void = number_of(request.query_params.get("void"), "void", 0)
        # No charset: none is needed; X-Accel-Buffering switches off nginx's buffering.
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._counted(run, last_event_id.strip(), void, request.user), headers=headers
        )

    async def _counted(
        self, run: Run, last_event_id: str, void: int, token: Optional[Token]
    ) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield _RETRY
            async with self.tails.looking(run) as tail:
                async for piece in self._pieces(tail, last_event_id, void):
                    if not self.access.holds(token):
                        # It was taken out of the file: who looks on asks again, and is asked for
                        # one.
                        return
                    yield piece
        except GoldwatchError as error:
            # The store cannot be read any more: the client reconnects.
            log.warning("%s: %s", run.id, error.message)
        finally:
            self._streams -= 1

    async def _pieces(self, tail: Tail, last_event_id: str, void: int) -> AsyncIterator[bytes]:
        known = (
            last_event_id.isascii()
            and last_event_id.isdigit()
            and len(last_event_id) < 19
            and tail.knows(int(last_event_id), void)
        )
        if not known:
            yield event("reset", b'{"void": %d}' % tail.void)
        at, generation = int(last_event_id) if known else 0, tail.generation
        progress: Optional[bytes] = None
        divergence: Optional[bytes] = None
        provisional: Optional[bytes] = None
        while not self.tails.stopping:
            # In this order: rows that were read before the end are sent before it.
            ended, over, version = tail.ended, tail.over, tail.version
            if generation != tail.generation:
                at, generation, progress, divergence, provisional = (
                    0,
                    tail.generation,
                    None,
                    None,
                    None,
                )
                yield event("reset", b'{"void": %d}' % tail.void)
            if at < tail.last_id:
                batch = tail.behind(at) or await tail.page(at)
                if generation == tail.generation:
                    at = batch.last
                    if batch.data:
                        yield batch.data
                continue
            if tail.provisional != provisional:
                provisional = tail.provisional
                yield event("provisional", provisional or b"{}")
            if tail.divergence != divergence:
                divergence = tail.divergence
                yield event("divergence", divergence or b'{"op": null}')
            if tail.progress is not None and tail.progress != progress:
                progress = tail.progress
                yield event("progress", progress)
            if ended:
                yield event("end")
            if ended or over:
                return
            if not await tail.news(version, _BEAT_S):
                yield b": beat\n\n"
