"""Requests to the scheduler and the workers with a time limit, for the case that none answers any
more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Sequence

from ..base.errors import EnvironmentProblem
from ..base.wording import listed

PATIENCE_S = 20
CLOSING_S = 2
"""So long those who are told that a run ends before its time may take to take note, in seconds."""
SILENCE_S = 60
"""A scheduler that says nothing for so long answers no more; in seconds."""
_PROBE_S = 5
_SHOWN = 4

GONE = (OSError, asyncio.TimeoutError, asyncio.CancelledError)
"""What Dask raises where a scheduler or a worker has gone; and what other files and sockets
raise.
"""


def ask(client: Any, question: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Return what the scheduler answers to a method of the client; Dask would wait for ever.

    Raises
    ------
    ConnectionError
        It says nothing for :data:`SILENCE_S`, or has gone.
    """
    try:
        return client.sync(question, *args, callback_timeout=SILENCE_S, **named)
    except (asyncio.TimeoutError, TimeoutError):
        raise ConnectionError("the Dask scheduler has said nothing for %d s" % SILENCE_S) from None


def threads_of(client: Any) -> Dict[str, int]:
    """Return the workers that are there, with their threads; errors as those of :func:`ask`."""
    return dict(ask(client, client.nthreads))


def run_each(
    client: Any, workers: Sequence[str], function: Callable[..., Any], *args: Any
) -> Dict[str, Any]:
    """Return what a function returns on each of some workers, or the exception in its place; each
    is asked by itself, all at once.

    Parameters
    ----------
    client
        ``distributed.Client``.

    Raises
    ------
    ConnectionError
        The scheduler has gone.
    EnvironmentProblem
        Some have not answered for :data:`PATIENCE_S`: they hang, or their machines do.
    """
    answered: Dict[str, Any] = client.sync(_answers, client, workers, function, args)
    silent = [worker for worker in workers if worker not in answered]
    if silent:
        require_scheduler(client)
        raise EnvironmentProblem(
            "no answer for %d s from worker %s" % (PATIENCE_S, listed(silent, _SHOWN)),
            hint="end what hangs, or start it anew, then give the same command again",
        )
    if any(isinstance(answer, OSError) for answer in answered.values()):
        require_scheduler(client)
    return answered


async def _answers(
    client: Any, workers: Sequence[str], function: Callable[..., Any], args: Sequence[Any]
) -> Dict[str, Any]:
    async def question(worker: str) -> Any:
        return (await client.run(function, *args, workers=[worker]))[worker]

    tasks = {worker: asyncio.ensure_future(question(worker)) for worker in workers}
    if tasks:
        await asyncio.wait(list(tasks.values()), timeout=PATIENCE_S)
    answered = {
        worker: task.exception() or task.result() for worker, task in tasks.items() if task.done()
    }
    for task in tasks.values():
        task.cancel()
    return answered


def require_scheduler(client: Any) -> None:
    """Raise ConnectionError where the scheduler does not answer any more."""
    if not is_there(client):
        raise ConnectionError("the Dask scheduler has gone")


def is_there(client: Any) -> bool:
    """Return whether the scheduler still answers."""
    if client.status != "running":
        return False
    try:
        client.sync(client.nthreads, callback_timeout=_PROBE_S)
    except GONE:
        return False
    return True
