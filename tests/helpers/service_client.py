"""A server process and its client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys

TOKEN = "a-token-of-the-tests-0123456789"


class Server:
    """``goldwatch serve`` as a process; what it prints goes to files."""

    def __init__(self, folder, roots, until, *options, token=TOKEN, port=0):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.token, self.until = token, until
        self.socket = next(
            (option.partition("=")[2] for option in options if option.startswith("--socket=")), None
        )
        where = [] if self.socket else ["--listen", "127.0.0.1:%d" % port]
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            "serve",
            *map(str, roots),
            *where,
            *map(str, options),
        ]
        if token is not None:
            path = os.path.join(self.folder, "token")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as stream:
                stream.write(token + "\n")
            words += ["--token-file", path]
        self.out = os.path.join(self.folder, "out.txt")
        self.err = os.path.join(self.folder, "err.txt")
        with open(self.out, "w") as out, open(self.err, "a") as err:
            self.process = subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        until(lambda: self.read(self.out) or self.process.poll() is not None)
        found = re.search(r"(https?)://(?:.*:(\d+)\s)?", self.read(self.out))
        assert found, self.read(self.err)
        self.scheme, self.port = found.group(1), None if self.socket else int(found.group(2))
        self.url = "%s://127.0.0.1:%s" % (self.scheme, self.port)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as stream:
            return stream.read()

    def connect(self):
        """Return a connection whose socket is open."""
        connection = http.client.HTTPConnection(
            "127.0.0.1" if self.port else "localhost", self.port, timeout=60
        )
        if self.socket:
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(60)
            connection.sock.connect(self.socket)
        return connection

    def ask(self, path, method="GET", body=None, headers=None, token=True):
        """Return (status, headers, body) of one request."""
        connection = self.connect()
        try:
            sent = {"Authorization": "Bearer " + self.token} if token and self.token else {}
            sent.update(headers or {})
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, path, status=200, **given):
        found, _, body = self.ask(path, **given)
        assert found == status, (found, body)
        return json.loads(body)

    def runs(self):
        return self.json("/api/v1/runs")["runs"]

    def raw(self, data):
        """Send bytes; return all that comes until the server closes, which it may do before it has
        read all of them.
        """
        received = []
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
            with contextlib.suppress(ConnectionError):
                received.extend(iter(lambda: connection.recv(65536), b""))
        return b"".join(received)

    def stream(self, run, after=None, last=None):
        return Stream(self, run, after, last)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


class Stream:
    """Server-sent events of a run, read as a browser reads them."""

    def __init__(self, server, run, after=None, last=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Authorization": "Bearer " + server.token} if server.token else {}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request(
            "GET",
            "/api/v1/runs/%s/events%s" % (run, "" if after is None else "?after=%s" % after),
            headers=headers,
        )
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def __iter__(self):
        """Yield (kind, id or None, data) of each event until the stream ends."""
        kind, number, data = "message", None, []
        beats = 0
        while True:
            try:
                line = self.answer.readline()
            except (OSError, http.client.HTTPException):
                return
            if not line:
                return
            text = line.decode("utf-8").rstrip("\n")
            name, _, value = text.partition(":")
            # A test that waits for what never comes fails.
            beats = beats + 1 if text.startswith(":") else 0 if text else beats
            assert beats < 4, "nothing but beats"
            value = value[1:] if value.startswith(" ") else value
            if not text:
                if data:
                    yield kind, number, json.loads("\n".join(data))
                kind, number, data = "message", None, []
            elif name == "event":
                kind = value
            elif name == "id":
                number = int(value)
            elif name == "data":
                data.append(value)

    def close(self):
        self.answer.close()
        self.connection.close()


@contextlib.contextmanager
def closing_all(things):
    try:
        yield things
    finally:
        for thing in things:
            thing.end(signal.SIGKILL)


COMPARE = {
    "command": "compare",
    "args": ["dump", "net/golden"],
    "options": {"model": "net/model.json", "out": "out"},
}
WATCH = {
    "command": "watch",
    "args": ["dump", "net/golden"],
    "options": {"model": "net/model.json", "out": "watched"},
}


def post_job(server, document, status=202):
    return server.json("/api/v1/runs", status, method="POST", body=document)


def wait_for_end(server, job, until):
    def look():
        found = server.json("/api/v1/jobs/" + job["id"])
        return found if found["state"] not in ("queued", "running") else None

    return until(look)


def wait_until_running(server, job, until):
    return until(lambda: server.json("/api/v1/jobs/" + job["id"])["state"] == "running")
