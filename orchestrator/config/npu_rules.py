"""Second layer for npu_bridge and npu_device: the rules between the dump settings."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ..schemas.documents import schema_of
from .acl_dump_list_rules import looks_like_several
from .cann_versions import NPU_SINCE
from .common_rules import COMPARED, DumpRules
from .dump_plan import NPU_DEFAULTS
from .dump_steps import NPU_LAX, step_problems
from .finding import ERROR, NOTE, WARNING, Path
from .key_rules import KeyRules, asks_for_a_dump, check_since, nearest_word
from .path_rules import check_dump_path, check_variables
from .schema_rules import SchemaRules, rejects

#: Names that only npu settings have; they tell a flat JSON file from an acl.json.
NPU_ONLY = (
    "enable_dump",
    "enable_dump_debug",
    "dump_debug_mode",
    "dump_layer",
    "quant_dumpable",
    "enable_exception_dump",
)
#: Settings about dumps that are no part of a plan, with the values they know.
OTHER_SETTINGS: Dict[str, Tuple[Any, ...]] = {
    "quant_dumpable": ("0", "1"),
    "enable_exception_dump": (0, 1, 2),
}
SWITCHES = ("enable_dump", "enable_dump_debug")
#: Whether two switches that are both set on are on together; POSSIBLE is not known from the text.
CERTAIN, POSSIBLE, NEVER = "certain", "possible", "never"


class Computed:
    """A value that a script computes; no rule looks at it."""

    def __repr__(self) -> str:
        return "a computed value"


COMPUTED = Computed()


class NpuRules(DumpRules):
    """Checks one set of dump settings."""

    kind = "npu"
    #: What checks dump_step, and how.
    step_checks = rejects("npu", path=("dump_step",)) + "; " + NPU_LAX

    _values: Mapping[str, Any]
    _together = NEVER

    def check_document(self, document: Mapping[str, Any]) -> None:
        """Check a flat JSON object."""
        KeyRules(self.findings).unknown(document, schema_of("npu")["properties"], ())
        meant = asks_for_a_dump(document, schema_of("npu")["properties"], SWITCHES)
        values = {
            name: value
            for name, value in document.items()
            if name in NPU_DEFAULTS or name in OTHER_SETTINGS
        }
        forgotten = any(name in values for name in NPU_DEFAULTS) and not any(
            name in values for name in SWITCHES
        )
        self.check(values, dump_requested=meant or forgotten)

    def check(
        self,
        values: Mapping[str, Any],
        dump_requested: bool = False,
        together: Optional[str] = None,
    ) -> None:
        """Check settings by their names; :data:`COMPUTED` stands for what is not known.

        Parameters
        ----------
        dump_requested
            Whether something that no consumer understands asks for a dump, so that none at all is
            an error.
        together
            Whether both switches are on at the same time: CERTAIN, POSSIBLE or NEVER; None: as
            ``values`` say.
        """
        known = {name: value for name, value in values.items() if value is not COMPUTED}
        wrong = SchemaRules(self.kind, self.findings).check(known)
        check_since(self.findings, known, (), NPU_SINCE, self.cann)
        self._values = values
        self._together = together or (CERTAIN if all(map(self._is_on, SWITCHES)) else NEVER)
        self._switched(dump_requested)
        self._others()
        if "dump_path" not in wrong:
            self._path()
        if "dump_step" not in wrong:
            self._step()
        self._layers()
        self._idle()
        if self._may_be_on("enable_dump"):
            # Nobody here knows dump_stats.
            self.statistics(values.get("dump_data"), ("dump_data",), COMPARED)
        self.dumps_models = self._may_be_on("enable_dump")

    def _is_on(self, name: str) -> bool:
        return self._values.get(name) is True

    def _may_be_on(self, name: str) -> bool:
        return self._values.get(name) is True or self._values.get(name) is COMPUTED

    def _place(self, *names: str) -> Path:
        return next(((name,) for name in names if name in self._values), ())

    def _others(self) -> None:
        for name, known in OTHER_SETTINGS.items():
            value = self._values.get(name)
            if (
                isinstance(value, (str, int))
                and not isinstance(value, bool)
                and type(value) is type(known[0])
                and value not in known
            ):
                values = ", ".join(str(word) for word in known)
                message = "%s: %r is not known" % (name, value)
                self.findings.warning(
                    "enum", (name,), message, "no consumer is known to take it", "one of: " + values
                )

    def _switched(self, dump_requested: bool) -> None:
        if self._together != NEVER:
            certain = self._together == CERTAIN
            consumer = (
                "the adapter passes both on, GE rejects them together (E10001) and the graph fails"
            )
            message = "enable_dump and enable_dump_debug exclude each other"
            message += "" if certain else "; whether one run sets both is not known from the text"
            fix = "switch one of them off" if certain else "see that no run sets both"
            self.findings.add(
                ERROR if certain else NOTE,
                "dump-with-debug",
                ("enable_dump_debug",),
                message,
                consumer,
                fix,
            )
        if not any(self._may_be_on(name) or self._invalid(name) for name in SWITCHES):
            if self._values.get("enable_exception_dump") in (1, 2) and not dump_requested:
                return
            message = "neither enable_dump nor enable_dump_debug is switched on"
            severity = ERROR if dump_requested else WARNING
            place = self._place(*SWITCHES)
            self.findings.add(
                severity,
                "all-switches-off",
                place,
                message,
                "nothing is dumped",
                "set enable_dump to true",
            )

    def _invalid(self, name: str) -> bool:
        value = self._values.get(name, False)
        return value is not COMPUTED and not isinstance(value, bool)

    def _path(self) -> None:
        value = self._values.get("dump_path")
        if value is COMPUTED:
            return
        if value is None:
            if any(self._is_on(name) for name in SWITCHES):
                consumer = (
                    "the TensorFlow adapter stops with an error (in 2021: aborts), GE with E10058"
                )
                message = "dump_path is missing but dumping is switched on"
                self.findings.error(
                    "dump-path-missing",
                    self._place("dump_path"),
                    message,
                    consumer,
                    "set dump_path to an existing folder",
                )
            return
        must_work = any(self._may_be_on(name) for name in SWITCHES)
        self.folder = check_dump_path(self.findings, value, ("dump_path",), self.kind, must_work)
        if any(self._is_on(name) for name in SWITCHES):
            check_variables(self.findings, ("dump_path",), False)

    def _step(self) -> None:
        value = self._values.get("dump_step")
        if not isinstance(value, str):
            return
        for rule, message, fix in step_problems(value):
            if rule != "step-syntax":
                self.findings.error(
                    rule, ("dump_step",), "dump_step: " + message, self.step_checks, '"%s"' % fix
                )

    def _layers(self) -> None:
        value = self._values.get("dump_layer")
        if not isinstance(value, str):
            return
        if not value.strip():
            self.findings.warning(
                "empty-value",
                ("dump_layer",),
                "dump_layer holds no name",
                "every op is dumped",
                "leave it out",
            )
        elif "," in value:
            message = "dump_layer separates names by blanks, not by commas"
            fix = '"%s"' % " ".join(value.replace(",", " ").split())
            self.findings.warning(
                "layer-separator",
                ("dump_layer",),
                message,
                "the text is taken as names that hold commas",
                fix,
            )
        patterns = [name for name in value.split() if looks_like_several(name) and "," not in name]
        if patterns and not self.models.graphs:
            message = "%r is a pattern; no consumer knows patterns" % patterns[0]
            self.findings.warning(
                "layer-pattern",
                ("dump_layer",),
                message,
                "names match exactly",
                "list the ops' names",
            )
        repeated = _repeated(value)
        if repeated:
            message = "%r is listed twice" % repeated[0]
            fix = '"%s"' % " ".join(dict.fromkeys(value.split()))
            self.findings.warning("duplicate-layer", ("dump_layer",), message, "dumped once", fix)

    def _idle(self) -> None:
        kind = self._values.get("dump_debug_mode")
        if self._is_on("enable_dump_debug") and kind in ("aicore_overflow", "atomic_overflow"):
            message = "%s is not known to every product" % kind
            self.findings.note(
                "debug-mode-product",
                ("dump_debug_mode",),
                message,
                "A2, A3 and 950 products know only all",
                '"all"',
            )
        if self._is_on("enable_dump_debug") and not self._may_be_on("enable_dump"):
            for name in ("dump_layer", "dump_step"):
                if isinstance(self._values.get(name), str):
                    message = "%s has no effect on overflow dumps" % name
                    self.findings.note(
                        "idle-setting",
                        (name,),
                        message,
                        "checked only with enable_dump",
                        "leave it out",
                    )


def _repeated(text: str) -> Tuple[str, ...]:
    seen = set()
    repeated = []
    for name in text.split():
        if name in seen:
            repeated.append(name)
        seen.add(name)
    return tuple(repeated)


def looks_like_npu(document: Any) -> bool:
    """Tell whether a JSON document is a flat object of npu settings rather than an acl.json."""
    if not isinstance(document, dict) or not document or "dump" in document:
        return False
    if any(name in document for name in NPU_ONLY):
        return True
    acl_only = schema_of("acl")["properties"]["dump"]["properties"]
    if any(name in acl_only and name not in NPU_DEFAULTS for name in document):
        return False
    if any(name in NPU_DEFAULTS for name in document):
        return True
    return any(
        nearest_word(name, NPU_ONLY) and not nearest_word(name, ["dump"])
        for name in list(document)[:20]
    )
