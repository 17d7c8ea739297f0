"""The signals that end a watch: the first asks for the end, the second means now."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Callable, Dict, Optional

from ..base.interrupts import postpone_signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The first signal asks for the end, the second one means now.

    A context manager: handlers are set inside and put back afterwards. A second signal raises
    KeyboardInterrupt in the main thread, which no handler of errors takes for one of a file.

    Parameters
    ----------
    on_first
        Called with the name of the first signal.
    on_second
        Called before KeyboardInterrupt is raised.
    """

    def __init__(
        self, on_first: Callable[[str], None], on_second: Optional[Callable[[], None]] = None
    ) -> None:
        self.on_first = on_first
        self.on_second = on_second
        self.name: Optional[str] = None
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        if self.name is None:
            self.name = signal.Signals(number).name
            self.on_first(self.name)
            return
        if postpone_signal(number, frame):
            return
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        if self.on_second is not None:
            self.on_second()
        raise KeyboardInterrupt
