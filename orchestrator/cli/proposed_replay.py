"""The replay command proposed after a failing comparison, and the replay that ``run`` appends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List, Optional

from ..errors import GoldwatchError, UsageError
from ..metrics.row import FAIL
from .golden_messages import with_options
from .printing import put_wrapped, say
from .shell_words import command_words, shell_word

if TYPE_CHECKING:
    from ..replay.options import ReplayOptions
    from ..run.result import RunResult

FOLDER = "replay"
"""Where in a comparison's OUT its replay goes."""


def step_folder(result: RunResult) -> str:
    """Return the folder of the step where a comparison diverges first, or TARGET itself."""
    target = result.options.target
    first = result.first_divergence
    folder = (
        os.path.join(target, *[part for part in first.place if part is not None])
        if first is not None
        else target
    )
    return folder if os.path.isdir(folder) else target


def replay_words(result: RunResult) -> List[str]:
    """Return the words of the replay command proposed after a failing comparison.

    None without an original model at hand, where the comparison itself told by that model whose
    error it is (an operator's, the golden data's, the input's), and where the dumps are on another
    host.
    """
    options = result.options
    special = (options.quantisation, options.unfused, options.custom, options.outputs)
    plain = not options.exact and all(option is None for option in special)
    if result.summary.verdict != FAIL or result.summary.culprits is not None or not plain:
        return []
    recomputed = result.summary.recomputed or {}
    if recomputed.get("model") and (recomputed.get("wrong") or result.summary.suspects):
        return []
    if result.first_divergence is not None and result.first_divergence.place.host is not None:
        return []
    if options.model is None or os.path.isdir(options.model) or not os.path.isdir(options.golden):
        return []
    from ..recomputing.find_original import original_model_path

    model = original_model_path(options.model, options.golden)
    if model is None:
        return []
    words = ["-f", options.model, "-o", os.path.join(options.out, FOLDER), "--result", options.out]
    return [
        shell_word(word)
        for word in command_words(["goldwatch", "replay"], [step_folder(result), model], words)
    ]


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

    options = ReplayOptions(target, original, model, os.path.join(out, FOLDER), result=out)
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
