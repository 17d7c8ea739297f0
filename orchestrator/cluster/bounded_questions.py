"""Requests to the scheduler and the workers with a time limit, for the case that none answers any
more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, Sequence

from ..errors import EnvironmentProblem
from ..text.wording import listed

PATIENCE_S = 20
CLOSING_S = 2
"""So long those who are told that a run ends before its time may take to take note, in seconds."""
SILENCE_S = 60
"""A scheduler that says nothing for so long, whatever it is asked, answers no more; in seconds."""
_PROBE_S = 5
_SHOWN = 4

GONE = (OSError, asyncio.TimeoutError, asyncio.CancelledError)
"""What Dask raises where a scheduler or a worker has gone; and what other files and sockets
raise.
"""


def ping_while_waiting(client: Any) -> None:
    """Have every question of a client raise ConnectionError where the scheduler says nothing for
    :data:`SILENCE_S`; Dask waits for ever.

    What takes longer is waited for as long as the scheduler answers others meanwhile.
    """
    ask = client.sync

    async def heeding(question: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        task = asyncio.ensure_future(question(*args, **named))
        try:
            while not (await asyncio.wait([task], timeout=SILENCE_S / 2))[0]:
                try:
                    await asyncio.wait_for(client.scheduler.identity(), SILENCE_S / 2)
                except asyncio.TimeoutError:
                    raise ConnectionError(
                        "the Dask scheduler has said nothing for %d s" % SILENCE_S
                    ) from None
            return task.result()
        finally:
            task.cancel()

    def sync(question: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        return ask(heeding, question, *args, **named)

    client.sync = sync


def answers(
    client: Any,
    workers: Sequence[str],
    question: Callable[[str], Awaitable[Any]],
    patience_s: float = 0,
) -> Dict[str, Any]:
    """Return what each of some workers answers, or the exception in its place; each is asked by
    itself, all at once.

    Parameters
    ----------
    client
        ``distributed.Client``.
    question
        Asks the worker of an address; awaited in the client's own loop.
    patience_s
        How long they may take, in seconds; 0: :data:`PATIENCE_S`.

    Raises
    ------
    ConnectionError
        The scheduler has gone.
    EnvironmentProblem
        Some have not answered in time: they hang, or their machines do.
    """
    patience_s = patience_s or PATIENCE_S
    answered: Dict[str, Any] = client.sync(_answers, workers, question, patience_s)
    silent = [worker for worker in workers if worker not in answered]
    if silent:
        require_scheduler(client)
        raise EnvironmentProblem(
            "no answer for %d s from worker %s" % (patience_s, listed(silent, _SHOWN)),
            hint="end what hangs, or start it anew, then give the same command again",
        )
    if any(isinstance(answer, OSError) for answer in answered.values()):
        require_scheduler(client)
    return answered


async def _answers(
    workers: Sequence[str], question: Callable[[str], Awaitable[Any]], patience_s: float
) -> Dict[str, Any]:
    tasks = {worker: asyncio.ensure_future(question(worker)) for worker in workers}
    if tasks:
        await asyncio.wait(list(tasks.values()), timeout=patience_s)
    answered = {
        worker: task.exception() or task.result() for worker, task in tasks.items() if task.done()
    }
    for task in tasks.values():
        task.cancel()
    return answered


def run_on(
    client: Any,
    workers: Sequence[str],
    function: Callable[..., Any],
    *args: Any,
    patience_s: float = 0,
) -> Dict[str, Any]:
    """Return what a function returns on each worker, as ``Client.run`` does; errors as those of
    :func:`answers`, or the function's.
    """

    async def question(worker: str) -> Any:
        return (await client._run(function, *args, workers=[worker]))[worker]

    results = answers(client, workers, question, patience_s)
    for answer in results.values():
        if isinstance(answer, Exception):
            raise answer
    return results


def require_scheduler(client: Any) -> None:
    """Raise ConnectionError where the scheduler does not answer any more."""
    if not is_there(client):
        raise ConnectionError("the Dask scheduler has gone")


def is_there(client: Any) -> bool:
    """Return whether the scheduler still answers."""
    if client.status != "running":
        return False
    try:
        client.sync(client.scheduler.identity, callback_timeout=_PROBE_S)
    except GONE:
        return False
    return True
