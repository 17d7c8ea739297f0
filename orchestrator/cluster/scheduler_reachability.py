"""A first word with a scheduler, and in one sentence why there was none."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import socket
import ssl
from typing import Any, Tuple

from ..base.errors import EnvironmentProblem
from .address import ClusterAddress

TIMEOUT_S = 20
"""So long a scheduler may take to say its first word, in seconds."""


def require_answer(address: ClusterAddress, security: Any) -> None:
    """Return when somebody speaks as a scheduler does; Dask itself would wait for ever for one that
    accepts and is silent.

    Parameters
    ----------
    security
        ``distributed.security.Security``; None for tcp.

    Raises
    ------
    EnvironmentProblem
        Nobody does within :data:`TIMEOUT_S`.
    """
    try:
        asyncio.run(asyncio.wait_for(_reach(address, security), TIMEOUT_S + 1))
    except Exception as error:
        raise no_answer(address, error) from None


async def _reach(address: ClusterAddress, security: Any) -> None:
    host, _, port = str(address.url).split("://")[1].rpartition(":")
    # Dask reports an unknown host name like a machine that does not answer.
    await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port))
    secrets = {} if security is None else security.get_connection_args("client")
    if security is not None:
        await _encrypt(str(address.url), secrets["ssl_context"])
    comm = await importlib.import_module("distributed.comm").connect(
        address.url, timeout=TIMEOUT_S, **secrets
    )
    await comm.close()


async def _encrypt(url: str, context: ssl.SSLContext) -> None:
    """Raise what is wrong with the encryption, of which Dask tells now this and now that."""
    host, _, port = url.split("://")[1].rpartition(":")
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        # Whether somebody comes soon is seen by Dask.
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        try:
            # By TLS 1.3 a refusal of our certificate comes after our side of the handshake; a
            # scheduler's first word comes unasked.
            await reader.read(1)
        finally:
            writer.close()


def no_answer(address: ClusterAddress, error: BaseException) -> EnvironmentProblem:
    """Return the error for an address where no scheduler answers."""
    reason, hint = _reason(address, error)
    return EnvironmentProblem(
        "%s: no Dask scheduler answers there: %s" % (address.shown, reason), hint=hint
    )


def _reason(address: ClusterAddress, error: BaseException) -> Tuple[str, str]:
    text = first_line(error)
    if isinstance(error, socket.gaierror):
        known = error.errno == socket.EAI_NONAME
        unsure = "" if known else ", or the service for names does not answer"
        return "there is no such name%s (%s)" % (unsure, error.strerror), "is this its address?"
    if isinstance(error, asyncio.TimeoutError) or "during handshake" in text:
        hint = "is it another program's port, does it speak tls://, or does it hang?"
        return "something accepts connections and says nothing for %d s" % TIMEOUT_S, hint
    if isinstance(error, ssl.SSLError) and error.reason == "CERTIFICATE_VERIFY_FAILED":
        return (
            "its certificate is not of the authority that we were told (%s)" % text,
            "give the file of the authority that has signed it",
        )
    alert = re.search(r"ALERT_\w+|\w+_ALERT\w*", text)
    if alert:
        return (
            "it does not accept our certificate (%s)" % alert.group(),
            "it must be of an authority that is known there, and valid",
        )
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS (%s)" % text, "one without encryption is named tcp://…"
    closed = re.match(r"in <.*>: (.*)", text)
    if closed is None:
        return text, "is it running, and is this its address?"
    if address.encrypted:
        return "it closes the connection (%s)" % closed.group(
            1
        ), "does it know the authority of our certificate?"
    hint = (
        "one with certificates is named tls://…; another version of Dask answers like none: this "
        "is %s"
    )
    return "it closes the connection (%s)" % closed.group(1), hint % importlib.import_module(
        "distributed"
    ).__version__


def first_line(error: BaseException) -> str:
    """Return an error's text for a message."""
    return (str(error) or type(error).__name__).split("\n")[0]
