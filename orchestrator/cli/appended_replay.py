"""The replay that ``run --replay`` appends to its comparison: planned before it, done after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

from ..errors import GoldwatchError, UsageError
from .golden_messages import with_options
from .next_commands import REPLAY_FOLDER, step_folder
from .printing import put_wrapped, say

if TYPE_CHECKING:
    from ..replay.options import ReplayOptions
    from ..run.result import RunResult


def planned_replay(
    original: Optional[str], model: Optional[str], target: str, out: str
) -> Optional[ReplayOptions]:
    """Return the options of the replay that a run appends, checked before the program starts; None
    where none was requested.

    Raises
    ------
    UsageError
        There is no om json.
    GoldwatchError
        The original cannot be read, or nothing can run it.
    """
    if original is None:
        return None
    if model is None:
        raise UsageError(
            "--replay needs -f: which original layers an op was made from is told by the "
            "model's json"
        )
    from ..recomputing.original_cuts import Original
    from ..replay.backends import runner_for
    from ..replay.options import ReplayOptions

    options = ReplayOptions(
        target=target,
        original=original,
        model=model,
        out=os.path.join(out, REPLAY_FOLDER),
        result=out,
    )
    runner_for(options, Original(original))
    return options


def append_replay(
    options: ReplayOptions, result: RunResult, jobs: int, quiet: bool, as_json: bool
) -> Optional[RunResult]:
    """Replay the step where a run diverges first, print its sentence and return its result; None
    where it could not be done.

    A replay that is impossible is reported, and leaves the run's own verdict unchanged.
    """
    from dataclasses import replace

    from ..replay.run import replay

    try:
        replayed = replay(replace(options, target=step_folder(result)), jobs, force=True)
    except GoldwatchError as error:
        say("warning: no replay: " + with_options(error.message))
        return None
    sentence = "replay: %s Results: %s" % (replayed.sentence, replayed.files[-1])
    if as_json:
        say(sentence, quiet)
    else:
        put_wrapped(sentence)
    return replayed
