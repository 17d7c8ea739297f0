"""A result opened again, so that its operators can be computed from its dumps."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Iterator, NamedTuple, Optional

from ..diagnosis.replay_summary import REPLAY
from ..dumps.dump_tree import DumpTree
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place
from ..errors import InputError
from ..metrics.row import FAIL
from ..model.graph import ModelGraph
from ..run.comparison_options import ONE, ComparisonOptions
from ..run.dump_catalogue import Catalogue
from ..run.engine import Engine
from ..run.golden_files import Goldens
from ..run.run_status import stored_options
from ..run.workers import Workers
from ..store.host_facts import host_summaries
from ..store.store import RunStore


class OpenedResult(NamedTuple):
    """One place of a result, with what its tensors are read by.

    Attributes
    ----------
    engine
        The run's engine, with its dumps and golden data.
    place, graph
        Where the first failing row is, and the model of that place.
    original
        The model that the om was made from; None where neither the caller nor the result names it.
    is_replay
        The result is a replay's, which knows no golden data but each operator's own.
    """

    engine: Engine
    place: Place
    graph: ModelGraph
    original: Optional[str]
    is_replay: bool


@contextlib.contextmanager
def opened_result(result: str, model: str, original: Optional[str]) -> Iterator[OpenedResult]:
    """Open a result; of a merged one that of the host where the first failing operator is.

    Parameters
    ----------
    result
        A folder that compare, run, watch, merge or replay wrote.
    model
        The json of the om.
    original
        The model that it was made from; None: it is looked for where the result's golden data say.

    Raises
    ------
    InputError
        The result is of something that tells nothing of operators, or its dumps are gone.
    GoldwatchError
        The store or a model cannot be read.
    """
    with contextlib.ExitStack() as opened:
        store = opened.enter_context(RunStore.open(result))
        while store.has_hosts:
            result = _host_folder(store, result)
            store = opened.enter_context(RunStore.open(result))
        options, inputs = stored_options(result, False, store.get), store.get("inputs") or {}
        is_replay = inputs.get("comparison") == REPLAY
        _require_tensors(options, result)
        options = replace(
            options,
            model=model,
            original=original or (inputs.get("original") if is_replay else None),
        )
        place = _place(store, result)
        graph = options.graphs().of(place.model)
        if graph is None:
            text = "%s holds no model of the dumps in %s" % (model, place.label() or options.target)
            raise InputError(text, hint="the json of the om that ran is needed")
        workers = opened.enter_context(Workers(1, options.settings()))
        golden_steps = ONE if is_replay else options.golden_steps
        goldens = Goldens(options.golden, golden_steps, store, dumps_too=False)
        goldens.take(GoldenSet.open(options.golden))
        catalogue = Catalogue(options.target)
        engine = Engine(options, options.graphs(), store, workers, catalogue, goldens)
        yield OpenedResult(engine, place, graph, original or options.original, is_replay)


def _host_folder(store: RunStore, result: str) -> str:
    """Return the folder of the host's own result where the first failing operator of a merged one
    is.
    """
    failing = next(iter(store.rows("arrival", verdict=FAIL)), None)
    context = host_summaries(store)
    host = (
        failing.place.host
        if failing is not None and failing.place.host in context
        else next(iter(context), None)
    )
    folder = context[host].get("folder") if host is not None else None
    if not isinstance(folder, str):
        raise InputError(
            "%s: a merged result that does not say where its hosts' own results are" % result
        )
    return folder


def _require_tensors(options: ComparisonOptions, result: str) -> None:
    if options.outputs is not None:
        what = "it is of final outputs, which tell nothing of single operators"
    elif options.exact:
        what = "it is of bytes, which tell nothing of precision"
    elif (
        not os.path.exists(options.target)
        or not DumpTree(options.target, time=options.time).step_folders
    ):
        what = "the dumps that it is of are not there any more (%s)" % options.target
    else:
        return
    raise InputError(
        "%s: %s" % (result, what), hint="compare dumps with golden data, then cure that result"
    )


def _place(store: RunStore, result: str) -> Place:
    """Return where the first failing row is; the first place where none fails."""
    places = store.places()
    if not places:
        raise InputError("%s holds no rows" % result, hint="compare dumps with golden data first")
    failing = (
        {row.place for row in store.rows("arrival", verdict=FAIL)} if len(places) > 1 else set()
    )
    return min(failing or places, key=Place.order)
