"""What a run is asked to do, checked before anything is opened."""

from __future__ import annotations

import os
import re
from dataclasses import field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    FrozenSet,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ..base.errors import FormatError, OptionsError, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.option_fields import (
    LIMITS,
    MODEL,
    OUTPUT,
    RECORDED_PATH,
    SPEED,
    WHAT,
    Recorded,
    option,
    read_recorded,
    recorded_options,
)
from ..dumps.dump_index import DumpIndex, are_files, indexes_of
from ..dumps.dump_tree import ALL_TIMES
from ..dumps.tensor_statistics import MEASURES as STATISTICS
from ..judging.limits import Limits, limits_from_document, parse_limit
from ..judging.row_judge import RowJudge
from ..metrics.pair_task import Settings
from ..metrics.row import AGREEMENT_METRICS, EXACT_LIMIT, EXACT_METRICS, MEASURES, METRICS
from ..model.graphs_of_run import ModelGraphs, load_models, model_files
from ..model.read_model import load_model
from ..reports.csv_cells import Columns
from ..tensors import user_conversions
from ..tensors.user_conversions import UserConversions

if TYPE_CHECKING:
    from ..config.dump_plan import DumpPlan
    from ..metrics.class_and_box_agreement import Agreement
    from ..metrics.user_metrics import UserMetric


class UserCode(NamedTuple):
    """What is in the folder."""

    metrics: Tuple[UserMetric, ...] = ()
    conversions: UserConversions = UserConversions()

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of the metrics."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def scripts(self) -> Tuple[str, ...]:
        """All files: results that were made with other ones do not hold."""
        return tuple(metric.script for metric in self.metrics) + self.conversions.scripts


def find_user_code(folder: Optional[str], arguments: Mapping[str, Mapping[str, str]]) -> UserCode:
    """Return what is in a folder; nothing for None.

    Parameters
    ----------
    arguments
        For each metric's name its options.

    Raises
    ------
    InputError
        There is no such folder.
    UsageError
        It holds neither a metric nor a conversion, or what :func:`find_user_metrics` says; options
        without a folder.
    """
    if folder is None:
        if arguments:
            raise UsageError("options for metrics need the folder that holds the metrics")
        return UserCode()
    from ..metrics import user_metrics

    user_code = UserCode(
        user_metrics.find_user_metrics(folder, arguments), UserConversions(folder, required=False)
    )
    if not user_code.scripts:
        raise UsageError(
            "%s holds neither a metric nor a conversion" % folder,
            hint="they are %s/alg_NAME.py and %s/convert_A_to_B.py"
            % (user_metrics.FOLDER, user_conversions.FOLDER),
        )
    return user_code


AUTO, ONE, EACH, ALL, NONE = "auto", "one", "each", "all", "none"

LEAST_SAMPLE = 1024
"""A sample of fewer elements says too little of a tensor."""

_FOLLOWING_COLUMNS = ("op_sequence", "golden_address", "metrics")
ASKED_COLUMNS = tuple(
    column.name for column in fields(Columns) if column.name not in _FOLLOWING_COLUMNS
)
"""The optional columns of the result table that an option of the same name asks for."""

_MODELS_SHOWN = 3
_SELECT = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?\Z")
_EXACT_LIMITS = Limits((parse_limit(EXACT_LIMIT),))

RECORDED_COLUMN = Recorded(bool, bool, always=True)
_RECORDED_TEXTS = Recorded(list, lambda texts: tuple(map(str, texts)))


def parse_range(text: str) -> Tuple[int, int, int]:
    """Return ``--range START,END[,STEP]`` as numbers (START and END inclusive; END -1: the last).

    Raises
    ------
    UsageError
        Another form, a step of 0, or backwards.
    """
    parts = [part.strip() for part in text.split(",")]
    if not re.match(r"[0-9]{1,9},(-1|[0-9]{1,9})(,[0-9]{1,9})?\Z", ",".join(parts)):
        raise OptionsError(
            "{op_range} %s: expected START,END[,STEP] in whole numbers" % text,
            hint="for example {op_range} 10,50,5",
        )
    numbers = [int(part) for part in parts] + [1]
    start, stop, step = numbers[:3]
    if start > stop >= 0:
        raise OptionsError(
            "{op_range} %s: runs backwards (%d is larger than %d)" % (text, start, stop),
            hint="for example {op_range} %d,%d; an END of -1 is the last op" % (stop, start),
        )
    if step < 1:
        raise OptionsError("{op_range} %s: the step must be 1 or more" % text)
    return start, stop, step


def parse_select(texts: Sequence[str]) -> Tuple[Tuple[int, int], ...]:
    """Return ``--select 3,7-9`` as (first, last) pairs.

    Raises
    ------
    UsageError
        Another form, or a range that runs backwards.
    """
    pairs = []
    for part in ",".join(texts).split(","):
        match = _SELECT.match(part)
        if match is None:
            raise OptionsError(
                "{select} %s: expected whole numbers and ranges" % ",".join(texts),
                hint="for example {select} 3,7-9",
            )
        start = int(match.group(1))
        stop = int(match.group(2)) if match.group(2) else start
        if start > stop:
            raise OptionsError("{select}: %s runs backwards" % part.strip())
        pairs.append((start, stop))
    return tuple(pairs)


def parse_time(text: str) -> str:
    """Return ``--time`` unchanged: 14 digits, or ``all``.

    Raises
    ------
    UsageError
        Another form.
    """
    if text == ALL_TIMES or re.match(r"[0-9]{14}\Z", text):
        return text
    raise OptionsError(
        "{time} %s: expected the name of a time folder (14 digits), or all" % text,
        hint="for example {time} 20260102030405",
    )


def _plan_from_document(document: Mapping[str, Any]) -> DumpPlan:
    from ..config.dump_plan import DumpPlan

    return DumpPlan.from_document(document)


@dataclass(frozen=True)
class ComparisonOptions:
    """The inputs and options of one comparison.

    The help of an option says what it is; :mod:`goldwatch.base.option_fields` reads the table.

    Attributes
    ----------
    target, golden, out
        Folders.
    limits
        What a tensor must keep.
    custom
        Folder with the user's own metrics and conversions, whose code is run; None: there are none.
    metric_arguments
        For the names of the user's metrics their options.
    plan
        What the device was asked to dump: what that leaves out is not missing. None: nobody says.
    indexes
        What lies below TARGET and GOLDEN, as far as it was listed already.
    outputs
        Not None: TARGET holds what a program wrote as outputs of the network, these or, where none
        is named, those that are found.
    exact
        Bytes are compared: ``metrics`` and ``limits`` are those of
        :mod:`goldwatch.metrics.bitwise`, whatever is given here.
    """

    target: str
    golden: str
    out: str
    model: Optional[str] = option(
        "-f",
        "--model",
        metavar="OM.json",
        topic=MODEL,
        help="The model: json of an om (atc --mode=1), or GE's text graph; or a folder of them, "
        "one for each model_name.",
        recorded=Recorded(os.path.realpath, always=True),
    )
    limits: Limits = Limits()
    outputs: Optional[Tuple[str, ...]] = option(
        "--outputs",
        repeatable=True,
        metavar="NAME=FILE[:DTYPE:SHAPE]",
        topic=WHAT,
        help="TARGET holds outputs of the network, no dumps; this file is that of an op, or of a "
        "number. [default: found by their names]",
        recorded=_RECORDED_TEXTS,
    )
    boxes: Tuple[str, ...] = option(
        "--boxes",
        repeatable=True,
        metavar="OUTPUT[=COLUMN,…]",
        topic=WHAT,
        help="An output that holds boxes, and what its columns are: x1,y1,x2,y2 or cx,cy,w,h, "
        "score, class, _.",
        default=(),
    )
    exact: bool = option(
        "--exact",
        topic=WHAT,
        help="Compare two runs of one model bit for bit: GOLDEN is the other run.",
        default=False,
        recorded=Recorded(read=bool),
    )
    op_range: Optional[Tuple[int, int, int]] = option(
        "--range",
        metavar="START,END[,STEP]",
        topic=WHAT,
        help="Only ops with these OpSequence numbers (json ids), END always; END -1: the last.",
        parse=parse_range,
        recorded=Recorded(list, lambda ids: (ids[0], ids[1], ids[2]), "range", always=True),
    )
    select: Optional[Tuple[Tuple[int, int], ...]] = option(
        "--select",
        repeatable=True,
        metavar="3,7-9",
        topic=WHAT,
        help="Only ops with these OpSequence numbers.",
        parse=parse_select,
        recorded=Recorded(
            lambda pairs: [list(pair) for pair in pairs],
            lambda pairs: tuple((first, last) for first, last in pairs),
            always=True,
        ),
    )
    time: Optional[str] = option(
        "--time",
        metavar="T|all",
        topic=WHAT,
        help="The time folder that counts.  [default: the newest of each device and model]",
        parse=parse_time,
        recorded=Recorded(),
    )
    check_addresses: bool = option(
        "--check-addresses",
        topic=WHAT,
        help="Report tensors that overlap in memory while both are needed.",
        default=False,
    )
    golden_steps: str = option(
        "--golden-steps",
        choices=(AUTO, ONE, EACH),
        topic=MODEL,
        help="One golden set for all steps, or GOLDEN/{step}/ for each; auto: each where the "
        "folders are numbers.",
        default=AUTO,
        show_default=True,
        recorded=Recorded(),
    )
    quantisation: Optional[str] = option(
        "--quant-json",
        metavar="JSON",
        topic=MODEL,
        help="The quantisation json: a quantised model (without -f: its npy or quant files) "
        "against the net before.",
        recorded=RECORDED_PATH,
    )
    unfused: Optional[str] = option(
        "--unfused-om",
        metavar="JSON",
        topic=MODEL,
        help="The model of a build without fusion, whose dumps GOLDEN holds.",
        recorded=RECORDED_PATH,
    )
    original: Optional[str] = option(
        "--original",
        metavar="MODEL",
        topic=MODEL,
        help="The original model (.prototxt, .pb, .onnx), by which operators are computed again.  "
        "[default: the one that golden data were made of]",
    )
    allow_missing: bool = option(
        "--allow-missing",
        topic=LIMITS,
        help="Accept missing golden or dump files.",
        default=False,
    )
    strict: bool = option(
        "--strict",
        topic=LIMITS,
        help="End with 1 when everything passes but an operator is suspect.",
        default=False,
    )
    metrics: Tuple[str, ...] = option(
        "--metrics",
        metavar="NAME,…",
        topic=LIMITS,
        help="The metrics to show, in this order; all: the ten, and those of --custom.  "
        "[default: all]",
        default=METRICS,
        # The command knows the names of the user's own.
        parse=str,
        recorded=_RECORDED_TEXTS._replace(always=True),
    )
    overflow: bool = option(
        "--overflow",
        topic=OUTPUT,
        help="Add the OverFlow column.",
        default=False,
        recorded=RECORDED_COLUMN,
    )
    mapping: bool = option(
        "--mapping",
        topic=OUTPUT,
        help="Also write the table of files, mapping_{time}.csv.",
        default=False,
    )
    recompute: str = option(
        "--recompute",
        choices=(AUTO, ALL, NONE),
        topic=SPEED,
        help="Which operators are computed again from the device's own inputs; auto: those that "
        "fail or are suspect, and a sample of the others, for a fifth of the time that comparing "
        "takes.",
        default=AUTO,
        show_default=True,
    )
    max_elements: int = option(
        "--max-elements",
        least=LEAST_SAMPLE,
        metavar="N",
        topic=SPEED,
        help="Of larger tensors compare a sample of at most N elements.  [default: all elements]",
        default=0,
        recorded=Recorded(read=int),
    )
    plan: Optional[DumpPlan] = option(
        recorded=Recorded(lambda plan: plan.to_document(), _plan_from_document)
    )
    custom: Optional[str] = option(recorded=RECORDED_PATH)
    metric_arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    indexes: Tuple[DumpIndex, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if [index.root for index in self.indexes] != [self.target, self.golden]:
            # The class is frozen for its users.
            self.__dict__["indexes"] = indexes_of(self.target, self.golden)
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
            self.target_index.require()
        self.golden_index.require()

    @property
    def target_index(self) -> DumpIndex:
        """What lies below TARGET."""
        return self.indexes[0]

    @property
    def golden_index(self) -> DumpIndex:
        """What lies below GOLDEN."""
        return self.indexes[1]

    @property
    def are_files(self) -> bool:
        """Whether TARGET and GOLDEN are two single files. Raises as
        :func:`goldwatch.dumps.dump_index.are_files`.
        """
        return are_files(self.indexes)

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
        known = known or self.target_index.holds_statistics or self.golden_index.holds_statistics
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
        if self.outputs is None:
            return None
        from ..metrics.class_and_box_agreement import Agreement, parse_boxes

        return Agreement(tuple(map(parse_boxes, self.boxes)))

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
            "limits": self.limits.document(),
            **recorded_options(self),
        }
        if self.outputs is not None:
            identity["boxes"] = list(self.boxes)
        if self.custom is not None:
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
                limits=limits_from_document(identity["limits"], known),
                boxes=tuple(map(str, identity.get("boxes", ()))),
                metric_arguments={name: entry for name, entry in arguments.items() if entry},
                **read_recorded(cls, identity),
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
            stop = last if stop < 0 else stop
            _check_last(max(start, stop), last)
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
        raise UsageError(
            "OpSequence %d is beyond the json's last, %d" % (number, last),
            hint="it is the id of an op in the json: a whole number from 0 to %d" % last,
        )


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
        from ..model.names_by_second_model import through_quantisation

        return ModelGraphs.of_all(through_quantisation(load_model(model), load_model(quantisation)))
    if unfused is not None:
        from ..model.names_by_second_model import onto_unfused

        return ModelGraphs.of_all(onto_unfused(load_model(model), load_model(unfused)))
    return load_models(model)
