"""``goldwatch serve``."""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import Any, Optional, Tuple

import click

from ..errors import EnvironmentProblem, UsageError
from .common import put, say_note, verbosity_options
from .report_options import closer_commands

STATE_FOLDER = ".goldwatch-serve"


@click.command()
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@click.option(
    "--listen", default="127.0.0.1:8470", show_default=True, metavar="ADDRESS:PORT", help="Where to listen; port 0 takes a free one."
)
@click.option("--token-file", metavar="FILE", help="Holds the token that clients must give.")
@click.option("--tls-cert", metavar="FILE", help="Certificate chain in PEM: speak https.")
@click.option("--tls-key", metavar="FILE", help="Its key.  [default: in the same file]")
@click.option("--behind-proxy", is_flag=True, help="A proxy that speaks TLS stands before the service.")
@click.option("--public-url", metavar="URL", help="What the proxy is called, such as https://goldwatch.example.org.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), metavar="N", help="Jobs that run at a time.")
@click.option("--state", metavar="DIR", help="Where the queue of jobs is kept.  [default: .goldwatch-serve in the first ROOT]")
@click.option("--read-only", is_flag=True, help="Take no jobs.")
@functools.partial(verbosity_options, least=1)
def serve(
    roots: Tuple[str, ...],
    listen: str,
    token_file: Optional[str],
    tls_cert: Optional[str],
    tls_key: Optional[str],
    behind_proxy: bool,
    public_url: Optional[str],
    jobs: int,
    state: Optional[str],
    read_only: bool,
    **given: Any,
) -> int:
    """Serve the runs below ROOT as pages and an API, live ones included.

    Ends with 0 at Ctrl-C or SIGTERM. Anything but a loopback address needs a token and either TLS or --behind-proxy.

    Example: goldwatch serve /lab/runs --token-file token
    """
    require_serving()
    from ..service.access import Access, check_exposure, parse_address, read_token, token_warnings
    from ..service.application import make_service
    from ..service.foreman import Foreman
    from ..service.queue import Queue
    from ..service.roots import Roots
    from ..service.server import listen as listen_at
    from ..service.server import serve as serve_until_told
    from ..service.server import tls_context

    if tls_key and not tls_cert:
        raise UsageError("--tls-key is of a certificate: it needs --tls-cert")
    address = parse_address(listen)
    token = None if token_file is None else read_token(token_file)
    check_exposure(address, token, tls_cert is not None, public_url, behind_proxy)
    for warning in token_warnings(token_file, token) if token_file is not None and token is not None else ():
        say_note(warning, given["quiet"])
    folder = os.path.join(roots[0], STATE_FOLDER) if state is None else state
    served = Roots(roots, folder)
    tls = None if tls_cert is None else tls_context(tls_cert, tls_key)
    listener = listen_at(address)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    access = Access(address._replace(port=listener.getsockname()[1]), token, tls is not None, public_url)

    def ready() -> None:
        put("goldwatch serves %s%s" % (access.url, " at %s" % access.address.shown if public_url else ""))
        sys.stdout.flush()

    # Without a token nobody may send jobs.
    if token is None or read_only:
        serve_until_told(make_service(served, access, None, read_only, closer_commands), listener, tls, ready)
        return 0
    queue = Queue(folder)
    foreman = Foreman(queue, served, jobs)
    try:
        foreman.start()
        serve_until_told(make_service(served, access, foreman, commands=closer_commands), listener, tls, ready)
    finally:
        foreman.stop()
        queue.close()
    return 0


def require_serving() -> None:
    """Raise EnvironmentProblem where the service's packages do not exist or are not installed."""
    if sys.version_info < (3, 9):
        raise EnvironmentProblem(
            "goldwatch serve needs Python 3.9 or newer, this is %d.%d: goldwatch report writes the pages of single runs as files"
            % sys.version_info[:2]
        )
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem("goldwatch serve needs Starlette and uvicorn: %s" % error, hint="pip install 'goldwatch[serve]'") from None
