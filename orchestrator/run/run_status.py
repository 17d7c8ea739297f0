"""What a run came to, as its store alone tells it: one that has ended, and one that goes on or was
stopped before its end.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
    get_type_hints,
)

import numpy as np

from ..base.errors import EXIT_INCOMPLETE
from ..base.notes import Note, note, stored_notes
from ..judging.diagnosis.row_digest import RowDigests
from ..judging.diagnosis.summary import (
    INCOMPLETE,
    REPLAY,
    Summary,
    exit_code,
    only_digest_known,
    run_sentence,
    summarise,
)
from ..judging.diagnosis.suspects import provisional_suspects
from ..metrics.row import PASS, Row
from ..model.graphs_of_run import ModelGraphs
from ..store.host_facts import COMPUTED, JUDGED_BY
from ..store.json_numbers import plain_tree
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, SUMMARY, stored_networks
from .comparison_options import NONE, ComparisonOptions

JUDGED = "judged"
"""How a finished run was judged, as its store notes it: what was forgiven, what found no
counterpart at large, its last sentence.
"""

_WHOLE = "whole_summary"

_NOT_COMPUTED = ", and no operator was computed again, which may clear those that it names"


class RunStatus(NamedTuple):
    """What a run has come to.

    Attributes
    ----------
    finished
        False for a run that goes on or was stopped before its end: the rest is about the rows that
        it has so far.
    summary, exit_code, sentence, notes, left_out
        As those of :class:`goldwatch.run.result.RunResult`.
    """

    finished: bool
    summary: Summary
    exit_code: int
    sentence: str
    notes: Tuple[Note, ...] = ()
    left_out: Tuple[Note, ...] = ()


def keep_judgement(
    store: RunStore,
    how: Mapping[str, Any],
    summary: Summary,
    code: int,
    sentence: str,
    notes: Sequence[Note],
    left_out: Sequence[Note] = (),
) -> None:
    """Note in a store what its run came to, and how it was judged; it counts from when
    :data:`goldwatch.store.stored_networks.SUMMARY` is there.

    Parameters
    ----------
    how
        JSON values: ``allow_missing``, ``strict``, ``unmatched``, ``steps_without_golden``,
        ``comparison``, ``golden_fails``, as far as there are any.
    """
    judgement = {
        "sentence": sentence,
        "exit_code": code,
        "notes": [said.document() for said in notes],
        "left_out": [said.document() for said in left_out],
    }
    store.set(JUDGED, {**how, **judgement})
    store.set(_WHOLE, summary_tree(summary))


def stored_options(out: str, hosts: bool, fact: Callable[[str], Any]) -> ComparisonOptions:
    """Return what was compared; raises FormatError where the store, whose facts ``fact`` reads,
    does not say it.

    Parameters
    ----------
    hosts
        It is of several hosts: their own runs were asked for that.
    """
    return ComparisonOptions.from_identity(out, fact(JUDGED_BY if hosts else "inputs") or {})


def run_status(store: RunStore, options: ComparisonOptions) -> RunStatus:
    """Return what the run of a store has come to: what it said itself where it has ended, else what
    its rows so far say.
    """
    document = store.get(SUMMARY)
    if document is None:
        return _so_far(store, options)
    judged: Dict[str, Any] = store.get(JUDGED) or {}
    summary, sentence = summary_of(store.get(_WHOLE)), judged.get("sentence")
    if summary is None or plain_tree(summary.document()) != document:
        # Another version ended the run, and kept less or something else.
        summary, anew = _judged_anew(store, options)
        sentence = sentence or anew
    code = judged.get("exit_code")
    if code is None:
        code = exit_code(summary, strict=bool(judged.get("strict")))
    return RunStatus(
        True,
        summary,
        int(code),
        str(sentence),
        stored_notes(judged.get("notes", ())),
        stored_notes(judged.get("left_out", ())),
    )


def _so_far(store: RunStore, options: ComparisonOptions) -> RunStatus:
    """Judge the rows so far; ops are those that have rows."""
    summary, sentence = _judged_anew(store, options)
    computed = ""
    if (
        options.recompute != NONE
        and not store.has_hosts
        and (summary.suspects or (summary.first is not None and summary.culprits is None))
    ):
        summary = replace(summary, suspects=provisional_suspects(summary.suspects))
        computed = _NOT_COMPUTED
    said = note("unfinished", summary.rows, computed) if summary.rows else note("no-rows", computed)
    verdict = INCOMPLETE if summary.verdict == PASS else summary.verdict
    summary = replace(
        summary,
        ops=summary.ops if store.has_hosts else store.op_count(),
        verdict=verdict,
        warnings=(said, *summary.warnings),
    )
    return RunStatus(
        False, summary, EXIT_INCOMPLETE, "%s. %s" % (said[0].upper() + said[1:], sentence)
    )


def _judged_anew(store: RunStore, options: ComparisonOptions) -> Tuple[Summary, str]:
    """Return summary and sentence of the rows that a store holds, forgiving what its run forgave;
    no element is read again.
    """
    from .verdict_over_hosts import ComputedByHosts, judge_hosts

    if store.has_hosts:
        return judge_hosts(store, options)
    graphs = stored_networks(store.get(GRAPHS) or ())
    ops = graphs.op_count(store.places()) if graphs else store.op_count()
    judged = store.get(JUDGED) or {}
    unmatched = stored_notes(judged.get("unmatched", ()))
    without_golden = judged.get("steps_without_golden", [])
    arguments = (options.limits, store.get("program"), graphs, bool(judged.get("allow_missing")))
    # What an earlier end computed is of the files that were there then.
    computed = (
        ComputedByHosts(store.get(COMPUTED) or ()) if store.get(SUMMARY) is not None else None
    )
    summary = summarise(store.rows("index"), ops, *arguments, computed, unmatched, without_golden)
    by_rows = options.exact or options.outputs is not None
    rows = list(store.rows("index")) if by_rows else ()
    golden_fails = bool(judged.get("golden_fails"))
    summary = in_words_of_kind(summary, rows, store, options, graphs, golden_fails)
    return summary, run_sentence(summary, unmatched)


def in_words_of_kind(
    summary: Summary,
    rows: Union[RowDigests, Sequence[Row]],
    store: RunStore,
    options: ComparisonOptions,
    graphs: ModelGraphs,
    golden_fails: bool,
    whole: Callable[[int], Row] = only_digest_known,
) -> Summary:
    """Return the summary of a replay, of a run of bytes, of final outputs or of two files as that
    of its kind; any other's as it is.

    Parameters
    ----------
    golden_fails
        As for :func:`goldwatch.judging.diagnosis.replay_summary.replay_summary`.
    """
    inputs = store.get("inputs") or {}
    if inputs.get("comparison") == REPLAY:
        from ..judging.diagnosis.replay_summary import replay_summary

        some_ops = bool(inputs.get("ops"))
        return replay_summary(summary, store.rows("index"), options.limits, golden_fails, some_ops)
    if options.exact:
        from ..judging.diagnosis.exact_summary import exact_summary

        return exact_summary(summary, rows, options.limits, graphs, whole)
    if options.outputs is not None:
        from ..judging.diagnosis.outputs_summary import outputs_summary

        return outputs_summary(summary, whole if isinstance(rows, RowDigests) else rows.__getitem__)
    if options.target_index.is_file:
        from ..judging.diagnosis.outputs_summary import array_summary

        return array_summary(summary, options.target, options.golden)
    return summary


def summary_tree(summary: Summary) -> Any:
    """Return a summary as a lossless JSON value for the store (result.json leaves some fields out
    and rounds numbers); numbers that are not finite stay floats.
    """
    return _tree(summary)


def summary_of(tree: Any) -> Optional[Summary]:
    """Return what :func:`summary_tree` made the value of; None where it is no such value, as of
    another version.
    """
    try:
        summary = _value_of(Summary, tree)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    return summary if isinstance(summary, Summary) else None


def _tree(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            field.name: _tree(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _tree(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(entry) for entry in value]
    if isinstance(value, Note):
        return value.document()
    return value.item() if isinstance(value, np.generic) else value


def _value_of(kind: Any, tree: Any) -> Any:
    """Return a value of a type as an annotation names it; Mappings stay as they are."""
    origin: Any = getattr(kind, "__origin__", None)
    inner: Any = getattr(kind, "__args__", ())
    if kind is Note:
        return stored_notes([tree])[0]
    if origin is Union:
        return None if tree is None else _value_of(inner[0], tree)
    if origin is tuple:
        kinds = [inner[0]] * len(tree) if inner[1:] == (...,) else inner
        return tuple(_value_of(*pair) for pair in zip(kinds, tree))
    if dataclasses.is_dataclass(kind):
        make: Any = kind
        kinds = get_type_hints(kind)
        return make(**{name: _value_of(kinds[name], entry) for name, entry in tree.items()})
    if hasattr(kind, "_fields"):
        return kind(*map(_value_of, get_type_hints(kind).values(), tree))
    return tree
