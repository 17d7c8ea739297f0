"""Which cluster is meant, and what it takes to speak to it."""

from __future__ import annotations

import re
from typing import Optional

from ..base.errors import UsageError, require_file
from ..base.fast_dataclasses import dataclass
from ..base.system import is_loopback

_LOCAL = re.compile(r"local(?::([0-9]{1,4}))?\Z")
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[^\[\]/:@?#\s]+):([0-9]{1,5})\Z")
_FORMS = "tcp://HOST:PORT, tls://HOST:PORT, local, or local:N with N from 1 to 9999"


class Unencrypted(UsageError):
    """A cluster on another machine without encryption (exit code 2)."""

    kind = "unencrypted"


class NoCertificates(UsageError):
    """A cluster with encryption, and nothing that proves who we are (exit code 2)."""

    kind = "no_certificates"


@dataclass(frozen=True)
class ClusterAddress:
    """Where the scheduler is.

    Attributes
    ----------
    url
        Of the scheduler; None: one of our own on this machine.
    workers
        How many processes of our own; 0: as many as there are processors.
    tls_ca_file, tls_cert, tls_key
        In PEM; None: what Dask's own configuration says.
    """

    url: Optional[str] = None
    workers: int = 0
    tls_ca_file: Optional[str] = None
    tls_cert: Optional[str] = None
    tls_key: Optional[str] = None

    @property
    def encrypted(self) -> bool:
        """Whether both sides prove who they are."""
        return self.url is not None and self.url.startswith("tls://")

    @property
    def shown(self) -> str:
        """The cluster's name for messages."""
        return self.url or "local"


def parse_cluster(
    text: str,
    insecure: bool = False,
    tls_ca_file: Optional[str] = None,
    tls_cert: Optional[str] = None,
    tls_key: Optional[str] = None,
) -> ClusterAddress:
    """Return the cluster that ``tcp://HOST:PORT``, ``tls://HOST:PORT``, ``local`` or ``local:N``
    means.

    Parameters
    ----------
    insecure
        Allow tcp beyond this machine, where whoever reaches a port runs any code on the workers.

    Raises
    ------
    Unencrypted
        tcp leads off this machine.
    UsageError
        It is no cluster; or certificates are given for what is not tls.
    MissingPath
        A certificate or key cannot be read.
    """
    files = {
        "the certificate authority": tls_ca_file,
        "the certificate": tls_cert,
        "the certificate's key": tls_key,
    }
    local, remote = _LOCAL.match(text), _REMOTE.match(text)
    port, processes = remote.group(3) if remote else "1", local.group(1) if local else "1"
    if (
        (local is None and remote is None)
        or not 0 < int(port) < 65536
        or (processes is not None and not int(processes))
    ):
        # A password is not printed back.
        shown = re.sub(r"(?s)(://|^).*@", r"\1***@", text)
        raise UsageError("%s is no cluster: expected %s" % (shown or "an empty text", _FORMS))
    encrypted = remote is not None and remote.group(1) == "tls"
    if any(files.values()) and not encrypted:
        raise UsageError("certificates are for tls://, not for %s" % text)
    if tls_key and not tls_cert:
        raise UsageError("a key is of a certificate, which is missing")
    if local is not None:
        return ClusterAddress(None, int(local.group(1) or 0))
    assert remote is not None
    if not encrypted and not insecure and not is_loopback(remote.group(2)):
        raise Unencrypted(
            "%s leads to another machine without encryption or proof of who is there, and "
            "workers run whatever they are sent" % text,
            hint="start the scheduler and the workers with certificates and name it tls://…",
        )
    for what, path in files.items():
        if path is not None:
            require_file(path, what)
    return ClusterAddress(text, 0, tls_ca_file, tls_cert, tls_key)
