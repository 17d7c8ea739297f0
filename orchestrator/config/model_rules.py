"""Third layer: what the configuration names against what the model has."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..model.graph import ModelGraph
from ..model.never_dumped import INPUT_TYPES, no_dump_reason
from ..model.op_node import OpNode, execution_key
from ..schemas.documents import MAX_SUGGESTIONS
from .acl_rules import items_of, model_entries, strings_of
from .dump_plan import POSITION
from .finding import Findings, Path
from .key_rules import nearest_word
from .models import Models, dumpable

_MAX_ADVICE = 200
_UNKNOWN_LAYER = "GE only warns that the op does not exist in the model; nothing of it is dumped"


class ModelRules:
    """Checks names against models.

    Parameters
    ----------
    findings
        Where findings go.
    models
        The models whose files were named.
    """

    def __init__(self, findings: Findings, models: Models) -> None:
        self.findings = findings
        self.models = models
        self._advice_left = _MAX_ADVICE
        self._types_left = MAX_SUGGESTIONS

    def check_acl(self, document: Any) -> None:
        """Check every entry of dump_list."""
        types = _widest(self.models.graphs)
        for index, entry in enumerate(model_entries(document)):
            path: Path = ("dump", "dump_list", index)
            graphs: Sequence[ModelGraph] = self.models.graphs
            name = entry.get("model_name")
            if isinstance(name, str) and name:
                graphs = self._model(name, path + ("model_name",)) or self._only_one(document)
                if not graphs:
                    continue
            for field in ("layer", "watcher_nodes"):
                for number, layer in enumerate(strings_of(entry.get(field))):
                    if layer is not None:
                        self.check_layer(
                            layer, path + (field, number), graphs, originals=field == "layer"
                        )
            self._blacklists(entry, path, graphs, types)
            self._ranges(entry, path, graphs)
        self._both_names(document)

    def _only_one(self, document: Any) -> Sequence[ModelGraph]:
        """Return the model if the name can only be that of its .om file: there is one model and one
        entry.
        """
        alone = (
            len(self.models.graphs) == 1 == len(model_entries(document))
            and not self.models.om_names
        )
        return self.models.graphs if alone else ()

    def _both_names(self, document: Any) -> None:
        """Find an entry by a model's own name beside one by its file's name, which wins."""
        entries: Dict[int, Tuple[int, str]] = {}
        candidates: List[Tuple[int, str, ModelGraph]] = []
        for index, entry in enumerate(model_entries(document)):
            name = entry.get("model_name")
            if not isinstance(name, str) or not name:
                continue
            for graph in self.models.named(name):
                if name == graph.name or name in graph.graph_names:
                    candidates.append((index, name, graph))
                else:
                    entries.setdefault(id(graph), (index, name))
        for index, name, graph in candidates:
            if id(graph) in entries:
                other, file_name = entries[id(graph)]
                message = (
                    "entry %d, %r, may be the same model by its file's name, which wins over %r"
                    % (other, file_name, name)
                )
                consumer = (
                    "GE looks for the om file's name first; this entry has no effect when the "
                    "om file is called %s.om" % file_name
                )
                path: Path = ("dump", "dump_list", index, "model_name")
                self.findings.warning(
                    "model-named-twice", path, message, consumer, "keep one of the two entries"
                )

    def check_layers(self, text: str, path: Path) -> None:
        """Check dump_layer of the npu settings."""
        for layer in dict.fromkeys(text.split()):
            self.check_layer(layer, path, self.models.graphs)

    def _model(self, name: str, path: Path) -> List[ModelGraph]:
        graphs = self.models.named(name)
        if not graphs:
            known = [
                known
                for graph in self.models.graphs
                for known in (graph.name,) + graph.graph_names
                if known
            ]
            known += self.models.om_names
            near = nearest_word(name, known) or (
                known[0] if len(self.models.graphs) == 1 and known else None
            )
            message = "no model is called %r%s" % (
                name,
                "; did you mean %r?" % near if near else "",
            )
            consumer = (
                "GE only warns in its log that the model is not set to dump; nothing is dumped"
            )
            fix = '"%s"' % near if near else "one of: %s" % ", ".join(known[:10])
            if self.models.om_names:
                self.findings.error("unknown-model", path, message, consumer, fix)
                # What else is wrong of the entry is told, too, where one model alone can be meant.
                return self.models.graphs if len(self.models.graphs) == 1 else []
            message += "; it may be the .om file's name, which the model's json cannot tell"
            self.findings.warning(
                "unknown-model",
                path,
                message,
                "right when the om file is called %s.om; else " % name + consumer,
                fix,
            )
        elif name in self.models.om_names:
            return graphs
        elif all(name != graph.name and name not in graph.graph_names for graph in graphs):
            message = "%r is the json file's name; the model itself is called %r" % (
                name,
                graphs[0].name,
            )
            consumer = "matches only when the om file is called %s.om" % name
            self.findings.note("model-file-name", path, message, consumer, '"%s"' % graphs[0].name)
        return graphs

    def check_layer(
        self, layer: str, path: Path, graphs: Sequence[ModelGraph], originals: bool = True
    ) -> None:
        """Check one op name; with ``originals`` the name before fusion will do."""
        ops = self.models.exact(layer, graphs)
        if ops:
            if not dumpable(ops):
                self._never(layer, ops[0], path)
            return
        fused = self.models.from_original(layer, graphs)
        if fused and not originals:
            message = "%r is a name before fusion; here only names after fusion count" % layer
            self.findings.error(
                "unknown-layer", path, message, "nothing of it is dumped", '"%s"' % fused[0].name
            )
        elif fused and not dumpable(fused):
            self._never(layer, fused[0], path)
        elif fused:
            names = ", ".join(op.name for op in dumpable(fused)[:3])
            message = "%r was fused away; the model has %s" % (layer, names)
            self.findings.note(
                "fused-layer",
                path,
                message,
                "original names are accepted: the fused op is dumped",
                '"%s"' % fused[0].name,
            )
        else:
            near = self.models.nearest(layer, graphs)
            message = "the model has no op %r%s" % (
                layer,
                "; did you mean %r?" % near if near else "",
            )
            fix = '"%s"' % near if near else "name an op that the model has"
            self.findings.error("unknown-layer", path, message, _UNKNOWN_LAYER, fix)

    def _never(self, layer: str, op: OpNode, path: Path) -> None:
        fix = "leave it out"
        if self._advice_left > 0:
            self._advice_left -= 1
            fix = self.models.instead(op)
        message = "%r (%s) never dumps: %s" % (layer, op.type, no_dump_reason(op))
        self.findings.error("never-dumps", path, message, "nothing of it is dumped", fix)

    def _blacklists(
        self, entry: Mapping[str, Any], path: Path, graphs: Sequence[ModelGraph], types: Any
    ) -> None:
        for field in ("optype_blacklist", "opname_blacklist"):
            for index, item in enumerate(items_of(entry.get(field))):
                name = item.get("name") if isinstance(item, dict) else None
                if not isinstance(name, str) or not name:
                    continue
                by_type = field == "optype_blacklist"
                known = types.get(name, []) if by_type else self.models.exact(name, graphs)
                place = path + (field, index)
                if known:
                    self._positions(item, place, known)
                    continue
                fused = [] if by_type else self.models.from_original(name, graphs)
                if fused:
                    message = (
                        "%r is a name before fusion; here only names after fusion count" % name
                    )
                    fix = '"%s"' % fused[0].name
                    self.findings.warning(
                        "unknown-blacklist-name",
                        place + ("name",),
                        message,
                        "nothing is left out",
                        fix,
                    )
                    continue
                near = (
                    self._near_type(name, types)
                    if field == "optype_blacklist"
                    else self.models.nearest(name, graphs)
                )
                what = "type" if field == "optype_blacklist" else "op"
                message = "the model has no %s %r%s" % (
                    what,
                    name,
                    "; did you mean %r?" % near if near else "",
                )
                fix = '"%s"' % near if near else "leave it out"
                self.findings.warning(
                    "unknown-blacklist-name", place + ("name",), message, "nothing is left out", fix
                )

    def _positions(self, item: Mapping[str, Any], path: Path, ops: Sequence[OpNode]) -> None:
        """Find positions that no op of this name or type has."""
        inputs, outputs = (max(counts) for counts in zip(*(_ports(op) for op in ops)))
        counts = {"input": inputs, "output": outputs}
        for number, position in enumerate(strings_of(item.get("pos"))):
            match = POSITION.match(position or "")
            if match and len(match.group(2)) < 10 and int(match.group(2)) >= counts[match.group(1)]:
                message = "%r has no %s; its inputs: %d, outputs: %d" % (
                    item["name"],
                    position,
                    inputs,
                    outputs,
                )
                self.findings.warning(
                    "unknown-position",
                    path + ("pos", number),
                    message,
                    "nothing is left out",
                    "leave it out",
                )

    def _near_type(self, name: str, types: Any) -> Optional[str]:
        self._types_left -= 1
        return nearest_word(name, sorted(types)) if self._types_left >= 0 else None

    def _ranges(self, entry: Mapping[str, Any], path: Path, graphs: Sequence[ModelGraph]) -> None:
        for index, item in enumerate(items_of(entry.get("opname_range"))):
            if not isinstance(item, dict):
                continue
            bounds: Dict[str, OpNode] = {}
            for field in ("begin", "end"):
                name = item.get(field)
                if not isinstance(name, str) or not name:
                    continue
                place = path + ("opname_range", index, field)
                ops = self.models.exact(name, graphs)
                if not ops:
                    self.check_layer(name, place, graphs, originals=False)
                elif ops[0].type in INPUT_TYPES:
                    self._never(name, ops[0], place)
                else:
                    bounds[field] = ops[0]
            if len(bounds) == 2 and execution_key(bounds["begin"]) > execution_key(bounds["end"]):
                message = "%s runs after %s" % (bounds["begin"].name, bounds["end"].name)
                place = path + ("opname_range", index)
                self.findings.error(
                    "range-reversed",
                    place,
                    message,
                    "nothing lies between",
                    "exchange begin and end",
                )


def _widest(graphs: Sequence[ModelGraph]) -> Dict[str, List[OpNode]]:
    """Return of each type the op with most inputs and the one with most outputs."""
    types: Dict[str, List[OpNode]] = {}
    for op in (op for graph in graphs for op in graph.ops):
        widest = types.setdefault(op.type, [op, op])
        for side in (0, 1):
            if _ports(op)[side] > _ports(widest[side])[side]:
                widest[side] = op
    return types


def _ports(op: OpNode) -> Tuple[int, int]:
    """Return how many inputs and outputs an op has."""
    return max(len(op.inputs), len(op.input_descs)), len(op.output_descs)
