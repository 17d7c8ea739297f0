"""``goldwatch serve``."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Iterator, Optional, Tuple

import click

from ..base.errors import EnvironmentProblem, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.url_notifier import check_url
from .command import command, topic, verbosity_options
from .next_commands import closer_commands
from .printing import put, say_note

if TYPE_CHECKING:
    import ssl

    from ..service.access import Access, Address
    from ..service.root_folders import Roots
    from ..service.tokens import Tokens

STATE_FOLDER = ".goldwatch-serve"


@dataclass(frozen=True)
class ServeArguments:
    """The arguments of ``goldwatch serve``."""

    roots: Tuple[str, ...]
    listen: str
    socket_path: Optional[str]
    token_file: Optional[str]
    tls_cert: Optional[str]
    tls_key: Optional[str]
    public_url: Optional[str]
    trusted_proxies: Tuple[str, ...]
    notify: Optional[str]
    jobs: int
    state: Optional[str]
    read_only: bool
    quiet: bool

    def check(self) -> None:
        """Raise UsageError for options that exclude one another, before anything is opened."""
        from ..service.access import UNIX, parse_proxies, parse_public_url

        if self.tls_key and not self.tls_cert:
            raise UsageError("--tls-key is of a certificate: it needs --tls-cert")
        source = click.get_current_context().get_parameter_source("listen")
        if self.socket_path and source is click.core.ParameterSource.COMMANDLINE:
            raise UsageError("--socket and --listen: give one of them")
        if self.socket_path and self.tls_cert:
            raise UsageError(
                "--tls-cert goes with --listen: what comes by a Unix socket crosses no network"
            )
        if self.notify is not None:
            check_url(self.notify)
            if self.token_file is None or self.read_only:
                raise UsageError(
                    "--notify tells of jobs: it needs --token-file, and does not go with "
                    "--read-only"
                )
        parse_proxies(self.trusted_proxies)
        if UNIX in self.trusted_proxies and not self.socket_path:
            raise UsageError(
                "--trusted-proxy unix goes with --socket", hint="name the address of the proxy"
            )
        if self.public_url is not None:
            parse_public_url(self.public_url)

    @property
    def state_folder(self) -> str:
        """The folder of the job queue."""
        if self.state is not None:
            return self.state
        return os.path.join(self.roots[0], STATE_FOLDER)

    def tls_context(self) -> Optional[ssl.SSLContext]:
        """Return the TLS context; None for plain http."""
        from ..service.server import tls_context

        return None if self.tls_cert is None else tls_context(self.tls_cert, self.tls_key)


@command(
    arguments=ServeArguments,
    first=("listen", "token_file", "tls_cert", "public_url", "read_only"),
    serving=True,
)
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@topic(
    "Where it listens",
    click.option(
        "--listen",
        default="127.0.0.1:8470",
        show_default=True,
        metavar="ADDRESS:PORT",
        help="Where to listen; port 0 takes a free one.",
    ),
    click.option(
        "--socket",
        "socket_path",
        metavar="PATH",
        help="Listen at a Unix socket instead, which its owner and group may use.",
    ),
)
@topic(
    "Who may come",
    click.option(
        "--token-file",
        metavar="FILE",
        help="Holds one token, or lines NAME ROLE TOKEN, ROLE view or submit; read again when it "
        "changes.",
    ),
    click.option("--tls-cert", metavar="FILE", help="Certificate chain in PEM: use https."),
    click.option("--tls-key", metavar="FILE", help="Its key.  [default: in the same file]"),
    click.option(
        "--public-url",
        metavar="URL",
        help="What browsers know the service by where a proxy speaks TLS for it, such as "
        "https://host/goldwatch.",
    ),
    click.option(
        "--trusted-proxy",
        "trusted_proxies",
        multiple=True,
        metavar="ADDRESS",
        help="Address or network of a proxy whose X-Forwarded-For is believed, or unix; may be "
        "repeated.",
    ),
)
@topic(
    "Jobs",
    click.option(
        "--notify",
        metavar="URL",
        help="POST the first final divergence and the end of each job there, as JSON.",
    ),
    click.option(
        "--jobs",
        default=1,
        show_default=True,
        type=click.IntRange(1, 64),
        metavar="N",
        help="Jobs that run at a time.",
    ),
    click.option(
        "--state",
        metavar="DIR",
        help="Where the queue of jobs is kept.  [default: .goldwatch-serve in the first ROOT]",
    ),
    click.option("--read-only", is_flag=True, help="Take no jobs."),
)
@verbosity_options
def serve(arguments: ServeArguments) -> int:
    """Serve the runs below ROOT as pages and an API, live ones included.

    Ends with 0 at Ctrl-C or SIGTERM. Anything but a loopback address or a Unix socket needs a token
    and either TLS or --public-url.

    Example: goldwatch serve /lab/runs --token-file token
    """
    require_serving()
    from ..service.access import Access
    from ..service.root_folders import Roots
    from ..service.server import listen, listen_at_socket, unlinked_at_the_end
    from ..service.server import serve as serve_until_told

    arguments.check()
    tokens = _tokens(arguments)
    address = _address(arguments, tokens)
    served, tls = Roots(arguments.roots, arguments.state_folder), arguments.tls_context()
    if address is None:
        listener = listen_at_socket(str(arguments.socket_path))
    else:
        listener = listen(address)
        address = address._replace(port=listener.getsockname()[1])
    access = Access(
        address, tokens, tls is not None, arguments.public_url, arguments.trusted_proxies
    )
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    if tokens is not None:
        tokens.start()
    with _service(arguments, served, access) as service, unlinked_at_the_end(arguments.socket_path):
        serve_until_told(service, listener, tls, lambda: _ready(access, arguments))
    return 0


def _tokens(arguments: ServeArguments) -> Optional[Tokens]:
    """Return the access tokens; None: everybody who can connect may read."""
    from ..service.tokens import Tokens

    tokens = None if arguments.token_file is None else Tokens(arguments.token_file)
    for warning in tokens.warnings if tokens is not None else ():
        say_note(warning, arguments.quiet)
    return tokens


def _address(arguments: ServeArguments, tokens: Optional[Tokens]) -> Optional[Address]:
    """Return the address to listen on, None for a Unix socket; raises where that would expose the
    runs.
    """
    from ..service.access import check_exposure, parse_address

    address = None if arguments.socket_path else parse_address(arguments.listen)
    behind_proxy = arguments.public_url is not None
    check_exposure(address, tokens is not None, arguments.tls_cert is not None, behind_proxy)
    if behind_proxy and not arguments.trusted_proxies:
        note = (
            "note: all clients look like the proxy, in the log and where wrong tokens are "
            "counted: --trusted-proxy %s"
        )
        say_note(note % ("unix" if arguments.socket_path else "ADDRESS"), arguments.quiet)
    return address


@contextlib.contextmanager
def _service(arguments: ServeArguments, served: Roots, access: Access) -> Iterator[Any]:
    """Yield the application; a job runner works beside it where somebody may submit jobs."""
    from ..service.application import make_service
    from ..service.job_notifications import JobNotifier
    from ..service.job_queue import Queue
    from ..service.job_runner import JobRunner
    from ..service.runs import Runs

    # Without a token nobody may submit jobs.
    if access.tokens is None or arguments.read_only:
        yield make_service(served, access, None, arguments.read_only, closer_commands)
        return
    queue, notify = Queue(arguments.state_folder), arguments.notify
    runner = JobRunner(queue, served, arguments.jobs, notify is not None)
    notifier = None if notify is None else JobNotifier(notify, queue, Runs(served), access.url)
    try:
        runner.start()
        if notifier is not None:
            notifier.start()
        yield make_service(served, access, runner, commands=closer_commands)
    finally:
        if notifier is not None:
            notifier.stop()
        runner.stop()
        queue.close()


def _ready(access: Access, arguments: ServeArguments) -> None:
    """Print the URL of the service once it listens."""
    where = arguments.socket_path or (access.address and access.address.shown)
    behind = arguments.public_url or arguments.socket_path
    put("goldwatch serves %s%s" % (access.url, " at %s" % where if behind else ""))
    sys.stdout.flush()


def require_serving() -> None:
    """Raise EnvironmentProblem where the service's packages do not exist or are not installed."""
    if sys.version_info < (3, 9):
        raise EnvironmentProblem(
            "goldwatch serve needs Python 3.9 or newer, this is %d.%d: goldwatch report "
            "writes the pages of single runs as files" % sys.version_info[:2]
        )
    try:
        for package in ("starlette", "uvicorn"):
            importlib.import_module(package)
    except ImportError as error:
        raise EnvironmentProblem(
            "goldwatch serve needs Starlette and uvicorn: %s" % error,
            hint="pip install 'goldwatch[serve]'",
        ) from None
