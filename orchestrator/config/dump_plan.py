"""One dump plan: what is dumped, of which model, and where to.

This module imports nothing but the standard library and errors (its file form: the schemas too), so
that the adapters can use it in old environments.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from .dump_steps import step_fix, step_problems

MODES = ("input", "output", "all")
DATA = ("tensor", "stats")
STATS = ("Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf", "L2norm")
LEVELS = ("op", "kernel", "all")
#: Documented by MindSpore's set_context (aclInit's file that it writes): no exception dump.
EXCEPTIONS_OFF = "lite_exception:disable"
EXCEPTION_SCENES = (
    "lite_exception",
    "aic_err_brief_dump",
    "aic_err_norm_dump",
    "aic_err_detail_dump",
    EXCEPTIONS_OFF,
)
SCENES = EXCEPTION_SCENES + ("watcher",)
KERNEL_DATA = ("all", "printf", "tensor", "assert", "timestamp")
DEBUG_MODES = ("aicore_overflow", "atomic_overflow", "all")
POSITION = re.compile(r"(input|output)([0-9]+)\Z")
NPU_DEFAULTS: Dict[str, Any] = {
    "enable_dump": False,
    "dump_path": None,
    "dump_step": None,
    "dump_mode": "output",
    "enable_dump_debug": False,
    "dump_debug_mode": "all",
    "dump_data": "tensor",
    "dump_layer": None,
}


class PlanError(UsageError):
    """A plan, or a request for one, that cannot be what it says.

    Parameters
    ----------
    field
        The field of the plan, of the request or of the consumer's own form that is the matter, such
        as ``stats`` or ``dump_mode``, with which the message begins; empty where none is.
    """

    def __init__(self, message: str, hint: Optional[str] = None, field: str = "") -> None:
        super().__init__(message, hint, field)
        self.field = field


@dataclass(frozen=True)
class Skip:
    """An op or an op type whose inputs and outputs at ``positions`` (``input0``, ``output1`` …) are
    not dumped.
    """

    name: str
    positions: Tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelDump:
    """What is dumped of one model.

    Attributes
    ----------
    name
        The model's name; None for all models.
    layers
        Op names; empty for all ops.
    watch_nodes
        For the scene ``watcher``: the ops whose outputs are dumped again after each of ``layers``.
    skip_types, skip_ops
        What is left out.
    op_ranges
        Closed intervals of ops in execution order; empty for all.
    """

    name: Optional[str] = None
    layers: Tuple[str, ...] = ()
    watch_nodes: Tuple[str, ...] = ()
    skip_types: Tuple[Skip, ...] = ()
    skip_ops: Tuple[Skip, ...] = ()
    op_ranges: Tuple[Tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DumpPlan:
    """One dump plan; None is the consumer's own default.

    Attributes
    ----------
    dump_path
        Where dumps go; only exception scenes do without.
    models
        None for no list of models, ``()`` for an empty list, ``(ModelDump(),)`` for everything.
    mode, data, level, scene
        One of :data:`MODES`, :data:`DATA`, :data:`LEVELS`, :data:`SCENES`.
    op_switch
        Whether ops that are called one by one are dumped.
    step
        Iterations such as ``0|5-10``; None for all.
    stats, kernel_data
        Of :data:`STATS` and :data:`KERNEL_DATA`; empty for the default.
    debug
        Whether ops that overflow are dumped, instead of models.
    debug_mode
        Of :data:`DEBUG_MODES`; only npu_bridge and npu_device know others than ``all``.

    Raises
    ------
    UsageError
        A value is not one of those that any consumer knows.
    """

    dump_path: Optional[str] = None
    models: Optional[Tuple[ModelDump, ...]] = None
    mode: Optional[str] = None
    op_switch: Optional[bool] = None
    step: Optional[str] = None
    data: Optional[str] = None
    stats: Tuple[str, ...] = ()
    level: Optional[str] = None
    debug: Optional[bool] = None
    debug_mode: str = "all"
    scene: Optional[str] = None
    kernel_data: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.dump_path, os.PathLike):
            object.__setattr__(self, "dump_path", os.fsdecode(self.dump_path))
        for kind, what, names in (
            (str, "a text", ("dump_path", "step")),
            (bool, "True or False", ("op_switch", "debug")),
        ):
            for name in names:
                if not isinstance(getattr(self, name), (kind, type(None))):
                    raise PlanError(
                        "%s was expected, got %r" % (what, getattr(self, name)),
                        field=name,
                    )
        for rule, message, fix in step_problems(self.step or ""):
            if rule == "step-syntax":
                raise PlanError(message, "write " + step_fix(fix), "step")
        self._check_models()
        single: Dict[str, Tuple[str, ...]] = {
            "mode": MODES,
            "data": DATA,
            "level": LEVELS,
            "debug_mode": DEBUG_MODES,
            "scene": SCENES,
        }
        for name, known in single.items():
            value = getattr(self, name)
            if value not in known and (value is not None or name == "debug_mode"):
                raise _not_allowed(name, value, known)
        several: Dict[str, Tuple[str, ...]] = {"stats": STATS, "kernel_data": KERNEL_DATA}
        for name, known in several.items():
            if isinstance(getattr(self, name), str) or not isinstance(
                getattr(self, name), Collection
            ):
                raise PlanError(
                    "a tuple of names was expected, got %r" % (getattr(self, name),),
                    "of: " + ", ".join(known),
                    name,
                )
            unknown = [value for value in getattr(self, name) if value not in known]
            if unknown:
                raise _not_allowed(name, unknown[0], known)

    def _check_models(self) -> None:
        if self.models is None:
            return
        if isinstance(self.models, str) or not all(
            isinstance(model, ModelDump) for model in self.models
        ):
            hint = "such as models=(ModelDump('resnet50'),), from goldwatch.config.dump_plan"
            raise PlanError(
                "ModelDump objects were expected, got %r" % (self.models,), hint, "models"
            )
        object.__setattr__(self, "models", tuple(self.models))

    def acl_document(self) -> Dict[str, Any]:
        """Return the content of acl.json: what the plan says, and nothing that is left to the
        consumer's default.

        Raises
        ------
        UsageError
            The plan holds what only npu_bridge knows.
        """
        if self.debug_mode != "all":
            raise PlanError(
                "acl.json has no overflow kind, asked for: %s" % self.debug_mode,
                "leave it out",
                "debug_mode",
            )
        dump: Dict[str, Any] = {}
        if self.models is not None:
            dump["dump_list"] = [_acl_model(model) for model in self.models]
        values = (
            ("dump_path", self.dump_path),
            ("dump_mode", self.mode),
            ("dump_op_switch", _switch(self.op_switch)),
            ("dump_step", self.step),
            ("dump_data", self.data),
            ("dump_stats", list(self.stats) or None),
            ("dump_level", self.level),
            ("dump_debug", _switch(self.debug)),
            ("dump_scene", self.scene),
            ("dump_kernel_data", ",".join(self.kernel_data) or None),
        )
        dump.update((key, value) for key, value in values if value is not None)
        return {"dump": dump}

    @classmethod
    def from_acl_document(cls, document: Mapping[str, Any]) -> DumpPlan:
        """Return the plan of a valid acl.json; unknown keys are left out, as the consumer does."""
        dump = document.get("dump", {})
        models = dump.get("dump_list")
        return cls(
            dump_path=dump.get("dump_path"),
            models=None if models is None else tuple(_model_from_acl(model) for model in models),
            mode=dump.get("dump_mode"),
            op_switch=_from_switch(dump.get("dump_op_switch")),
            step=dump.get("dump_step") or None,
            data=dump.get("dump_data"),
            stats=tuple(dump.get("dump_stats", ())),
            level=dump.get("dump_level"),
            debug=_from_switch(dump.get("dump_debug")),
            scene=dump.get("dump_scene"),
            kernel_data=tuple(part for part in dump.get("dump_kernel_data", "").split(",") if part),
        )

    def npu_settings(self) -> Dict[str, Any]:
        """Return the settings of npu_bridge and npu_device, in the order of DumpConfig; what is
        left to its default is left out.

        Raises
        ------
        UsageError
            The plan holds what only acl.json knows, or nothing to dump.
        """
        self.refuse_acl_only()
        settings: Dict[str, Any] = {}
        if not self.debug:
            settings["enable_dump"] = True
        settings.update(dump_path=self.dump_path, dump_step=self.step, dump_mode=self.mode)
        if self.debug is not None:
            settings["enable_dump_debug"] = self.debug
        if self.debug:
            settings["dump_debug_mode"] = self.debug_mode
        settings.update(dump_data=self.data, dump_layer=" ".join(self.npu_layers()) or None)
        return {name: value for name, value in settings.items() if value is not None}

    def npu_layers(self) -> List[str]:
        """Return the op names for dump_layer, each once."""
        return list(dict.fromkeys(layer for model in self.models or () for layer in model.layers))

    @classmethod
    def from_npu_settings(cls, settings: Mapping[str, Any]) -> DumpPlan:
        """Return the plan of valid npu_bridge settings."""
        dumps = bool(settings.get("enable_dump"))
        layers = tuple((settings.get("dump_layer") or "").split())
        return cls(
            dump_path=settings.get("dump_path"),
            models=(ModelDump(layers=layers),) if dumps else None,
            mode=settings.get("dump_mode"),
            step=settings.get("dump_step") or None,
            data=settings.get("dump_data"),
            debug=settings.get("enable_dump_debug"),
            debug_mode=settings.get("dump_debug_mode") or "all",
        )

    def refuse_acl_only(self) -> None:
        """Raise UsageError when npu settings cannot hold the plan."""
        models = self.models or ()
        for name, is_set in (
            ("op_switch", self.op_switch is not None),
            ("stats", self.stats),
            ("scene", self.scene is not None),
            ("kernel_data", self.kernel_data),
            ("watch_nodes", any(model.watch_nodes for model in models)),
            ("skip_types", any(model.skip_types for model in models)),
            ("skip_ops", any(model.skip_ops for model in models)),
            ("op_ranges", any(model.op_ranges for model in models)),
            ("level", self.level is not None),
        ):
            if is_set:
                raise PlanError(
                    "npu_bridge and npu_device have no such setting",
                    "leave it out, or write the form acl",
                    name,
                )
        if self.debug and self.models:
            raise PlanError(
                "overflow detection excludes dumping ops",
                "leave out either it, or models and layers",
                "debug",
            )
        if not self.debug and not self.models:
            raise PlanError(
                "the plan dumps nothing: neither models nor overflow",
                "name a model, or nothing for everything",
            )
        with_layers = [bool(model.layers) for model in models]
        if any(with_layers) and not all(with_layers):
            raise PlanError(
                "dump_layer holds for every model, so all or none of the models must have layers",
                "name layers only",
                "layers",
            )
        for layer in self.npu_layers():
            if layer.split() != [layer]:
                message = "dump_layer separates names by blanks, so %r cannot be written" % layer
                raise PlanError(message, "write the form acl, which lists names", "layers")

    def to_document(self) -> Dict[str, Any]:
        """Return the plan's own file form (schemas/plan.schema.json); defaults are left out."""
        document = {}
        for name, value in asdict(self).items():
            if value != getattr(_EMPTY, name):
                document[name] = _plain(value)
        return document

    @classmethod
    def from_document(cls, document: Any) -> DumpPlan:
        """Return the plan of its own file form.

        Raises
        ------
        FormatError
            The document has another form; schemas/plan.schema.json describes it.
        """
        from ..schemas.documents import check_document

        check_document(document, "plan", "plan")
        values = dict(document)
        if values.get("models") is not None:
            values["models"] = tuple(_model_from_document(model) for model in values["models"])
        for name in ("stats", "kernel_data"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)

    def without_names(self) -> DumpPlan:
        """Return the plan as npu settings can hold it: one entry without a model's name."""
        models = self.models and (ModelDump(layers=tuple(self.npu_layers())),)
        return replace(self, models=models)


_EMPTY = DumpPlan()


def _switch(value: Optional[bool]) -> Optional[str]:
    return None if value is None else "on" if value else "off"


def _from_switch(value: Optional[str]) -> Optional[bool]:
    return None if value is None else value == "on"


def _acl_model(model: ModelDump) -> Dict[str, Any]:
    entry: Dict[str, Any] = {} if model.name is None else {"model_name": model.name}
    for key, names in (("layer", model.layers), ("watcher_nodes", model.watch_nodes)):
        if names:
            entry[key] = list(names)
    for key, skips in (
        ("optype_blacklist", model.skip_types),
        ("opname_blacklist", model.skip_ops),
    ):
        if skips:
            entry[key] = [
                {"name": skip.name, "pos": list(skip.positions)}
                if skip.positions
                else {"name": skip.name}
                for skip in skips
            ]
    if model.op_ranges:
        entry["opname_range"] = [{"begin": begin, "end": end} for begin, end in model.op_ranges]
    return entry


def _model_from_acl(entry: Mapping[str, Any]) -> ModelDump:
    return ModelDump(
        name=entry.get("model_name"),
        layers=tuple(entry.get("layer", ())),
        watch_nodes=tuple(entry.get("watcher_nodes", ())),
        skip_types=_skips_from_acl(entry.get("optype_blacklist", ())),
        skip_ops=_skips_from_acl(entry.get("opname_blacklist", ())),
        op_ranges=tuple((item["begin"], item["end"]) for item in entry.get("opname_range", ())),
    )


def _skips_from_acl(items: Sequence[Mapping[str, Any]]) -> Tuple[Skip, ...]:
    return tuple(Skip(item.get("name", ""), tuple(item.get("pos", ()))) for item in items)


def _model_from_document(document: Mapping[str, Any]) -> ModelDump:
    values = dict(document)
    for name in ("layers", "watch_nodes"):
        values[name] = tuple(values.get(name, ()))
    for name in ("skip_types", "skip_ops"):
        values[name] = tuple(
            Skip(skip["name"], tuple(skip.get("positions", ()))) for skip in values.get(name, ())
        )
    values["op_ranges"] = tuple((begin, end) for begin, end in values.get("op_ranges", ()))
    return ModelDump(**values)


def _not_allowed(name: str, value: Any, known: Sequence[str]) -> UsageError:
    near = [word for word in known if word.lower() == str(value).strip().lower()]
    hint = "one of: %s" % ", ".join(known)
    more = "; did you mean %r?" % near[0] if near else ""
    return PlanError("%r is not allowed%s" % (value, more), hint, name)


def _plain(value: Any) -> Any:
    """Return tuples as lists and nested objects without what is empty."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None and item != ()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
