"""What a path on the command line is, where a command wants something else: the message says that,
and which command takes it.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Dict, NamedTuple, Optional

from ..base.errors import GoldwatchError, MissingPath, UsageError
from ..base.manifest import MANIFEST_FILE
from ..dumps.dump_index import DumpIndex
from ..dumps.place import is_time
from ..kinds import kind as kinds
from ..store.opening import STORE_FILE
from .printing import say
from .shell_words import shell_word

RESULT, GOLDEN = "result", kinds.GOLDEN
_OWN_NAMES = re.compile(
    r"(?:result|report|run|final|cure|locate)\b|result_\d+\.csv|.*\.(?:html|xml|md|csv)\Z"
)
LOCATED = "located"
_FOLDERS = {
    RESULT: "results of a comparison",
    LOCATED: "what locate writes",
    kinds.GOLDEN: "golden data",
    kinds.DUMPS: "a device's dumps",
    kinds.STATISTICS_DUMP: kinds.WORDS[kinds.STATISTICS_DUMP],
    kinds.FX: kinds.WORDS[kinds.FX],
}
#: What makes a result of it.
_MAKES_RESULT = {
    kinds.DUMPS: "goldwatch compare %s GOLDEN -f OM.json -o OUT",
    kinds.STATISTICS_DUMP: "goldwatch compare %s GOLDEN -f OM.json -o OUT",
    kinds.GOLDEN: "goldwatch compare DUMPS %s -f OM.json -o OUT",
    kinds.OM: "goldwatch locate MODEL %s -o OUT",
    kinds.OM_JSON: "goldwatch compare DUMPS GOLDEN -f %s -o OUT",
    **dict.fromkeys(kinds.ORIGINALS, "goldwatch locate %s OM -o OUT"),
}


class Given(NamedTuple):
    """What a path is: one of the kinds, and that in words."""

    kind: str
    words: str


def what_is(path: str) -> Optional[Given]:
    """Return what a file or folder is; None where it is not there or nothing known."""
    from ..kinds.files import kind_of_file
    from ..kinds.folders import kinds_in_folder

    try:
        if not os.path.isdir(path):
            name = kind_of_file(path).name
            return None if name in (kinds.RAW, kinds.PROTOBUF) else Given(name, kinds.WORDS[name])
        if os.path.isfile(os.path.join(path, STORE_FILE)):
            return Given(RESULT, "a folder with the results of a comparison")
        if os.path.isfile(os.path.join(path, MANIFEST_FILE)):
            return Given(kinds.GOLDEN, "a folder with " + _FOLDERS[kinds.GOLDEN])
        for kind in kinds_in_folder(DumpIndex(path, "TARGET")):
            if kind.name in _FOLDERS:
                return Given(kind.name, "a folder with " + _FOLDERS[kind.name])
    except (GoldwatchError, OSError):
        pass
    return None


def require_result(path: str, role: str) -> None:
    """Raise MissingPath for what is known to be something else than a comparison's result; the
    reader of the result tells of all else.

    Parameters
    ----------
    role
        The argument's name, such as ``RESULT``.
    """
    from ..device.locate.resumable_steps import STATE_FILE

    if os.path.exists(os.path.join(path, STATE_FILE)):
        runs = glob.glob(os.path.join(glob.escape(path), "**", STORE_FILE), recursive=True)
        folders = [shell_word(os.path.dirname(run)) for run in sorted(runs)]
        raise MissingPath(
            "%s: %s is what locate wrote, not the result of a comparison" % (role, path),
            hint="results in it: %s" % (", ".join(folders[:4]) or "none so far"),
        )
    given = what_is(path)
    if given is None or given.kind == RESULT:
        return
    make = _MAKES_RESULT.get(given.kind)
    hint = "name the folder that compare, watch, run or locate wrote its results to"
    if make is not None:
        hint = "%s makes a result" % (make % shell_word(path))
    raise MissingPath(
        "%s: %s is %s, not the result of a comparison" % (role, path, given.words), hint=hint
    )


def require_order(command: str, dumps: str, model: str) -> None:
    """Raise UsageError where the dumps and the original model were exchanged."""
    given: Dict[str, Optional[Given]] = {"TARGET": what_is(dumps), "MODEL": what_is(model)}
    first, second = given["TARGET"], given["MODEL"]
    if first is None or second is None or first.kind not in kinds.ORIGINALS:
        return
    if os.path.isdir(model):
        raise UsageError(
            "TARGET and MODEL are exchanged: %s is %s, %s is %s"
            % (dumps, first.words, model, second.words),
            hint="name the dumps first: goldwatch %s %s %s …"
            % (command, shell_word(model), shell_word(dumps)),
        )


def require_model(path: str) -> None:
    """Raise MissingPath for a folder with data, where a model is wanted."""
    given = what_is(path) if os.path.isdir(path) else None
    if given is not None:
        raise MissingPath(
            "MODEL: %s is %s, no model" % (path, given.words),
            hint="give the json of the om (atc --mode=1), or the original model: an .onnx, a "
            ".prototxt or a frozen graph (.pb)",
        )


def refuse_place(out: str, own: str) -> None:
    """Refuse a folder for output in which dumps, golden data or results lie, and note that others
    do.

    Parameters
    ----------
    own
        RESULT, GOLDEN or LOCATED, what the command writes: an earlier one's is met elsewhere.

    Raises
    ------
    UsageError
        The new files would mix with others that goldwatch reads.
    """
    if not os.path.isdir(out):
        return
    names = sorted(os.listdir(out))
    if not names:
        return
    from ..kinds.folders import kind_of_name

    kinds_there = {kind_of_name(name) for name in names}
    given = ""
    if STORE_FILE in names:
        given = RESULT
    elif MANIFEST_FILE in names or kinds.GOLDEN in kinds_there:
        given = kinds.GOLDEN
    if {kinds.DUMPS, kinds.STATISTICS_DUMP} & kinds_there or any(map(is_time, names)):
        given = kinds.DUMPS
    if given and given != own:
        raise UsageError(
            "OUT: %s holds %s: %s would lie among them" % (out, _FOLDERS[given], _FOLDERS[own]),
            hint="name another folder; one in it will do: -o %s"
            % shell_word(os.path.join(out, "golden" if own == kinds.GOLDEN else "out")),
        )
    if not given and not any(map(_OWN_NAMES.match, names)):
        say("note: %s is not empty (it holds %s): what is there stays" % (out, names[0]))
