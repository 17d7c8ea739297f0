"""Notifies a URL of a run's result: JSON by POST, with retries, in a background thread."""

from __future__ import annotations

import datetime
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, List, Optional

from .. import __version__
from .errors import UsageError
from .notes import note
from .system import is_loopback

DIVERGENCE, END = "divergence", "end"
TIMEOUT_S = 10.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 60.0
_MOST_TRIES = 20
_MOST_WAITING = 1000
_AGAIN = (408, 425, 429)
_ANSWER_BYTES = 1 << 16


def check_url(url: str) -> None:
    """Raise UsageError if a URL cannot be notified."""
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or not re.match(r"[!-~]+\Z", url) or "@" in parts.netloc or parts.fragment:
        raise UsageError(
            "expected a URL of http or https to notify",
            hint="such as https://chat.example.org/hooks/KEY",
        )


def notification(event: str, name: str, command: str, text: str, **more: Any) -> Dict[str, Any]:
    """Return a document of schemas/notification.schema.json.

    Parameters
    ----------
    name
        Identifies the run in all its notifications.
    text
        One sentence for people.
    more
        Other fields: ``out``, ``job``, ``run``, ``url``, ``verdict``, ``exit_code``, ``row``,
        ``summary``; what is not given is null.
    """
    document: Dict[str, Any] = {
        "id": "%s-%s" % (name, event),
        "event": event,
        "time": datetime.datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "goldwatch": __version__,
        "host": socket.gethostname(),
        "command": command,
        "text": text,
    }
    fields = ("out", "job", "run", "url", "verdict", "exit_code", "row", "summary")
    return {**document, **{field: more.get(field) for field in fields}}


class _Waiting:
    """A document that has not been delivered yet."""

    def __init__(self, document: Dict[str, Any], done: Callable[[], None]) -> None:
        self.document = document
        self.done = done
        self.tries = 0
        self.due = 0.0
        self.problem = "it was not asked yet"


class Notifier:
    """Posts documents to a URL.

    Failures (no answer, 5xx, 408, 425, 429) are retried after 1, 2, 4 … seconds, at most 60, twenty
    times in all.

    Parameters
    ----------
    url
        Checked by :func:`check_url`; it may be a secret, so that only its host is ever shown.
    say
        Called with a sentence if a document could not be delivered.
    """

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        self._url = url
        parts = urllib.parse.urlsplit(url)
        self.shown = "%s://%s" % (parts.scheme, parts.netloc)
        self._say = say
        self._changed = threading.Condition()
        self._waiting: List[_Waiting] = []
        self._ending = False
        self._thread: Optional[threading.Thread] = None
        handlers: List[Any] = [
            _NoRedirect,
            urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        ]
        if is_loopback(str(parts.hostname)):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def send(self, document: Dict[str, Any], done: Callable[[], None] = lambda: None) -> None:
        """Queue a document; ``done`` is called in another thread after it is delivered or given
        up."""
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self._give_up(self._waiting.pop(0))
            self._waiting.append(_Waiting(document, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, patience_s: float = TIMEOUT_S) -> None:
        """Wait at most this long for queued documents, and report those that were not delivered."""
        end = time.monotonic() + patience_s
        with self._changed:
            self._ending = True
            for waiting in self._waiting:
                waiting.due = 0.0
            self._changed.notify_all()
            while self._waiting and time.monotonic() < end:
                self._changed.wait(max(0.0, end - time.monotonic()))
            left, self._waiting = self._waiting, []
            self._changed.notify_all()
        for waiting in left:
            self._give_up(waiting)

    def _work(self) -> None:
        while True:
            with self._changed:
                waiting = min(self._waiting, key=lambda one: one.due) if self._waiting else None
                if waiting is None and self._ending:
                    return
                if waiting is None or waiting.due > time.monotonic():
                    self._changed.wait(None if waiting is None else waiting.due - time.monotonic())
                    continue
            problem, again = self._post(waiting.document)
            waiting.problem = problem
            waiting.tries += 1
            with self._changed:
                if waiting not in self._waiting:
                    continue
                if problem and again and waiting.tries < _MOST_TRIES:
                    waiting.due = time.monotonic() + min(
                        _LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (waiting.tries - 1)
                    )
                    continue
                self._waiting.remove(waiting)
                self._changed.notify_all()
            if problem:
                self._give_up(waiting)
            else:
                waiting.done()

    def _give_up(self, waiting: _Waiting) -> None:
        what = "the first divergence" if waiting.document["event"] == DIVERGENCE else "the end"
        about = " of job %s" % waiting.document["job"] if waiting.document["job"] else ""
        self._say(note("not-notified", self.shown, what, about, waiting.problem))
        waiting.done()

    def _post(self, document: Dict[str, Any]) -> "tuple[str, bool]":
        """Return why a document was not accepted (empty if it was), and whether to retry."""
        data = json.dumps(document, ensure_ascii=True, allow_nan=False).encode("ascii")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "goldwatch/" + __version__,
            "Connection": "close",
        }
        try:
            with self._opener.open(
                urllib.request.Request(self._url, data, headers), timeout=TIMEOUT_S
            ) as answer:
                answer.read(_ANSWER_BYTES)
            return "", False
        except urllib.error.HTTPError as error:
            with error:
                return "it answers %d" % error.code, error.code >= 500 or error.code in _AGAIN
        except (OSError, http.client.HTTPException, ValueError) as error:
            return "it does not answer: %s" % (getattr(error, "reason", None) or error), True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Documents go to the named server only."""

    def redirect_request(self, *_: Any) -> None:
        return None
