"""The models of a run: one for all dumps, or one for each model_name of a training."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ..base.errors import InputError
from ..base.naming import graph_of_run, run_name, sanitise_device
from ..base.notes import Note, note
from ..base.safe_reading import AnyPath, path_text
from ..base.wording import listed
from ..dumps.place import Place
from .graph import ModelGraph
from .read_model import load_model

GRAPH_FILES = ("dynamo_original_graph*.txt", "dynamo_original_graph*.pbtxt")
"""Patterns of TorchAir's original graphs: ``dynamo_original_graph_{k}_rank_{r}_pid_{p}_ts_{t}``, or
shorter.
"""

MODEL_FILES = ("*.json", "ge_proto_*_Build.txt", *GRAPH_FILES)
"""Patterns of the files of a folder that may be models."""

_SHOWN = 8

AnyGraph = Union[ModelGraph, "ModelGraphs", None]
"""A model of all dumps, or one for each model_name, or none."""


class ModelGraphs:
    """Maps the model_name of dumps to a model; false if empty.

    Parameters
    ----------
    graphs
        One for each model_name with ``by_name``, else at most one, which is used for all dumps.
    path
        The file or folder that they were read from, for messages.
    by_name
        Whether a model is used only for the dumps of its own name.
    passed_over
        Files that are not models: path to the reason.
    """

    def __init__(
        self,
        graphs: Sequence[ModelGraph] = (),
        path: str = "",
        by_name: bool = False,
        passed_over: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.path = path
        self.by_name = by_name
        self.passed_over = dict(passed_over or {})
        self._notes = tuple(note("no-model-file", why) for why in self.passed_over.values())
        self._named: Dict[str, ModelGraph] = {}
        self._of_file: Dict[str, ModelGraph] = {}
        for graph in graphs:
            self._take(graph)
        self.graphs = tuple(dict.fromkeys([*self._named.values(), *self._of_file.values()]))
        for graph in dict.fromkeys(self._named.values()):
            self._named.setdefault(sanitise_device(graph.graph_names[0]), graph)
        self._by_model_name: Dict[Optional[str], Optional[ModelGraph]] = {}

    @classmethod
    def of_all(cls, graph: AnyGraph) -> ModelGraphs:
        """Wrap one model as the model of all dumps; None gives an empty mapping."""
        if isinstance(graph, ModelGraphs):
            return graph
        return cls() if graph is None else cls([graph], graph.path or graph.name)

    def _take(self, graph: ModelGraph) -> None:
        """Add a model by its name; of several with one name the one that reads training data wins,
        else the last.

        The json of an om is added by its file's name too: model_name is the name of the om file or
        of the graph, and several oms often have graphs of one name.
        """
        key = sanitise_device(graph.name)
        before = self._named.get(key)
        stem = _om_stem(graph)
        if self.by_name and stem is not None:
            self._of_file[stem] = graph
            if before is not None and (before in self._of_file.values() or before is graph):
                self._named[key] = graph
                return
        if before is None or graph.is_computational or not before.is_computational:
            self._named[key] = graph
        if before is not None:
            left = before if self._named[key] is graph else graph
            self._notes += (note("same-model", left.path, self._named[key].path, graph.name),)

    def __len__(self) -> int:
        return len(self.graphs)

    def changed(self, change: Callable[[ModelGraph], ModelGraph]) -> ModelGraphs:
        """Return the same with each model as ``change`` returns it."""
        result = ModelGraphs(
            [change(graph) for graph in self.graphs], self.path, self.by_name, self.passed_over
        )
        result._notes = self._notes
        return result

    @property
    def notes(self) -> List[Note]:
        """Notes about the files and oddities in them."""
        return [
            *self._notes,
            *(
                odd.behind("%s: " % (graph.path or self.path))
                for graph in self.graphs
                for odd in graph.notes
            ),
        ]

    @property
    def files(self) -> List[str]:
        """The files of the models."""
        return [graph.path for graph in self.graphs if graph.path is not None]

    @property
    def names(self) -> List[str]:
        """The models' names."""
        return [graph.name for graph in self.graphs]

    @property
    def model_names(self) -> Dict[str, str]:
        """The model_names that have a model of their own, each with the one name of that model: the
        om file's, else the graph's; none where one model is for all dumps.
        """
        if not self.by_name:
            return {}
        graphs_of = Counter(sanitise_device(name) for name in self.names)
        of_file = {graph: name for name, graph in self._of_file.items()}
        names = {
            name: of_file.get(graph, name)
            for name, graph in self._named.items()
            if graphs_of[name] < 2
        }
        return {**names, **{name: of_file[graph] for name, graph in self._of_file.items()}}

    @property
    def original_names(self) -> Dict[str, str]:
        """By the one name of each model the name, without its ending, of the file that it was
        compiled from, where its json tells that.
        """
        graphs = {name: self.of(name) for name in dict.fromkeys(self.model_names.values())}
        return {
            name: graph.compiled_from
            for name, graph in graphs.items()
            if graph is not None and graph.compiled_from
        }

    def of(self, model_name: Optional[str]) -> Optional[ModelGraph]:
        """Return the model of the dumps below a model_name folder (None: no such folder), or None.

        Names are compared as the device writes them, file names before graph names, then without
        the time of the run. Dumps without such a folder belong to the only model, else to the only
        one that reads training data.
        """
        if not self.by_name:
            return self.graphs[0] if self.graphs else None
        if model_name not in self._by_model_name:
            self._by_model_name[model_name] = self._find(model_name)
        return self._by_model_name[model_name]

    def used_at(self, places: Iterable[Place]) -> List[ModelGraph]:
        """Return the models of some places, each once; the model of all dumps even without
        places."""
        if not self.by_name:
            return list(self.graphs)
        used = {self.of(place.model) for place in places}
        return [graph for graph in self.graphs if graph in used]

    def op_count(self, places: Iterable[Place]) -> int:
        """Return the number of ops of the models of some places, counting each model once."""
        return sum(len(graph.ops) for graph in self.used_at(places))

    def _find(self, model_name: Optional[str]) -> Optional[ModelGraph]:
        if model_name is None:
            candidates = (
                list(self.graphs)
                if len(self.graphs) == 1
                else [graph for graph in self.graphs if graph.is_computational]
            )
        else:
            key = sanitise_device(model_name)
            for names in (self._of_file, self._named):
                if key in names:
                    return names[key]
            candidates = list(
                dict.fromkeys(
                    graph for name, graph in self._named.items() if run_name(name) == run_name(key)
                )
            )
            of_fx = self._named.get(graph_of_run(key))
            if not candidates and of_fx is not None and of_fx.fx:
                candidates = [of_fx]
            elif not candidates and len(self.graphs) == 1 and self.graphs[0].fx:
                candidates = list(self.graphs)
        return candidates[0] if len(candidates) == 1 else None

    def named_among(self, model_names: Iterable[Optional[str]]) -> ModelGraphs:
        """Return the only model for the dumps of its own name, where it or its file is called as
        one of several model_name folders: the others are of other models. Else the same models.
        """
        names = set(model_names)
        if self.by_name or len(self.graphs) != 1 or len(names) < 2:
            return self
        named = ModelGraphs(self.graphs, self.path, True, self.passed_over)
        return named if {named.of(name) is None for name in names} == {True, False} else self

    def no_model_reason(self) -> str:
        """Return why a model_name has no model, with the skipped files: one may have been its
        graph.
        """
        passed = (
            "; passed over: %s" % listed(list(self.passed_over), _SHOWN) if self.passed_over else ""
        )
        return "no graph in %s has this name%s" % (self.path, passed)

    def require(self, model_names: Iterable[Optional[str]]) -> None:
        """Raise InputError if there are names and models, but no name has a model."""
        names = sorted({name or "" for name in model_names})
        if (
            not self.by_name
            or not names
            or any(self.of(name or None) is not None for name in names)
        ):
            return
        dumped = listed([name or "no model's folder" for name in names], _SHOWN)
        graph_names = listed(list(dict.fromkeys(self.names)), _SHOWN)
        files = listed([os.path.basename(path) for path in self.files], _SHOWN)
        raise InputError(
            "%s: no model of TARGET has a graph in it: TARGET holds %s; the graphs are of %s (%s)"
            % (self.path, dumped, graph_names, files),
            hint="call a json like its model_name (%s.json), or give a single file, which is taken "
            "for all dumps" % (names[0] or "NAME"),
        )


def load_models(path: AnyPath) -> ModelGraphs:
    """Read one model file for all dumps, or the models of a folder, each for the dumps of its name.

    In a folder :data:`MODEL_FILES` are read; files that are not models or cannot be read are
    skipped with a note.

    Raises
    ------
    MissingPath, InputError, FormatError
        As :func:`load_model`; no file of the folder is a model.
    """
    path = path_text(path, "model")
    if not os.path.isdir(path):
        return ModelGraphs.of_all(load_model(path))
    graphs: List[ModelGraph] = []
    passed_over: Dict[str, str] = {}
    for name in model_files(path):
        try:
            graphs.append(load_model(os.path.join(path, name)))
        except InputError as error:
            passed_over[os.path.join(path, name)] = error.message
    if not graphs:
        first = "".join(
            "; no model, passed over: %s" % why for why in list(passed_over.values())[:1]
        )
        raise InputError(
            "%s: no model in this folder%s" % (path, first),
            hint="models are the json of an om or a graph (*.json), ge_proto_*_Build.txt and "
            "dynamo_original_graph*.txt",
        )
    return ModelGraphs(graphs, path, True, passed_over)


def _om_stem(graph: ModelGraph) -> Optional[str]:
    """Return the sanitised name of the om that a json was made from; None for graphs of GE."""
    name = os.path.basename(graph.path or "")
    if not name.endswith(".json") or name.startswith("ge_"):
        return None
    stem = name[: -len(".json")]
    return sanitise_device(stem[: -len(".om")] if stem.endswith(".om") else stem)


def model_files(folder: str) -> Tuple[str, ...]:
    """Return the names of the files of a folder that may be models; raises InputError if it cannot
    be listed.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(
            "%s: the folder cannot be listed: %s" % (folder, error.strerror or error)
        ) from None
    matches = (
        name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in MODEL_FILES)
    )
    # Without a built graph, graphs of other compiler stages are used.
    return tuple(matches) or tuple(fnmatch.filter(names, "ge_proto_*.txt"))


_RANK_FOLDER = re.compile(r"worldsize[0-9]+_global_rank[0-9]+\Z")
_FOLDER_OF_DUMPS = re.compile(
    r"[0-9]+\Z|graph_[0-9]+(_[0-9]+)?\Z|worldsize[0-9]+_global_rank[0-9]+\Z"
)


def graphs_beside(target: str) -> Optional[str]:
    """Return the folder where TorchAir wrote its original graphs; None where there are none.

    They lie beside the folders of times or ranks at or above TARGET, or in the ranks' folders below
    it: the first one's count then.
    """
    folder = target
    while True:
        names = _listed(folder)
        if _has_graphs(names):
            return folder
        below = [os.path.join(folder, name) for name in names if _RANK_FOLDER.match(name)]
        folder_below = next((path for path in below if _has_graphs(_listed(path))), None)
        if folder_below is not None:
            return folder_below
        folder = os.path.abspath(folder)
        if _FOLDER_OF_DUMPS.match(os.path.basename(folder)) is None:
            return None
        folder = os.path.dirname(folder)


def _listed(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _has_graphs(names: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in GRAPH_FILES)
