"""The commands that are proposed after a run: the next one, and a closer look at each suspect."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..base.errors import GoldwatchError
from ..base.naming import printable
from ..dumps.dump_index import DumpIndex
from ..dumps.folder_listing import is_folder
from ..dumps.place import Place
from ..dumps.tensor_statistics import MEASURES
from ..judging.diagnosis.op_input_states import BAD
from ..judging.limits import DEFAULTS
from ..metrics.row import FAIL, PASS
from ..model.row_plan import OUTPUT
from ..run.comparison_options import AUTO, ComparisonOptions
from .shell_words import command_words, shell_word

if TYPE_CHECKING:
    from ..run.result import RunResult

REPLAY_FOLDER = "replay"
"""Where in a comparison's OUT its replay goes."""
_EXPORT = "export the original model with model.eval(), and make golden data again"
_OTHER_INPUT = (
    "make golden data, and dump, with an input for which the original model gives numbers there%s"
)
_NARROW_RADIUS = 3
"""How far from the first divergence tensors are dumped after statistics: docs/design/trials.md
tells how often that holds the culprit.
"""


def next_command(result: RunResult) -> Tuple[str, List[str]]:
    """Return the head of the line with the next command, and its words: none where it is no
    command of ours.

    After statistics it is the configuration that dumps the tensors around the first divergence;
    after limits that are stricter than rounding the comparison without these. Of a merge both are
    for the host of the first divergence: each host has paths of its own.
    """
    first, options = result.first_divergence, result.options
    trains = first is not None and first.in_training and first.inputs != BAD
    if trains and not result.summary.suspects:
        # A replay could not run it either.
        return "next: " + _EXPORT, []
    if not result.summary.suspects and result.summary.golden_undefined:
        # NaN of a row that a mask excludes throughout, of 0 / 0: what a replay's framework computes
        # there is NaN as well.
        masked = first is not None and first.masked
        return "next: " + _OTHER_INPUT % (": no row masked throughout" if masked else ""), []
    for entry in result.summary.suspects[:1]:
        if not entry.accuses:
            return "next: " + entry.explanations[0].next, []
    by_statistics = first is not None and first.metric in MEASURES
    too_strict = None if first is None or result.summary.suspects else first.too_strict
    if first is None or not (by_statistics or too_strict is not None):
        return "next:", _next_words(result)
    host = first.place.host
    if host is not None:
        # Few runs are merges: all others print their rows sooner without these.
        from ..run.run_status import stored_options
        from ..store.store import RunStore

        folders = {entry["host"]: entry["folder"] for entry in result.summary.hosts or ()}
        try:
            with RunStore.open(folders[host]) as store:
                options = stored_options(folders[host], False, store.get)
        except (GoldwatchError, KeyError):
            return "next:", report_words(options.out)
    words = _narrow_words(options) if by_statistics else []
    if too_strict is not None and not by_statistics:
        words = _default_words(options, too_strict.missed)
    if not words:
        return "next:", report_words(result.options.out)
    return "next:" if host is None else "next on host %s:" % printable(host), words


def two_dumps_hint(new: str, old: str) -> Optional[str]:
    """Return how two folders are compared that hold dumps, where a command wants something else;
    None where they do not.
    """
    if not all(DumpIndex(path, "TARGET").has_dumps for path in (new, old)):
        return None
    words = " ".join(["goldwatch", "compare", shell_word(new), shell_word(old), "-o", "out"])
    return "two folders of dumps, the new build or run first, are compared by: " + words


def _next_words(result: RunResult) -> List[str]:
    """Return the words of the next command: replay where the model is at hand, else a closer look
    at the culprit, else a report of the whole result.
    """
    summary = result.summary
    words = _cure_words(result) or _replay_words(result)
    # The one named by the sentence above.
    culprits = [] if summary.culprit is None else [summary.culprit]
    culprits += [(entry.op, entry.place) for entry in summary.suspects]
    if summary.first is not None and result.options.outputs is None:
        culprits.append((summary.first.op, summary.first.place))
    # compare-op takes two such files, not their folders.
    exact = result.options.exact and not result.options.target_index.holds_torch_files
    two_dumps = are_two_dumps(result.options)
    for op, place in culprits:
        if not words and summary.culprit == (op, place):
            words = _replay_of_uncompared(result, op, place)
        options = _of_paired_files(result.options, op, place) if two_dumps else result.options
        unmodelled = exact or two_dumps or options.target_index.is_file
        words = words or closer_words(options, op, place, unmodelled)
    return words or report_words(result.options.out)


def are_two_dumps(options: ComparisonOptions) -> bool:
    """Tell whether GOLDEN is another dump."""
    return options.golden_index.has_dumps


def whose_error_it_is(result: RunResult) -> str:
    """Return what tells whose the error of the first divergence is, where it could not be computed
    again for want of the original model; empty otherwise.
    """
    options = result.options
    if not result.summary.lacks_computing or options.original or not options.model:
        return ""
    if options.outputs is not None:
        return ""
    if (result.summary.recomputed or {}).get("model") or are_two_dumps(options):
        return ""
    return (
        "Whose error it is: --original MODEL.onnx (prototxt, pb) tells it, by computing each "
        "operator again"
    )


def which_dump_is_right(result: RunResult) -> str:
    """Return what tells which of two dumps is right, where they differ; empty otherwise."""
    options = result.options
    if (
        result.summary.culprit is None
        or options.exact
        or (result.summary.recomputed or {}).get("model")
        or not are_two_dumps(options)
    ):
        return ""
    given = "--original MODEL.onnx (prototxt, pb) tells"
    if not options.model:
        given = "-f MODEL.json (of TARGET's build) and --original MODEL.onnx (prototxt, pb) tell"
    return "Which of the two is right: %s it, by computing each operator again" % given


def _of_paired_files(options: ComparisonOptions, op: str, place: Place) -> ComparisonOptions:
    """Return the options of comparing an op's two files, where the other build calls it otherwise:
    by its name alone it has no counterpart.
    """
    from ..run.outputs_of_builds import other_name
    from ..store.store import RunStore

    with RunStore.open(options.out) as store:
        rows = [
            row for row in store.rows(place=place, op=op) if row.kind == OUTPUT and other_name(row)
        ]
    files = [(row.target_file, row.golden_file) for row in rows[:1]]
    if not files or None in files[0]:
        return options
    paths = [
        os.path.join(folder, str(rel))
        for folder, rel in zip((options.target, options.golden), files[0])
    ]
    # What needs a model goes with it.
    return dataclasses.replace(
        options,
        target=paths[0],
        golden=paths[1],
        model=None,
        quantisation=None,
        unfused=None,
        op_range=None,
        select=None,
        plan=None,
        check_addresses=False,
    )


def _replay_of_uncompared(result: RunResult, op: str, place: Place) -> List[str]:
    """Return the words of the command that computes an op again whose outputs nothing was compared
    with; none where something was, or the original model is not known.
    """
    from ..store.store import RunStore

    options = result.options
    model = (result.summary.recomputed or {}).get("model")
    if not model or options.model is None:
        return []
    with RunStore.open(options.out) as store:
        rows = store.rows(place=place, op=op)
        if any(row.kind == OUTPUT and row.verdict in (PASS, FAIL) for row in rows):
            return []
    out = os.path.join(options.out, REPLAY_FOLDER)
    return command_words(
        ["goldwatch", "replay"],
        [_folder_of(options, op, place), model],
        ["-f", options.model, "--op", op, "-o", out],
    )


def masked_beyond_the_type(result: RunResult) -> bool:
    """Tell whether a mask that the device's type does not hold makes NaN of rows, and no operator
    is wrong.
    """
    first, summary = result.first_divergence, result.summary
    masked = first is not None and bool(first.masked)
    return masked and not summary.golden_undefined and not summary.suspects


def _is_of_precision(result: RunResult) -> bool:
    """Tell whether it is a lack of precision that makes rows fail: as the first suspect's error
    looks, or where nothing is wrong and small errors grew.
    """
    summary = result.summary
    if summary.suspects:
        return any(one.of_precision for one in summary.suspects[0].explanations[:1])
    return summary.verdict == FAIL and summary.inherited


def _cure_words(result: RunResult) -> List[str]:
    """Return the words of the command that chooses what to compute in float32, where that mends
    what was found; none elsewhere.
    """
    options = result.options
    special = (options.quantisation, options.unfused, options.custom, options.outputs)
    plain = not options.exact and all(option is None for option in special)
    if result.summary.hosts is not None or not plain or are_two_dumps(options):
        return []
    if not (masked_beyond_the_type(result) or _is_of_precision(result)):
        return []
    if options.model is None or os.path.isdir(options.model):
        return []
    words = ["-f", options.model]
    words += [] if options.original is None else ["--original", options.original]
    words += ["-o", os.path.join(options.out, "cure")]
    return command_words(["goldwatch", "cure"], [options.out], words)


def _replay_words(result: RunResult) -> List[str]:
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
    if options.model is None or os.path.isdir(options.model) or not is_folder(options.golden):
        return []
    from ..recomputing.find_original import original_model_path

    model = original_model_path(options.model, options.golden)
    if model is None:
        return []
    words = [
        "-f",
        options.model,
        "-o",
        os.path.join(options.out, REPLAY_FOLDER),
        "--result",
        options.out,
    ]
    return command_words(["goldwatch", "replay"], [step_folder(result), model], words)


def step_folder(result: RunResult) -> str:
    """Return the folder of the step where a comparison diverges first, or TARGET itself."""
    first, options = result.first_divergence, result.options
    return options.target if first is None else _folder_of(options, first.op, first.place)


def _folder_of(options: ComparisonOptions, op: str, place: Place) -> str:
    """Return the folder of an op's dump, or TARGET itself where that is not known."""
    folder = os.path.join(options.target, *[part for part in place if part is not None])
    if is_folder(folder):
        return folder
    return _folder_by_file(options, op, place) or options.target


def _folder_by_file(options: ComparisonOptions, op: str, place: Place) -> Optional[str]:
    """Return the folder of an op's dump where TARGET has more levels than the place of a dump tells
    (those of TorchAir's ranks); None where it is not there.
    """
    if not is_folder(options.target):
        return None
    from ..store.store import RunStore

    try:
        with RunStore.open(options.out) as store:
            files = [row.target_file for row in store.rows(place=place, op=op) if row.target_file]
    except GoldwatchError:
        return None
    folders = [os.path.dirname(os.path.join(options.target, file)) for file in files[:1]]
    return next(filter(is_folder, folders), None)


def closer_words(
    options: ComparisonOptions,
    op: str,
    place: Place,
    unmodelled: bool = False,
    folder: Optional[str] = None,
) -> List[str]:
    """Return the words of the command that shows an op element by element; none where it would need
    more than one model file or place.

    Parameters
    ----------
    folder
        Where that is written; None: ``detail`` in the run's own folder.
    unmodelled
        Also for a comparison without a model, and of two files.
    """
    if place.host is not None:
        # The dumps are on that host.
        return []
    if options.model is None and (not unmodelled or options.quantisation is not None):
        return []
    # The folder of a place's dumps; TARGET may be that folder or an ancestor of it.
    parts, target_parts = (
        [part for part in place if part is not None],
        os.path.abspath(options.target).split(os.sep),
    )
    shared = next(
        count
        for count in range(len(parts), -1, -1)
        if parts[:count] == target_parts[len(target_parts) - count :]
    )
    target = os.path.join(options.target, *parts[shared:])
    if not is_folder(target):
        target = _folder_by_file(options, op, place) or target
    # Without the dumps, or with them on another machine, rely on what the run recorded.
    known = is_folder(target) or not os.path.exists(options.target)
    if options.model is not None and os.path.isdir(options.model) and not (place.step and known):
        return []
    golden = os.path.join(options.golden, place.step or "")
    operands = [
        target if known else options.target,
        golden if place.step and is_folder(golden) else options.golden,
    ]
    operands += [] if options.target_index.is_file else [op]
    named = (
        ("-f", options.model),
        ("--quant-json", options.quantisation),
        ("--unfused-om", options.unfused),
    )
    model = [word for option, path in named if path for word in (option, path)]
    out = folder or os.path.join(options.out, "detail")
    return command_words(["goldwatch", "compare-op"], operands, [*model, "-o", out])


def _narrow_words(options: ComparisonOptions) -> List[str]:
    """Return the words of the command that writes a configuration which dumps the tensors around
    the first divergence of a comparison of statistics.
    """
    tensors, acl = options.target.rstrip(os.sep) + "_tensors", os.path.join(options.out, "acl.json")
    words = ["--narrow", options.out, "--radius", str(_NARROW_RADIUS), "--data", "tensor"]
    return ["goldwatch", "config", "new", *words, "--dump-path", tensors, "-o", acl]


def _default_words(options: ComparisonOptions, missed: Sequence[str]) -> List[str]:
    """Return the words of the comparison without some limits; none where it has options beyond
    those reproduced here.
    """
    files = (
        ("-f", "model"),
        ("--quant-json", "quantisation"),
        ("--unfused-om", "unfused"),
        ("--original", "original"),
    )
    known = {
        name: getattr(options, name)
        for name in (*(name for _, name in files), "limits", "metrics", "recompute")
    }
    changed = [limit for limit in options.limits.entries if limit not in DEFAULTS]
    replaced = {limit.metric for limit in DEFAULTS if limit not in options.limits.entries}
    again = ComparisonOptions(options.target, options.golden, options.out, **known)
    if again != options or not replaced <= {limit.metric for limit in changed}:
        return []
    words = [word for option, name in files if known[name] for word in (option, known[name])]
    words += [
        word for limit in changed if str(limit) not in missed for word in ("--limit", str(limit))
    ]
    words += ["--recompute", options.recompute] if options.recompute != AUTO else []
    words += ["-o", os.path.join(options.out, "default")]
    return command_words(["goldwatch", "compare"], [options.target, options.golden], words)


def report_words(out: str) -> List[str]:
    """Return the words of the command that writes the report of a run as a page."""
    return command_words(
        ["goldwatch", "report"], [out], ["--html", os.path.join(out, "report.html")]
    )


def closer_commands(options: ComparisonOptions, summary: Mapping[str, Any]) -> Dict[str, str]:
    """Return the commands that look closer at suspects, by op. They can be run anywhere, and each
    has an output folder of its own that a later report reads.

    For a merge it is the report of the host's own run, if that is at hand.
    """
    commands = {}
    hosts = {host["host"]: os.path.abspath(host["folder"]) for host in summary.get("hosts") or ()}
    for number, suspect in enumerate([*summary["suspects"], *summary.get("culprits", ())]):
        place = Place(**suspect["place"]) if "place" in suspect else Place()
        folder = os.path.join(
            os.path.abspath(options.out), "detail" if not number else "detail-%d" % (number + 1)
        )
        words = closer_words(options, suspect["op"], place, unmodelled=True, folder=folder)
        host_result = hosts.get(place.host)
        if host_result is not None and os.path.isdir(host_result):
            words = report_words(host_result)
        if words:
            commands[suspect["op"]] = " ".join(map(shell_word, words))
    return commands
