"""The tokens of a service: a file of tokens, each with a name and a role, and the cookies that
stand for them.
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

from ..base.errors import FormatError, GoldwatchError
from ..base.notes import Note, note
from ..base.safe_reading import read_input

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
    """A token: its name in the log, its role, and its secret."""

    name: str
    role: str
    secret: str

    @property
    def may_submit(self) -> bool:
        """Whether it permits submitting and cancelling jobs."""
        return self.role == SUBMIT


def parse_tokens(data: bytes, path: str) -> Tuple[Token, ...]:
    """Return the tokens of a file: lines ``NAME ROLE TOKEN``, or one secret alone, which may submit
    and is called ``token``.

    Parameters
    ----------
    data
        The content of the file; empty lines and those that begin with ``#`` are ignored.

    Raises
    ------
    FormatError
        A line has another form; its content is not shown.
    """
    lines = [
        (number, line.split())
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1)
    ]
    lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
    tokens: List[Token] = []
    for number, words in lines:
        if len(words) == 1 and len(lines) == 1:
            words = [_ONLY, SUBMIT, words[0]]
        token = _parse_token(number, words, path)
        for other in tokens:
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
        tokens.append(token)
    if not tokens:
        raise FormatError("expected a token", path, _MAKES_ONE)
    if len(tokens) > _MOST:
        raise FormatError("holds %d tokens, at most %d may be there" % (len(tokens), _MOST), path)
    return tuple(tokens)


def _parse_token(number: int, words: List[str], path: str) -> Token:
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
        message = (
            "line %d: the token of %s has %d characters: it can be guessed, at least %d are "
            "needed"
        )
        raise FormatError(
            message % (number, token.name, len(token.secret), FEWEST_CHARACTERS),
            path,
            _MAKES_ONE,
        )
    return token


class Tokens:
    """The tokens of a file, which is read again when it changes. If it is then invalid or missing,
    nothing changes, and that is logged.

    Raises
    ------
    InputError
        The file cannot be read, or has another form.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._data = read_input(path, _FILE_BYTES)
        self.current = parse_tokens(self._data, path)
        self._problem = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tokens", daemon=True)

    def start(self) -> None:
        """Start a thread that follows the file."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()

    def find(self, secret: str) -> Optional[Token]:
        """Return the token with this secret, in constant time."""
        matches = [token for token in self.current if _same(secret, token.secret)]
        return matches[0] if matches else None

    @property
    def warnings(self) -> List[Note]:
        """Warnings about the file."""
        mode = os.stat(self._path).st_mode
        return [note("open-tokens", self._path, mode & 0o777)] if mode & 0o077 else []

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Read the file again if it has changed."""
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
    changes = ["%s added" % name for name in after if name not in before]
    changes += ["%s removed" % name for name in before if name not in after]
    changes += [
        "%s changed" % name for name in after if name in before and after[name] != before[name]
    ]
    return ", ".join(changes) or "nothing changed"


def cookie_value(token: Token, server: str) -> str:
    """Return the value of a new cookie for a token at one server: no browser stores the token
    itself.
    """
    nonce = secrets.token_hex(16)
    return "%s.%s" % (nonce, _code(token, server, nonce))


def holds_cookie(value: str, token: Token, server: str) -> bool:
    """Tell whether a cookie's value stands for a token at this server."""
    match = _COOKIE.match(value)
    return match is not None and _same(match.group(2), _code(token, server, match.group(1)))


def _code(token: Token, server: str, nonce: str) -> str:
    text = "goldwatch cookie\0%s\0%s\0%s" % (server, token.name, nonce)
    return hmac.new(
        token.secret.encode(), text.encode("utf-8", "surrogateescape"), hashlib.sha256
    ).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8"))
