"""What is asked of a host's disk, in a thread of its own: one that does not answer holds up who
asks for a while, and nobody for ever.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, List, Optional, Tuple, TypeVar

PATIENCE_S = 30.0
T = TypeVar("T")


class NoAnswer(Exception):
    """The disk does not answer; it may later."""


class DiskReader:
    """Asks one disk, one question at a time. An answer that comes too late is forgotten, and the
    next question is given twice the time.
    """

    def __init__(self) -> None:
        self._patience_s = PATIENCE_S
        self._questions: queue.Queue[Optional[Tuple[Callable[[], Any], _Answer]]] = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self._late: Optional[_Answer] = None

    @property
    def waits(self) -> bool:
        """Whether a question has not been answered yet."""
        if self._late is not None and self._late.came.is_set():
            self._late = None
            self._patience_s *= 2
        return self._late is not None

    def ask(self, question: Callable[[], T]) -> T:
        """Return the answer, or raise what the question raises.

        Raises
        ------
        NoAnswer
            There was none in time, or there is none yet to an earlier question.
        """
        if self.waits:
            raise NoAnswer
        if self._thread is None:
            self._thread = threading.Thread(
                target=_answer_all, args=(self._questions,), daemon=True
            )
            self._thread.start()
        answer = _Answer()
        self._questions.put((question, answer))
        if not answer.came.wait(self._patience_s):
            self._late = answer
            raise NoAnswer
        if answer.error is not None:
            raise answer.error
        value: T = answer.values[0]
        return value

    def close(self) -> None:
        """Let the thread end once it has answered."""
        self._questions.put(None)


class _Answer:
    def __init__(self) -> None:
        self.came = threading.Event()
        self.values: List[Any] = []
        self.error: Optional[BaseException] = None


def _answer_all(questions: queue.Queue[Optional[Tuple[Callable[[], Any], _Answer]]]) -> None:
    while True:
        item = questions.get()
        if item is None:
            return
        question, answer = item
        try:
            answer.values.append(question())
        except BaseException as error:  # noqa: BLE001  who asked is told
            answer.error = error
        answer.came.set()
