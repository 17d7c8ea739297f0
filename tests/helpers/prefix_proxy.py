"""A reverse proxy that serves what lies below a path, and names the client in a header."""

from __future__ import annotations

import contextlib
import re
import socket
import threading


class PrefixProxy:
    """Hands on requests below ``prefix`` to a server, one a connection, as they come.

    Parameters
    ----------
    strips
        Whether the prefix is taken away on the way.

    Attributes
    ----------
    port
        Where it listens.
    server
        (family, address) of the server; set once that is known.
    paths
        What was asked for here; others than those below the prefix get 502.
    """

    def __init__(self, prefix, strips):
        self.prefix, self.strips = prefix, strips
        self.server = None
        self.paths = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.url = "http://localhost:%d%s" % (self.port, prefix)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        # A plain close leaves a thread in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._hand_on, args=(client,), daemon=True).start()

    def _hand_on(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    return
                head += data
            head, _, rest = head.partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            method, path, version = line.split(" ")
            self.paths.append(path)
            if not re.match(re.escape(self.prefix) + r"(?:[/?]|\Z)", path):
                client.sendall(
                    b"HTTP/1.1 502 not ours\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                return
            path = (path[len(self.prefix) :] or "/") if self.strips else path
            fields = [field for field in fields if not field.lower().startswith("connection:")]
            fields += ["X-Forwarded-For: %s" % client.getpeername()[0], "Connection: close"]
            family, address = self.server
            with socket.socket(family, socket.SOCK_STREAM) as server:
                server.connect(address)
                server.sendall(
                    (
                        "%s %s %s\r\n%s\r\n\r\n" % (method, path, version, "\r\n".join(fields))
                    ).encode("latin-1")
                    + rest
                )
                back = threading.Thread(target=_pump, args=(client, server), daemon=True)
                back.start()
                _pump(server, client)


def _pump(source, target):
    with contextlib.suppress(OSError):
        while True:
            data = source.recv(65536)
            if not data:
                break
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
