"""The kinds of error, each with the exit code that the command line returns for it."""

from __future__ import annotations

import os
import re
from typing import Mapping, Optional

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_BAD_INPUT = 4
EXIT_PROGRAM_FAILED = 5
EXIT_INTERRUPTED = 130

_FIELD = re.compile(r"\{([a-z_]+)\}")


class GoldwatchError(Exception):
    """Base of every error that goldwatch raises on purpose.

    Parameters
    ----------
    message
        What happened and where (file, op, tensor index, byte offset), expected against got.
    hint
        What to do next, or None.
    path
        The file that it is about, which the message is to begin with; None: it is not known, or the
        message names it elsewhere.

    Attributes
    ----------
    detail
        The message without that file, for where it stands beside its name.
    """

    exit_code = EXIT_BAD_INPUT
    kind = "error"

    def __init__(
        self, message: str, hint: Optional[str] = None, path: Optional[str] = None
    ) -> None:
        self.detail = message
        self.message = "%s: %s" % (path, message) if path else message
        self.hint = hint
        self.path = path
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class UsageError(GoldwatchError, ValueError):
    """Options or arguments that do not fit together (exit code 2)."""

    exit_code = EXIT_USAGE
    kind = "usage"


class OptionsError(UsageError):
    """Options that do not fit together (exit code 2).

    Parameters
    ----------
    text, hint
        An option stands in them as ``{name}``: the name of its field in Python, in whose place the
        command line puts what the user types.
    """

    def __init__(self, text: str, hint: Optional[str] = None) -> None:
        self._texts = text, hint
        error = self.spelled({})
        super().__init__(error.message, error.hint)

    def spelled(self, names: Mapping[str, str]) -> UsageError:
        """Return the error with other names of options, by those of their fields."""
        text, hint = (
            text and _FIELD.sub(lambda field: names.get(field.group(1), field.group(1)), text)
            for text in self._texts
        )
        return UsageError(text or "", hint)


class InputError(GoldwatchError):
    """An input or the environment cannot be used (exit code 4)."""

    kind = "bad_input"


class MissingPath(InputError, FileNotFoundError):
    """A path that was named does not exist, is of the wrong kind or cannot be read (exit code
    4).
    """

    kind = "missing_path"


class FormatError(InputError, ValueError):
    """A file's content breaks its format (exit code 4, or one row's reason).

    Parameters
    ----------
    path
        The file, or None for bytes in memory.
    """

    kind = "bad_format"

    def __init__(
        self, message: str, path: Optional[str] = None, hint: Optional[str] = None
    ) -> None:
        super().__init__(message, hint, path)


class TruncatedFile(FormatError):
    """A file is shorter than its own header says.

    Parameters
    ----------
    expected_bytes, actual_bytes
        The two sizes.
    """

    kind = "truncated"

    def __init__(
        self,
        message: str,
        path: Optional[str] = None,
        expected_bytes: int = 0,
        actual_bytes: int = 0,
    ) -> None:
        super().__init__(message, path)
        self.expected_bytes = expected_bytes
        self.actual_bytes = actual_bytes


class NotComparable(GoldwatchError):
    """One tensor cannot be decoded, laid out or compared; its message becomes that row's reason
    (never ends a run).

    Attributes
    ----------
    cause
        What the row's ``cause`` becomes: ``shape`` (layouts count as such).
    """

    kind = "not_comparable"
    cause = "shape"


class TypeNotComparable(NotComparable):
    """Elements of that type cannot be decoded or compared."""

    cause = "dtype"


class NotThere(NotComparable):
    """The tensor is not in the file, or the file is damaged where it should be."""

    cause = "corrupt"


class EnvironmentProblem(InputError):
    """Something that must be installed, mounted or free is not (exit code 4)."""

    kind = "environment"


class DiskFull(EnvironmentProblem):
    """There is no room for what has to be written (exit code 4)."""

    kind = "disk_full"


class ProgramFailed(GoldwatchError):
    """The program that goldwatch launched failed (exit code 5).

    Parameters
    ----------
    returncode
        The program's own exit code, negative for a signal.
    """

    exit_code = EXIT_PROGRAM_FAILED
    kind = "program_failed"

    def __init__(self, message: str, returncode: int, hint: Optional[str] = None) -> None:
        super().__init__(message, hint)
        self.returncode = returncode


class Interrupted(GoldwatchError):
    """The user pressed Ctrl-C; what was done stays usable (exit code 130)."""

    exit_code = EXIT_INTERRUPTED
    kind = "interrupted"


def require_folder(path: str, what: str) -> None:
    """Raise MissingPath unless ``path`` is a folder that this user can list.

    Parameters
    ----------
    what
        The folder's role in the message, such as ``TARGET``.
    """
    if not os.path.lexists(path):
        raise MissingPath(
            "%s: %s does not exist" % (what, path or "''"),
            hint="check the path; it is read from the current folder",
        )
    if not os.path.isdir(path):
        raise MissingPath("%s: %s is not a folder" % (what, path))
    if not os.access(path, os.R_OK | os.X_OK):
        raise MissingPath("%s: %s cannot be listed by this user" % (what, path))


def require_file(path: str, what: str) -> None:
    """Raise MissingPath unless ``path`` is a regular file that this user can read."""
    if not os.path.lexists(path):
        raise MissingPath(
            "%s: %s does not exist" % (what, path or "''"),
            hint="check the path; it is read from the current folder",
        )
    if not os.path.isfile(path):
        raise MissingPath("%s: %s is not a regular file" % (what, path))
    if not os.access(path, os.R_OK):
        raise MissingPath("%s: %s cannot be read by this user" % (what, path))
