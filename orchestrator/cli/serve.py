"""``goldwatch serve``."""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import Any, Optional, Tuple

import click

from ..errors import EnvironmentProblem, UsageError
from ..notifying import check_url
from .common import put, say_note, verbosity_options
from .report_options import closer_commands

STATE_FOLDER = ".goldwatch-serve"


@click.command()
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@click.option(
    "--listen",
    default="127.0.0.1:8470",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to listen; port 0 takes a free one.",
)
@click.option(
    "--socket",
    "socket_path",
    metavar="PATH",
    help="Listen at a Unix socket instead, which its owner and group may use.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="Holds one token, or lines NAME ROLE TOKEN, ROLE view or submit; read again when it "
    "changes.",
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain in PEM: speak https.")
@click.option("--tls-key", metavar="FILE", help="Its key.  [default: in the same file]")
@click.option(
    "--public-url",
    metavar="URL",
    help="What browsers know the service by where a proxy speaks TLS for it, such as "
    "https://host/goldwatch.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy whose X-Forwarded-For is believed, or unix; may be "
    "repeated.",
)
@click.option(
    "--notify",
    metavar="URL",
    help="POST the first final divergence and the end of each job there, as JSON.",
)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    metavar="N",
    help="Jobs that run at a time.",
)
@click.option(
    "--state",
    metavar="DIR",
    help="Where the queue of jobs is kept.  [default: .goldwatch-serve in the first ROOT]",
)
@click.option("--read-only", is_flag=True, help="Take no jobs.")
@functools.partial(verbosity_options, serving=True)
def serve(  # noqa: C901, PLR0915
    roots: Tuple[str, ...],
    listen: str,
    token_file: Optional[str],
    tls_cert: Optional[str],
    tls_key: Optional[str],
    socket_path: Optional[str],
    public_url: Optional[str],
    trusted_proxies: Tuple[str, ...],
    notify: Optional[str],
    jobs: int,
    state: Optional[str],
    read_only: bool,
    **given: Any,
) -> int:
    """Serve the runs below ROOT as pages and an API, live ones included.

    Ends with 0 at Ctrl-C or SIGTERM. Anything but a loopback address or a Unix socket needs a token
    and either TLS or --public-url.

    Example: goldwatch serve /lab/runs --token-file token
    """
    require_serving()
    from ..service.access import (
        UNIX,
        Access,
        check_exposure,
        parse_address,
        parse_proxies,
        parse_public_url,
    )
    from ..service.application import make_service
    from ..service.job_runner import JobRunner
    from ..service.queue import Queue
    from ..service.roots import Roots
    from ..service.runs import Runs
    from ..service.server import listen as listen_at
    from ..service.server import listen_at_socket, tls_context, unlinked_at_the_end
    from ..service.server import serve as serve_until_told
    from ..service.telling import Teller
    from ..service.tokens import Tokens

    if tls_key and not tls_cert:
        raise UsageError("--tls-key is of a certificate: it needs --tls-cert")
    if (
        socket_path
        and click.get_current_context().get_parameter_source("listen")
        is click.core.ParameterSource.COMMANDLINE
    ):
        raise UsageError("--socket and --listen: give one of them")
    if socket_path and tls_cert:
        raise UsageError(
            "--tls-cert goes with --listen: what comes by a Unix socket crosses no network"
        )
    if notify is not None:
        check_url(notify)
        if token_file is None or read_only:
            raise UsageError(
                "--notify tells of jobs: it needs --token-file, and does not go with --read-only"
            )
    parse_proxies(trusted_proxies)
    if UNIX in trusted_proxies and not socket_path:
        raise UsageError(
            "--trusted-proxy unix goes with --socket", hint="name the address of the proxy"
        )
    address = None if socket_path else parse_address(listen)
    tokens = None if token_file is None else Tokens(token_file)
    if public_url is not None:
        parse_public_url(public_url)
    check_exposure(address, tokens is not None, tls_cert is not None, public_url is not None)
    for warning in tokens.warnings if tokens is not None else ():
        say_note(warning, given["quiet"])
    if public_url is not None and not trusted_proxies:
        note = (
            "note: all clients look like the proxy, in the log and where wrong tokens are "
            "counted: --trusted-proxy %s"
        )
        say_note(note % ("unix" if socket_path else "ADDRESS"), given["quiet"])
    folder = os.path.join(roots[0], STATE_FOLDER) if state is None else state
    served = Roots(roots, folder)
    tls = None if tls_cert is None else tls_context(tls_cert, tls_key)
    listener = listen_at(address) if address is not None else listen_at_socket(str(socket_path))
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    if address is not None:
        address = address._replace(port=listener.getsockname()[1])
    access = Access(address, tokens, tls is not None, public_url, trusted_proxies)

    def ready() -> None:
        where = socket_path if address is None else address.shown
        put(
            "goldwatch serves %s%s"
            % (access.url, " at %s" % where if public_url or socket_path else "")
        )
        sys.stdout.flush()

    if tokens is not None:
        tokens.start()
    # Without a token nobody may send jobs.
    if tokens is None or read_only:
        with unlinked_at_the_end(socket_path):
            serve_until_told(
                make_service(served, access, None, read_only, closer_commands), listener, tls, ready
            )
        return 0
    queue = Queue(folder)
    foreman = JobRunner(queue, served, jobs, notify is not None)
    teller = None if notify is None else Teller(notify, queue, Runs(served), access.url)
    try:
        foreman.start()
        if teller is not None:
            teller.start()
        with unlinked_at_the_end(socket_path):
            serve_until_told(
                make_service(served, access, foreman, commands=closer_commands),
                listener,
                tls,
                ready,
            )
    finally:
        if teller is not None:
            teller.stop()
        foreman.stop()
        queue.close()
    return 0


def require_serving() -> None:
    """Raise EnvironmentProblem where the service's packages do not exist or are not installed."""
    if sys.version_info < (3, 9):
        raise EnvironmentProblem(
            "goldwatch serve needs Python 3.9 or newer, this is %d.%d: goldwatch report "
            "writes the pages of single runs as files" % sys.version_info[:2]
        )
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            "goldwatch serve needs Starlette and uvicorn: %s" % error,
            hint="pip install 'goldwatch[serve]'",
        ) from None
