"""The verdict over several hosts, from their merged store alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..base.naming import run_name
from ..base.notes import Note, note, stored_notes
from ..base.wording import listed
from ..dumps.place import Place, name_order
from ..judging.by_recomputation import RecomputationVerdict
from ..judging.diagnosis.device_specific_suspects import explained_over_hosts
from ..judging.diagnosis.first_divergence import FirstDivergence, first_divergence
from ..judging.diagnosis.model_verdict import ABSENT, Difference, ModelSummary
from ..judging.diagnosis.observed_ops import ObservedOp, SomeOps
from ..judging.diagnosis.op_input_states import Inputs
from ..judging.diagnosis.recompute_without_model import TensorReader
from ..judging.diagnosis.row_digest import execution_key
from ..judging.diagnosis.summary import INCOMPLETE, Summary, run_sentence, summarise
from ..judging.diagnosis.suspects import HIGH, LOW, NONE, Suspect, provisional_suspects
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..recomputing.output_error import OwnError
from ..store.host_facts import (
    COMPUTED,
    PlaceLine,
    first_place,
    host_summaries,
    left_out,
    place_lines_of,
)
from ..store.row_schema import from_sql_text, to_sql_text
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, stored_networks
from .comparison_options import ComparisonOptions

FINISHED = "finished"
_NAMED = 5


class ComputedByHosts(TensorReader):
    """Knows what runs computed again at their ends (of a merge at the place that it judges), and
    reads no tensors.
    """

    def __init__(self, document: Iterable[Sequence[Any]]) -> None:
        self._judged = {
            (Place(*place), op, number): RecomputationVerdict(
                state, None if own_error is None else OwnError(*own_error), *rest
            )
            for place, op, number, state, own_error, *rest in document
        }

    def recompute(
        self, inputs: Inputs, urgent: Sequence[ObservedOp], others: Optional[SomeOps] = None
    ) -> Mapping[Tuple[Place, str, int], RecomputationVerdict]:
        """Return what came out; as :meth:`TensorReader.recompute`."""
        return self._judged


def judge_hosts(store: RunStore, options: ComparisonOptions) -> Tuple[Summary, str]:
    """Return summary and sentence of what a merged store holds.

    Operators are judged by all rows of the device and step where the first divergence lies; counts
    are those of all rows of all hosts.
    """
    lines, summaries, missing = place_lines_of(store), host_summaries(store), left_out(store)
    graphs = stored_networks(store.get(GRAPHS) or ())
    place = first_place(store) or _first_failing_place(store)
    rows = store.rows("index", place) if place is not None else ()
    summary = summarise(
        rows, 0, options.limits, None, graphs, reader=ComputedByHosts(store.get(COMPUTED) or ())
    )
    counts = {name: sum(getattr(line, name) for line in lines) for name in PlaceLine._fields[1:]}
    by_host: Dict[str, List[PlaceLine]] = {}
    for line in lines:
        by_host.setdefault(line.place.host or "", []).append(line)
    hosts = tuple(
        _host(host, host_summary, by_host.get(host, []), missing.get(host, 0))
        for host, host_summary in summaries.items()
    )
    ops = graphs.op_count(line.place for line in lines) if graphs else _op_count(store)
    summary = replace(
        summary,
        **counts,
        verdict=_verdict(counts["failed"], counts["outputs"], [host["verdict"] for host in hosts]),
        ops=ops,
        rows=sum(line.rows for line in lines),
        missing=0,
        unpaired=False,
        warnings=tuple(_warnings(summaries, missing)),
        models=_models(lines, summary.first, store, options, bool(missing)),
        steps_without_golden=_union(
            host_summary.get("steps_without_golden", ()) for host_summary in summaries.values()
        ),
        sentence=summary.sentence
        if place is not None
        else "No operator is outside its limits."
        if counts["outputs"]
        else "",
        hosts=hosts,
    )
    devices = _DevicesOfHosts(store, lines)
    suspects: Sequence[Suspect] = (
        provisional_suspects(summary.suspects)
        if place is not None and summaries.get(place.host or "", {}).get("state") != FINISHED
        else [_as_its_host_says(suspect, summaries, devices) for suspect in summary.suspects]
    )
    summary = replace(summary, suspects=_with_those_of_hosts(suspects, summaries, devices))
    return summary, _sentence(summary)


class _DevicesOfHosts:
    """Tells on which devices of all hosts a suspect is wrong."""

    def __init__(self, store: RunStore, lines: Sequence[PlaceLine]) -> None:
        self._store = store
        self._lines = lines
        self._verdicts: Dict[
            Tuple[Optional[str], Optional[str]], Dict[str, Tuple[Tuple[str, str], ...]]
        ] = {}

    def wrong_and_right(self, suspect: Suspect) -> Tuple[List[str], List[str]]:
        """Return the devices on which the suspect's tensor fails in its step, and those on which
        it passes.
        """
        model, step = run_name(suspect.place.model), suspect.place.step
        if (model, step) not in self._verdicts:
            lines = [line for line in self._lines if run_name(line.place.model) == model]
            in_step = [line for line in lines if line.place.step == step]
            verdicts = _verdicts_in_step(step, in_step, _devices_of(lines), self._store)
            self._verdicts[model, step] = dict(verdicts)
        each = self._verdicts[model, step].get(suspect.tensor, ())
        wrong, right = (
            [device for device, verdict in each if verdict == which] for which in (FAIL, PASS)
        )
        return wrong, right


def _as_its_host_says(
    suspect: Suspect, summaries: Mapping[str, Mapping[str, Any]], devices: _DevicesOfHosts
) -> Suspect:
    """Return a suspect with what its host's own run says of it, whose tensors are not here, and of
    the devices of all hosts.
    """
    host = suspect.place.host or ""
    for entry in summaries.get(host, {}).get("own_suspects", ()):
        own = Suspect.of_document(entry, suspect.place.host)
        if (own.tensor, own.place) == (suspect.tensor, suspect.place) and own.explanations:
            return _over_hosts(
                replace(
                    suspect,
                    evidence=own.evidence,
                    explanations=own.explanations,
                    confidence=suspect.confidence if own.accuses else NONE,
                ),
                host,
                devices,
            )
    return _over_hosts(suspect, "", devices)


def _over_hosts(suspect: Suspect, host: str, devices: _DevicesOfHosts) -> Suspect:
    """Return a suspect with what the devices of all hosts show; ``host`` is the one whose run tells
    of it, empty where the merge does.
    """
    wrong, right = devices.wrong_and_right(suspect)
    evidence = "on host %s %s" % (host, suspect.evidence) if host else suspect.evidence
    hosts = {device.rpartition("/")[0] for device in wrong}
    if len(hosts) > 1 and not right:
        where = "" if suspect.place.step is None else "in step %s " % suspect.place.step
        evidence += "; %son all %d devices of %d hosts" % (where, len(wrong), len(hosts))
    explanations = explained_over_hosts(
        suspect.explanations,
        suspect.place.host or "",
        wrong,
        right,
        suspect.place.step,
        suspect.confidence != LOW,
    )
    return replace(suspect, evidence=evidence, explanations=explanations)


def _with_those_of_hosts(
    suspects: Sequence[Suspect],
    summaries: Mapping[str, Mapping[str, Any]],
    devices: _DevicesOfHosts,
) -> Tuple[Suspect, ...]:
    """Return the suspects, best first, with those of which a host's own run is sure: only one
    device and step is judged here.
    """
    found = list(suspects)
    known = {(run_name(suspect.place.model), suspect.op) for suspect in suspects}
    for host, about in summaries.items():
        for entry in about.get("own_suspects", ()):
            suspect = Suspect.of_document(entry, host)
            key = (run_name(suspect.place.model), suspect.op)
            if suspect.confidence == HIGH and key not in known:
                known.add(key)
                found.append(_over_hosts(suspect, host, devices))
    return tuple(
        sorted(
            found,
            key=lambda suspect: (-round(suspect.score, 2), name_order(suspect.place.step)),
        )
    )


def _first_failing_place(store: RunStore) -> Optional[Place]:
    sql = "SELECT DISTINCT time, device, model, model_id, step, host FROM row WHERE verdict = ?"
    places = [Place(*map(from_sql_text, line)) for line in store.query(sql, (FAIL,))]
    if not places:
        return None
    step = min((place.step for place in places), key=name_order)
    rows = (
        row for place in places if place.step == step for row in store.rows("arrival", place, FAIL)
    )
    return min(rows, key=execution_key).place


def _verdict(failed: int, outputs: int, hosts: Sequence[str]) -> str:
    if failed or FAIL in hosts:
        return FAIL
    return PASS if outputs and all(verdict == PASS for verdict in hosts) else INCOMPLETE


def _op_count(store: RunStore) -> int:
    return int(
        store.query("SELECT count(*) FROM (SELECT op FROM step_op UNION SELECT op FROM row)")[0][0]
    )


def _host(
    host: str, host_summary: Mapping[str, Any], lines: Sequence[PlaceLine], missing: int
) -> Dict[str, Any]:
    """Return an entry of result.json's ``hosts``."""
    names = ("passed", "failed", "not_compared", "expected_absent")
    counts = {name: sum(getattr(line, name) for line in lines) for name in names}
    verdict = host_summary.get("verdict") or (FAIL if counts["failed"] else INCOMPLETE)
    return {
        "host": host,
        "folder": host_summary.get("folder"),
        "state": host_summary.get("state"),
        "verdict": FAIL if counts["failed"] else verdict,
        "rows": sum(line.rows for line in lines),
        **counts,
        "left_out": missing,
        "first_divergence": host_summary.get("first"),
    }


def _sentence(summary: Summary) -> str:
    """Return the last sentences: which hosts have not finished, and the broken operator."""
    unfinished = [str(entry["host"]) for entry in summary.hosts or () if entry["state"] != FINISHED]
    sentence = run_sentence(summary)
    if not unfinished:
        return sentence
    runs = "The run of %s has" if len(unfinished) == 1 else "The runs of %s have"
    named = (
        summary.first
        if summary.first is not None
        else summary.suspects[0]
        if summary.suspects
        else None
    )
    lacks = (
        ", and operators are computed again only when it ends"
        if named is not None and named.place.host in unfinished
        else ""
    )
    return (runs + " not finished: this is about the rows so far%s. %s") % (
        _named(unfinished),
        lacks,
        sentence,
    )


def _named(hosts: Sequence[str]) -> str:
    return ("host " if len(hosts) == 1 else "hosts ") + listed(hosts, _NAMED)


def _warnings(by_host: Mapping[str, Mapping[str, Any]], missing: Mapping[str, int]) -> List[Note]:
    warnings: List[Note] = []
    of_hosts: Dict[Note, List[str]] = {}
    for host, about in by_host.items():
        if about.get("state") != FINISHED:
            warnings.append(note("host-unfinished", host, about.get("state")))
        for said in stored_notes(about.get("warnings", ())):
            of_hosts.setdefault(said, []).append(host)
    if missing:
        parts = ", ".join(
            "%d of host %s" % (count, host) for host, count in list(missing.items())[:_NAMED]
        )
        total = sum(missing.values())
        warnings.append(note("host-rows-left-out", total, parts))
    return warnings + [said.behind("%s: " % _named(hosts)) for said, hosts in of_hosts.items()]


def _union(sequences: Iterable[Sequence[str]]) -> Tuple[str, ...]:
    return tuple(dict.fromkeys(text for texts in sequences for text in texts))


def _models(
    lines: Sequence[PlaceLine],
    first: Optional[FirstDivergence],
    store: RunStore,
    options: ComparisonOptions,
    some_left: bool,
) -> Tuple[ModelSummary, ...]:
    by_name: Dict[Optional[str], List[PlaceLine]] = {}
    for line in lines:
        by_name.setdefault(run_name(line.place.model), []).append(line)
    models = []
    for its in by_name.values():
        totals = [sum(column) for column in zip(*(line[1:5] for line in its))]
        counts = tuple(
            (verdict, count)
            for verdict, count in zip((PASS, FAIL, NOT_COMPARED, EXPECTED_ABSENT), totals)
            if count
        )
        names = _devices_of(its)
        of_model = (
            first
            if first is not None and first.place in {line.place for line in its}
            else _first_of(its, store, options)
        )
        difference = _difference(its, names, store) if len(names) > 1 else None
        certain = difference is not None or not some_left
        models.append(
            ModelSummary(its[0].place.model, counts, tuple(names), of_model, difference, certain)
        )
    return tuple(models)


def _devices_of(lines: Sequence[PlaceLine]) -> List[str]:
    names = {line.place.device_name for line in lines}
    return sorted((name for name in names if name is not None), key=name_order)


def _first_of(
    lines: Sequence[PlaceLine], store: RunStore, options: ComparisonOptions
) -> Optional[FirstDivergence]:
    """Return the first divergence among some places."""
    failing = [line.place for line in lines if line.failed]
    if not failing:
        return None
    step = min((place.step for place in failing), key=name_order)
    rows = [
        row for place in failing if place.step == step for row in store.rows("arrival", place, FAIL)
    ]
    return first_divergence(rows, options.limits)


def _difference(
    lines: Sequence[PlaceLine], devices: Sequence[str], store: RunStore
) -> Optional[Difference]:
    """Return the first tensor whose verdict is not the same on all devices."""
    steps: Dict[Optional[str], List[PlaceLine]] = {}
    for line in lines:
        steps.setdefault(line.place.step, []).append(line)
    for step in sorted(steps, key=name_order):
        for tensor, each in _verdicts_in_step(step, steps[step], devices, store):
            if len({verdict for _, verdict in each}) > 1:
                return Difference(step, tensor, each)
    return None


def _verdicts_in_step(
    step: Optional[str], lines: Sequence[PlaceLine], devices: Sequence[str], store: RunStore
) -> Iterator[Tuple[str, Tuple[Tuple[str, str], ...]]]:
    """Yield each tensor of a step that did not pass everywhere, with its verdict on each device.

    Where all rows of the step that did not pass are stored, those that have no row here passed, or
    are absent; else nothing is known of them.
    """
    rows: List[Row] = [
        row
        for line in lines
        for row in store.rows("arrival", line.place)
        if row.verdict in (FAIL, NOT_COMPARED)
    ]
    whole = len(rows) == sum(line.failed + line.not_compared for line in lines)
    there = {line.place.device_name for line in lines}
    models = {line.place.model for line in lines}
    verdicts: Dict[str, Dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: execution_key(row)[6:]):
        verdicts.setdefault(row.tensor, {}).setdefault(row.place.device_name or "", row.verdict)
    for tensor, known in verdicts.items():
        failing = [row for row in rows if row.tensor == tensor and row.verdict == FAIL]
        if whole:
            rest = PASS if _some_pass(store, step, tensor, failing, models) else ABSENT
            known = {
                **{device: rest if device in there else ABSENT for device in devices},
                **known,
            }
        yield tensor, tuple((device, known[device]) for device in devices if device in known)


def _some_pass(
    store: RunStore,
    step: Optional[str],
    tensor: str,
    failing: Sequence[Row],
    models: Iterable[Optional[str]],
) -> bool:
    """Tell whether a metric of a tensor has more values, in these models, than those of its failing
    rows.
    """
    names = [to_sql_text(model or "") for model in models]
    sql = (
        "SELECT metric, sum(count) FROM step_op WHERE step = ? AND tensor = ? AND model IN (%s) "
        "GROUP BY metric"
    )
    lines = store.query(
        sql % ", ".join("?" * len(names)), (to_sql_text(step or ""), to_sql_text(tensor), *names)
    )
    return any(
        count > sum(_has_value(row, from_sql_text(metric)) for row in failing)
        for metric, count in lines
    )


def _has_value(row: Row, metric: str) -> bool:
    value = row.metrics.get(metric)
    return isinstance(value, (int, float)) and value == value
