"""A server that records the documents posted to it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading


class HookServer:
    """Takes documents; ``answers`` are the statuses of its first answers, later ones are 204.

    Attributes
    ----------
    asked
        (path, headers, document) of each POST.
    url
        Of a hook.
    """

    def __init__(self, answers=()):
        self.asked, answers = [], list(answers)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append(
                    (self.path, dict(self.headers), json.loads(body.decode("ascii")))
                )
                self.send_response(answers.pop(0) if answers else 204)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/hooks/a-secret?key=1" % self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def documents(self):
        return [document for _, _, document in self.asked]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def hook_server(answers=()):
    """Yield a server, closed at the end."""
    with contextlib.closing(HookServer(answers)) as server:
        yield server
