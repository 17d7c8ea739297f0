"""What a run is asked to do, checked before anything is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple

from ..config.dump_plan import DumpPlan
from ..dumps.dump_tree import holds_statistics
from ..errors import FormatError, OptionsError, UsageError, require_folder
from ..judging.limit_parsing import limits_from_document, parse_limit
from ..judging.limits import Limits
from ..judging.row_judge import RowJudge
from ..metrics.bitwise import DECIDED_BY, EXACT_METRICS
from ..metrics.class_and_box_agreement import AGREEMENT_METRICS, Agreement, parse_boxes
from ..metrics.pair_task import Settings
from ..metrics.row import MEASURES, METRICS
from ..model.graphs_of_run import ModelGraphs, load_models, model_files
from ..model.names_by_second_model import onto_unfused, through_quantisation
from ..model.read_model import load_model
from ..reports.csv_cells import Columns
from ..statistics_dumps.tensor_statistics import MEASURES as STATISTICS
from .user_code_folder import UserCode, find_user_code

AUTO, ONE, EACH, NONE = "auto", "one", "each", "none"

LEAST_SAMPLE = 1024
"""A sample of fewer elements says too little of a tensor."""

_FOLLOWING_COLUMNS = ("op_sequence", "golden_address", "metrics")
ASKED_COLUMNS = tuple(
    column.name for column in fields(Columns) if column.name not in _FOLLOWING_COLUMNS
)
"""The optional columns of the result table that an option of the same name asks for."""

_MODELS_SHOWN = 3
_EXACT_LIMITS = Limits((parse_limit(DECIDED_BY),))


@dataclass(frozen=True)
class ComparisonOptions:
    """The inputs and options of one comparison.

    Attributes
    ----------
    target, golden, out
        Folders.
    model
        om json or GE text graph, that of all dumps; or a folder of them, each for the dumps of its
        own model_name; or None.
    quantisation
        The quantisation json, where the model is quantised and GOLDEN is not; without a model
        TARGET holds the quantised net's own files.
    unfused
        The json of a build without fusion, of which GOLDEN holds the device dumps.
    metrics
        The metrics' columns, in this order.
    limits
        What a tensor must keep.
    op_range
        (first, last, step): only ops whose OpSequence (the json's id) is first, first + step, … or
        last; None: all.
    select
        (first, last) pairs of OpSequence numbers; None: all.
    time
        Of several time folders of one device and model: the newest (None), this one, or ``all``.
    golden_steps
        ``one``: the same golden data for all steps. ``each``: step N takes those below GOLDEN/N/.
        ``auto``: a step takes those of a folder with its number, where GOLDEN has folders with
        numbers.
    overflow, mapping
        The OverFlow column; the mapping table.
    allow_missing
        Forgive absent golden and dump files.
    check_addresses
        Look for tensors that overlap in memory while both are needed.
    strict
        A run that passes but has suspects ends with 1.
    custom
        Folder with the user's own metrics and conversions, whose code is run; None: there are none.
    metric_arguments
        For the names of the user's metrics their options.
    original
        The original model, from which operators are computed again; None: the one that golden data
        were made of, where it is found.
    recompute
        Which operators are computed again: ``auto``, ``all`` or ``none``.
    max_elements
        Of larger tensors only a sample of at most so many elements is compared; 0: everything is.
    plan
        What the device was asked to dump: what that leaves out is not missing. None: nobody says.
    outputs
        TARGET holds what a program wrote as outputs of the network: ``NAME=FILE[:DTYPE[:SHAPE]]``,
        or none where they are to be found. None: TARGET holds dumps.
    boxes
        Of ``outputs`` those that hold boxes, ``OUTPUT[=COLUMN,…]``.
    exact
        Bytes are compared: ``metrics`` and ``limits`` are those of
        :mod:`goldwatch.metrics.bitwise`, whatever is given here.
    """

    target: str
    golden: str
    out: str
    model: Optional[str] = None
    metrics: Tuple[str, ...] = METRICS
    limits: Limits = Limits()
    op_range: Optional[Tuple[int, int, int]] = None
    select: Optional[Tuple[Tuple[int, int], ...]] = None
    overflow: bool = False
    mapping: bool = False
    allow_missing: bool = False
    strict: bool = False
    time: Optional[str] = None
    golden_steps: str = AUTO
    quantisation: Optional[str] = None
    unfused: Optional[str] = None
    check_addresses: bool = False
    custom: Optional[str] = None
    metric_arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    max_elements: int = 0
    original: Optional[str] = None
    recompute: str = AUTO
    plan: Optional[DumpPlan] = None
    exact: bool = False
    outputs: Optional[Tuple[str, ...]] = None
    boxes: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.exact:
            # The class is frozen for its users.
            self.__dict__.update(metrics=EXACT_METRICS, limits=_EXACT_LIMITS, recompute="none")
            if (
                self.max_elements
                or self.custom
                or self.overflow
                or self.quantisation
                or self.unfused
            ):
                raise UsageError(
                    "bytes are compared as they are stored: no samples, metrics of your own, "
                    "OverFlow or second models"
                )
        if (self.op_range or self.select) and self.model is None:
            raise OptionsError(
                "{op_range} and {select} count by the json's OpSequence: they need {model}"
            )
        if self.op_range and self.select:
            raise OptionsError("{op_range} and {select} exclude each other")
        if self.unfused and self.model is None:
            raise OptionsError("{unfused} leads on the names of a model: it needs {model}")
        if self.check_addresses and self.model is None:
            raise OptionsError(
                "{check_addresses} needs {model}: until when a tensor is needed is known by the "
                "model only"
            )
        if self.plan is not None and self.model is None:
            raise OptionsError("{plan} leaves out ops that only the model knows: it needs {model}")
        if self.max_elements and self.max_elements < LEAST_SAMPLE:
            raise UsageError(
                "a sample of %d elements says too little: %d or more"
                % (self.max_elements, LEAST_SAMPLE)
            )
        if self.quantisation and self.unfused:
            raise OptionsError("{quantisation} and {unfused} exclude each other")
        if (self.quantisation or self.unfused) and os.path.isdir(self.model or ""):
            files = (
                ", ".join(model_files(self.model or "")[:_MODELS_SHOWN])
                or "the json of the om, or of GE's graph"
            )
            raise OptionsError(
                "{quantisation} and {unfused} belong to one model: %s is a folder" % self.model,
                hint="name its file: %s" % files,
            )

    @property
    def models(self) -> Tuple[str, ...]:
        """The model's file and the one that leads its names on, as far as there are any."""
        return tuple(path for path, _ in self.named_models)

    @property
    def named_models(self) -> Tuple[Tuple[str, str], ...]:
        """The same, each with what it is, for a message."""
        named = (
            (self.model, "the model"),
            (self.quantisation, "the quantisation json"),
            (self.unfused, "the json of the unfused build"),
        )
        return tuple((path, what) for path, what in named if path is not None)

    @property
    def user_code(self) -> UserCode:
        """The user's metrics and conversions. Raises as :func:`find_user_code`."""
        return find_user_code(self.custom, self.metric_arguments)

    def graphs(self) -> ModelGraphs:
        """Read the models, the original names led on where a second file says so; none without.
        Raises as :func:`load_models`.
        """
        return read_graphs(self.model, self.quantisation, self.unfused)

    def require_dumps(self, to_come: bool = False) -> None:
        """Raise unless a device's dumps can be compared: TARGET and GOLDEN are folders, a quantised
        model is named.

        Parameters
        ----------
        to_come
            TARGET may be missing so far, or lie on other machines.

        Raises
        ------
        UsageError, MissingPath
            It is not so.
        """
        self.require_model_of_quantised()
        if not (to_come and self.target) or os.path.exists(self.target):
            require_folder(self.target, "TARGET")
        require_folder(self.golden, "GOLDEN")

    def require_model_of_quantised(self) -> None:
        """Raise UsageError where a quantised model's dumps come and its own json is not named."""
        if self.quantisation is not None and self.model is None:
            raise OptionsError("{quantisation} leads on the names of a model: it needs {model}")

    def of_statistics(self, known: bool = False) -> ComparisonOptions:
        """Return the options for a TARGET that holds statistics in place of tensors (``known``: it
        does); the same for any other.

        Statistics have columns of their own, unless others were asked for, and nothing is computed
        again from them.
        """
        known = known or (self.plan is not None and self.plan.data == "stats")
        known = known or holds_statistics(self.target) or holds_statistics(self.golden)
        if not known:
            return self
        if self.metrics != METRICS:
            return replace(self, recompute=NONE)
        return replace(self, metrics=("StandardDeviation", *STATISTICS), recompute=NONE)

    def require_own_out(self) -> None:
        """Raise UsageError where OUT is TARGET or GOLDEN itself: what is read would hold result
        files. It may lie in either.
        """
        for path, what in ((self.target, "TARGET"), (self.golden, "GOLDEN")):
            if os.path.realpath(self.out) == os.path.realpath(path):
                raise UsageError(
                    "OUT is %s itself: %s" % (what, path),
                    hint="result files have a folder of their own, which may lie in it",
                )

    def settings(self) -> Settings:
        """Return what the workers compute: the metrics shown and those with limits."""
        metrics = tuple(
            name for name in MEASURES if name in self.metrics or name in self.limits.metrics
        )
        code = self.user_code
        user_metrics = tuple(
            metric
            for metric in code.metrics
            if metric.name in self.metrics or metric.name in self.limits.metrics
        )
        judge, most = RowJudge(self.limits), self.max_elements
        return Settings(
            metrics,
            self.overflow,
            judge,
            user_metrics,
            code.conversions,
            most,
            exact=self.exact,
            agreement=self.agreement,
        )

    @property
    def agreement(self) -> Optional[Agreement]:
        """What is computed of outputs besides their distances; None for dumps. Raises UsageError
        where ``boxes`` has another form.
        """
        return None if self.outputs is None else Agreement(tuple(map(parse_boxes, self.boxes)))

    def columns(self, golden_address: bool, overflow: bool = False) -> Columns:
        """Return the columns of the result table; ``overflow``: that column is there also where it
        was not asked for.
        """
        asked = {name: bool(getattr(self, name)) for name in ASKED_COLUMNS}
        asked["overflow"] = self.overflow or overflow
        return Columns(
            op_sequence=bool(self.op_range or self.select),
            golden_address=golden_address,
            metrics=self.metrics,
            **asked,
        )

    def identity(self) -> Dict[str, Any]:
        """Return what results depend on, as JSON values: a store of other ones is not continued."""
        identity: Dict[str, Any] = {
            "target": os.path.realpath(self.target),
            "golden": os.path.realpath(self.golden),
            "model": None if self.model is None else os.path.realpath(self.model),
            "metrics": list(self.metrics),
            "limits": self.limits.document(),
            "range": None if self.op_range is None else list(self.op_range),
            "select": None if self.select is None else [list(pair) for pair in self.select],
            **{name: bool(getattr(self, name)) for name in ASKED_COLUMNS},
        }
        if self.time is not None:
            identity["time"] = self.time
        if self.golden_steps != AUTO:
            identity["golden_steps"] = self.golden_steps
        for name, path in (("quantisation", self.quantisation), ("unfused", self.unfused)):
            if path is not None:
                identity[name] = os.path.realpath(path)
        if self.max_elements:
            identity["max_elements"] = self.max_elements
        if self.plan is not None:
            identity["plan"] = self.plan.to_document()
        if self.exact:
            identity["exact"] = True
        if self.outputs is not None:
            identity["outputs"], identity["boxes"] = list(self.outputs), list(self.boxes)
        if self.custom is not None:
            identity["custom"] = os.path.realpath(self.custom)
            identity["user_metrics"] = {
                name: dict(self.metric_arguments.get(name, {})) for name in self.user_code.names
            }
        return identity

    @classmethod
    def from_identity(cls, out: str, identity: Mapping[str, Any]) -> ComparisonOptions:
        """Return the options that :meth:`identity` was made of; those that rows do not depend on
        have their defaults.

        Raises
        ------
        FormatError
            The store that it comes from holds something else.
        """
        try:
            columns: Dict[str, Any] = {name: bool(identity[name]) for name in ASKED_COLUMNS}
            arguments = {
                str(name): dict(entry) for name, entry in identity.get("user_metrics", {}).items()
            }
            known = (
                *arguments,
                *(AGREEMENT_METRICS if identity.get("outputs") is not None else ()),
            )
            return cls(
                target=str(identity["target"]),
                golden=str(identity["golden"]),
                out=out,
                model=None if identity["model"] is None else str(identity["model"]),
                metrics=tuple(str(name) for name in identity["metrics"]),
                limits=limits_from_document(identity["limits"], known),
                op_range=None
                if identity["range"] is None
                else (identity["range"][0], identity["range"][1], identity["range"][2]),
                select=None
                if identity["select"] is None
                else tuple((first, last) for first, last in identity["select"]),
                **columns,
                time=identity.get("time"),
                golden_steps=identity.get("golden_steps", AUTO),
                quantisation=identity.get("quantisation"),
                unfused=identity.get("unfused"),
                custom=identity.get("custom"),
                max_elements=int(identity.get("max_elements", 0)),
                metric_arguments={name: entry for name, entry in arguments.items() if entry},
                plan=DumpPlan.from_document(identity["plan"]) if "plan" in identity else None,
                exact=bool(identity.get("exact")),
                outputs=None
                if identity.get("outputs") is None
                else tuple(map(str, identity["outputs"])),
                boxes=tuple(map(str, identity.get("boxes", ()))),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise FormatError(
                "the store does not say what was compared (%s: %s)" % (type(error).__name__, error),
                out,
            ) from None

    def selection(self, graphs: ModelGraphs) -> Optional[FrozenSet[int]]:
        """Return the json's ids that were asked for, of every model the same; None when all are.

        Raises
        ------
        UsageError
            An id is beyond the json's.
        """
        if not graphs or not (self.op_range or self.select):
            return None
        ids = {op.id for graph in graphs.graphs for op in graph.ops}
        last = max(ids, default=0)
        if self.op_range:
            start, stop, step = self.op_range
            _check_last(stop, last)
            selected = {
                number
                for number in ids
                if start <= number <= stop and ((number - start) % step == 0 or number == stop)
            }
        else:
            selected = set()
            for start, stop in self.select or ():
                _check_last(stop, last)
                selected.update(number for number in ids if start <= number <= stop)
        if not selected:
            first = min(ids, default=0)
            raise UsageError(
                "the json has no op with the OpSequence asked for",
                hint="its ids run from %d to %d" % (first, last),
            )
        return frozenset(selected)


def _check_last(number: int, last: int) -> None:
    if number > last:
        raise UsageError("OpSequence %d is beyond the json's last, %d" % (number, last))


def read_graphs(
    model: Optional[str], quantisation: Optional[str] = None, unfused: Optional[str] = None
) -> ModelGraphs:
    """Read the models as :meth:`ComparisonOptions.graphs` does."""
    if model is None:
        # The files of the quantised net itself: its json is their model.
        return (
            ModelGraphs() if quantisation is None else ModelGraphs.of_all(load_model(quantisation))
        )
    if quantisation is not None:
        return ModelGraphs.of_all(through_quantisation(load_model(model), load_model(quantisation)))
    if unfused is not None:
        return ModelGraphs.of_all(onto_unfused(load_model(model), load_model(unfused)))
    return load_models(model)
