"""The tokens of a service: a file of them, each with a name and a role, and cookies that stand for
them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..errors import FormatError, GoldwatchError
from ..filesystem.inputs import read_input

log = logging.getLogger("goldwatch.service")

VIEW, SUBMIT = ROLES = ("view", "submit")
FEWEST_CHARACTERS = 16
_FILE_BYTES = 64 * 1024
_MOST = 256
_LOOK_S = 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z", re.A)
_SECRET = re.compile(r"[!-~]{1,1024}\Z", re.A)
_ONLY = "token"
_COOKIE = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{64})\Z", re.A)
_MAKES_ONE = "python -c 'import secrets; print(secrets.token_urlsafe())' makes a token"


class Token(NamedTuple):
    """A token: what it is called in the log, what it allows, and the token itself."""

    name: str
    role: str
    secret: str

    @property
    def may_submit(self) -> bool:
        """Whether jobs may be sent and cancelled with it."""
        return self.role == SUBMIT


def parse_tokens(data: bytes, path: str) -> Tuple[Token, ...]:
    """Return the tokens of a file: lines ``NAME ROLE TOKEN``, or one token alone, which may submit
    and is called ``token``.

    Parameters
    ----------
    data
        What the file holds; empty lines and those that begin with ``#`` say nothing.

    Raises
    ------
    FormatError
        A line is something else; what it holds is not shown.
    """
    lines = [
        (number, line.split())
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1)
    ]
    lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
    found: List[Token] = []
    for number, words in lines:
        if len(words) == 1 and len(lines) == 1:
            words = [_ONLY, SUBMIT, words[0]]
        if len(words) != 3:
            raise FormatError(
                "line %d: expected NAME ROLE TOKEN, or one token alone in the file" % number,
                path,
                _MAKES_ONE,
            )
        token = Token(*words)
        if not _NAME.match(token.name):
            hint = "letters, digits and . _ @ -, at most 64"
            raise FormatError("line %d: its first word is no name" % number, path, hint)
        if token.role not in ROLES:
            raise FormatError(
                "line %d: the role of %s is neither view nor submit" % (number, token.name),
                path,
                "NAME ROLE TOKEN",
            )
        if not _SECRET.match(token.secret):
            raise FormatError(
                "line %d: the token of %s is not printable ASCII" % (number, token.name),
                path,
                _MAKES_ONE,
            )
        if len(token.secret) < FEWEST_CHARACTERS:
            told = (
                "line %d: the token of %s has %d characters: it can be guessed, at least %d are "
                "needed"
            )
            raise FormatError(
                told % (number, token.name, len(token.secret), FEWEST_CHARACTERS), path, _MAKES_ONE
            )
        for other in found:
            if token.name == other.name:
                raise FormatError(
                    "line %d: the name %s is there twice" % (number, token.name),
                    path,
                    "a name for each token",
                )
            if token.secret == other.secret:
                raise FormatError(
                    "line %d: %s and %s have the same token" % (number, other.name, token.name),
                    path,
                    _MAKES_ONE,
                )
        found.append(token)
    if not found:
        raise FormatError("expected a token", path, _MAKES_ONE)
    if len(found) > _MOST:
        raise FormatError("holds %d tokens, at most %d may be there" % (len(found), _MOST), path)
    return tuple(found)


class Tokens:
    """The tokens of a file, which is read again when it changes; one that is then wrong or gone
    changes nothing, and the log says so.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._data = read_input(path, _FILE_BYTES)
        self.current = parse_tokens(self._data, path)
        self._problem = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tokens", daemon=True)

    def start(self) -> None:
        """Follow the file, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Follow it no more."""
        self._ended.set()

    def find(self, secret: str) -> Optional[Token]:
        """Return the token that a text is; how long that takes tells nothing about it."""
        found = [token for token in self.current if _same(secret, token.secret)]
        return found[0] if found else None

    @property
    def warnings(self) -> List[str]:
        """What should be better about the file."""
        mode = os.stat(self._path).st_mode
        return (
            [
                "warning: others than its owner may read %s (mode %03o): chmod 600"
                % (self._path, mode & 0o777)
            ]
            if mode & 0o077
            else []
        )

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Read the file again, and take what has changed."""
        try:
            data = read_input(self._path, _FILE_BYTES)
            if data == self._data:
                self._problem = ""
                return
            new = parse_tokens(data, self._path)
        except (GoldwatchError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("tokens are those of before: %s", error)
            return
        before, after = ({token.name: token for token in tokens} for tokens in (self.current, new))
        self._data, self.current, self._problem = data, new, ""
        log.info("tokens were read again: %s", _changes(before, after))


def _changes(before: Dict[str, Token], after: Dict[str, Token]) -> str:
    said = ["%s added" % name for name in after if name not in before]
    said += ["%s removed" % name for name in before if name not in after]
    said += [
        "%s changed" % name for name in after if name in before and after[name] != before[name]
    ]
    return ", ".join(said) or "nothing changed"


def cookie_value(token: Token, server: str) -> str:
    """Return the value of a new cookie that stands for a token at one server: the token itself is
    in no browser's store.
    """
    nonce = secrets.token_hex(16)
    return "%s.%s" % (nonce, _code(token, server, nonce))


def holds_cookie(value: str, token: Token, server: str) -> bool:
    """Tell whether the value of a cookie stands for a token at this server."""
    found = _COOKIE.match(value)
    return found is not None and _same(found.group(2), _code(token, server, found.group(1)))


def _code(token: Token, server: str, nonce: str) -> str:
    text = "goldwatch cookie\0%s\0%s\0%s" % (server, token.name, nonce)
    return hmac.new(
        token.secret.encode(), text.encode("utf-8", "surrogateescape"), hashlib.sha256
    ).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8"))
