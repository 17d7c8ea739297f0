"""The vendor's compiler on this host: where atc is, and how it is started and heard.

Source: the vendor's public installation guides (``set_env.sh`` sets ASCEND_TOOLKIT_HOME and PATH;
older ones set ASCEND_HOME_PATH) and public callers of atc.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import EnvironmentProblem, InputError, ProgramFailed, require_file
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable

_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
_INSTALLED = (
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/latest",
    "/usr/local/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
    "~/Ascend/latest",
)
_PLACES = ("bin", "compiler/bin", "atc/bin")
_LIBRARIES = ("lib64", "compiler/lib64", "atc/lib64", "runtime/lib64", "fwkacllib/lib64")
_ERROR_BYTES = 20000
_ERROR_LINES = 8
# atc's error codes: E and five digits; EZ9999 and EI0002 are of its parts.
_ERROR = re.compile(r"\b(?:E[A-Z]?\d{4,5})\b")


class Place(NamedTuple):
    """A file that was looked for, and why it was looked for there."""

    path: str
    why: str


@dataclass(frozen=True)
class Atc:
    """The compiler atc.

    Attributes
    ----------
    path
        Of the program.
    why
        How it was found: ``PATH`` or the variable or folder that names the toolkit.
    toolkit
        The toolkit's folder; None where it is not told by where atc is.
    """

    path: str
    why: str
    toolkit: Optional[str] = None

    def environment(self, environ: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """Return the variables that it runs with: the given ones, the toolkit's libraries first in
        LD_LIBRARY_PATH.
        """
        variables = dict(os.environ if environ is None else environ)
        folders = (
            [os.path.join(self.toolkit, place) for place in _LIBRARIES] if self.toolkit else []
        )
        known = [entry for entry in variables.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
        added = [folder for folder in folders if os.path.isdir(folder) and folder not in known]
        if added:
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(added + known)
        return variables

    def json_command(self, om: str, path: str) -> List[str]:
        """Return the command that writes an om's json."""
        return [self.path, "--mode=1", "--om=%s" % om, "--json=%s" % path]

    def to_json(self, om: str, path: str) -> None:
        """Write an om's json to ``path``.

        Raises
        ------
        MissingPath
            There is no such om.
        ProgramFailed
            atc failed, or wrote nothing; its own words are in the message.
        """
        require_file(om, "the offline model")
        self._run(self.json_command(om, path), path)

    def convert_command(self, options: Mapping[str, str], out: str) -> List[str]:
        """Return the command that makes an om.

        Parameters
        ----------
        options
            atc's options without their dashes: ``{"framework": "5", "model": "m.onnx",
            "soc_version": "Ascend310P3"}``.
        out
            The om to make; atc wants it without ``.om``.
        """
        return (
            [self.path]
            + ["--%s=%s" % item for item in options.items()]
            + ["--output=%s" % without_suffix(out)]
        )

    def convert(self, options: Mapping[str, str], out: str) -> str:
        """Make an om; parameters as of :meth:`convert_command`. Return its path.

        atc adds ``_linux_x86_64`` or the like to the name where the om is for one kind of host.

        Raises
        ------
        ProgramFailed
            atc failed, or wrote no om; its own words are in the message.
        """
        stem = without_suffix(out)
        before = {path: os.stat(path).st_mtime_ns for path in _oms(stem)}
        self._run(self.convert_command(options, out), None)
        made = [path for path in _oms(stem) if before.get(path) != os.stat(path).st_mtime_ns]
        if not made:
            hint = "run it by itself and look at its log (ASCEND_PROCESS_LOG_PATH)"
            raise ProgramFailed("atc ended well and wrote no %s.om" % stem, 0, hint=hint)
        return made[0]

    def _run(self, command: Sequence[str], made: Optional[str]) -> None:
        """Run it in a folder of its own, where its kernel_meta and fusion_result.json may lie;
        raise ProgramFailed.
        """
        words = [_absolute(word) for word in command]
        with tempfile.TemporaryDirectory(prefix="goldwatch-atc-") as folder:
            try:
                done = subprocess.run(
                    words, env=self.environment(), cwd=folder, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                )  # fmt: skip
            except OSError as error:
                text = "%s cannot be started: %s" % (self.path, error.strerror)
                raise EnvironmentProblem(text, hint="name another atc") from error
        text = done.stdout[-_ERROR_BYTES:].decode("utf-8", "replace")
        shown = " ".join(shlex.quote(word) for word in command)
        if done.returncode:
            how = (
                "exit code %d" % done.returncode
                if done.returncode > 0
                else "signal %d" % -done.returncode
            )
            raise ProgramFailed(
                "atc failed with %s: %s" % (how, atc_error(text)),
                done.returncode,
                hint="the command was: %s" % shown,
            )
        if made is not None and not os.path.isfile(made):
            raise ProgramFailed(
                "atc ended well and wrote no %s: %s" % (made, atc_error(text)),
                0,
                hint="the command was: %s" % shown,
            )


def find_atc(
    environ: Optional[Mapping[str, str]] = None, named: Optional[str] = None
) -> Optional[Atc]:
    """Return the host's atc; None where there is none (:func:`searched_places` tells where it was
    looked for).

    Parameters
    ----------
    named
        The path of an atc that the user names.

    Raises
    ------
    InputError
        The one that the user names is no program.
    """
    if named is not None:
        if not _runs(named):
            raise InputError(
                "%s is not a program that this user may run" % named,
                hint="name atc itself, not its folder",
            )
        return Atc(os.path.abspath(named), "named", _toolkit_of(named))
    for place in searched_places(environ):
        if _runs(place.path):
            return Atc(place.path, place.why, _toolkit_of(place.path))
    return None


def searched_places(environ: Optional[Mapping[str, str]] = None) -> Iterator[Place]:
    """Yield where atc may be, in the order in which it is looked for."""
    variables = os.environ if environ is None else environ
    for folder in variables.get("PATH", "").split(os.pathsep):
        if folder:
            yield Place(os.path.abspath(os.path.join(folder, "atc")), "PATH")
    homes = [(variables[name], name) for name in _HOMES if variables.get(name)]
    homes += [(os.path.expanduser(folder), folder) for folder in _INSTALLED]
    for home, why in homes:
        for inside in _PLACES:
            yield Place(os.path.join(home, inside, "atc"), why)


def toolkit_problem(environ: Optional[Mapping[str, str]] = None) -> str:
    """Return why there is no atc, and what to do."""
    variables = os.environ if environ is None else environ
    named = [
        "%s is %s" % (name, printable(variables[name])) for name in _HOMES if variables.get(name)
    ]
    variables_set = ", ".join(named) if named else "%s and %s are not set" % _HOMES
    return (
        "no atc on PATH, below %s; source the toolkit's set_env.sh, or name the program atc "
        "itself (%s)" % (_INSTALLED[0], variables_set)
    )


def without_suffix(om: str) -> str:
    """Return an om's path as atc's --output wants it."""
    return om[:-3] if om.endswith(".om") else om


def atc_error(text: str) -> str:
    """Return what atc said went wrong, in one line: its lines with an error code, else its last
    ones.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if _ERROR.search(line) or line.startswith(("[ERROR]", "ERROR", "ATC run failed"))
    ]
    chosen = errors[:_ERROR_LINES] if errors else lines[-_ERROR_LINES:]
    return printable(" / ".join(chosen)) or "it said nothing"


def _oms(stem: str) -> List[str]:
    """Return the oms that atc may have written for a name."""
    folder, name = os.path.split(os.path.abspath(stem))
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    pattern = re.compile(re.escape(name) + r"(?:_linux_\w+)?\.om\Z")
    return sorted((os.path.join(folder, entry) for entry in names if pattern.match(entry)), key=len)


_PATHS = (
    "om", "json", "model", "weight", "output", "keep_dtype", "customize_dtypes", "modify_mixlist",
    "op_precision_mode",
    "fusion_switch_file", "insert_op_conf", "singleop", "compression_optimize_conf",
    "op_debug_config",
)  # fmt: skip


def _absolute(word: str) -> str:
    """Return an argument with its path made absolute, where it is an option that names one."""
    name, sign, value = word.partition("=")
    return (
        "%s=%s" % (name, os.path.abspath(value)) if sign and value and name[2:] in _PATHS else word
    )


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _toolkit_of(path: str) -> Optional[str]:
    """Return the toolkit that an atc is of: the folder above its bin, compiler/bin or atc/bin."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.basename(folder) != "bin":
        return None
    above = os.path.dirname(folder)
    return os.path.dirname(above) if os.path.basename(above) in ("compiler", "atc") else above
