"""The places of a run (time, device, model, step): which of them belong to it, and who plans the
rows of each; and which files of a place are slices of one op.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Set, Tuple

from ..base.naming import sanitise_device
from ..dumps.folder_listing import DumpEntry
from ..dumps.place import Place
from ..dumps.slices import declared_slices
from ..model.counterpart import CounterpartCache
from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs
from ..model.never_dumped import EVERYTHING, DumpRequest
from ..model.op_node import OpNode
from .comparison_options import ComparisonOptions
from .dump_catalogue import Catalogue
from .file_planner import PlanKey, Planner
from .golden_files import Goldens
from .target_file import HELD, PLANNED, TargetFile
from .tensor_planner import FilePlan


class Places:
    """The places seen so far; iterable, with a length.

    Attributes
    ----------
    own_places
        Places where an op of their model has come.
    selection
        The json's ids of the ops that are wanted; None: all.
    settled
        Nothing comes or changes any more: tensors without golden data have none, and what was found
        counts.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        graphs: ModelGraphs,
        goldens: Goldens,
        catalogue: Catalogue,
    ) -> None:
        self.own_places: Set[Place] = set()
        self.settled = False
        self._options, self._graphs, self._goldens = options, graphs, goldens
        self._catalogue = catalogue
        self.selection = options.selection(graphs)
        self._planners: Dict[Place, Planner] = {}
        # Of the golden data that each planner knows.
        self._revisions: Dict[Place, int] = {}
        self._known = CounterpartCache()
        self._plans: Dict[PlanKey, Any] = {}
        self._requests: Dict[Optional[str], DumpRequest] = {}

    def __iter__(self) -> Iterator[Place]:
        return iter(list(self._planners))

    def __len__(self) -> int:
        return len(self._planners)

    def planner(self, place: Place) -> Planner:
        """Return the planner of one place, with the golden data that there are now."""
        planner, revision = self._planners.get(place), self._goldens.revision
        if planner is not None and self._revisions[place] == revision:
            return planner
        golden = self._goldens.of(place)
        self._revisions[place] = revision
        if planner is None:
            graph, unfused = self._graphs.of(place.model), self._options.unfused is not None
            unfused = unfused or (graph is not None and graph.unfused)
            requested = self._request_of(graph, place.model)
            # Of a single place nothing is kept for others.
            plans = self._plans if self._planners else None
            more = (self.selection, self._options.overflow, unfused, self._known, requested, self)
            planner = self._planners[place] = Planner(place, golden, graph, *more, plans=plans)
        planner.refresh(golden)
        return planner

    def neighbour(self, target_file: str, op: OpNode) -> Optional[DumpEntry]:
        """Return the dump of another op beside a file, by its name in rows; None for none so
        far.
        """
        names = sanitise_device(op.type), sanitise_device(op.name)
        neighbour = self._catalogue.neighbour(target_file, *names)
        return None if neighbour is None else neighbour.entry()

    def _request_of(self, graph: Optional[ModelGraph], model_name: Optional[str]) -> DumpRequest:
        if self._options.plan is None or graph is None:
            return EVERYTHING
        if model_name not in self._requests:
            # Few runs have a dump request.
            from ..config.ops_of_dump_plan import requested_ops_of

            self._requests[model_name] = requested_ops_of(self._options.plan, graph, model_name)
        return self._requests[model_name]

    def is_taken(self, place: Place) -> bool:
        """Tell whether a place belongs to the run: a model stands for its name; or it has ops of
        the only model, or no place has.
        """
        if not self.is_wanted(place):
            return False
        return (
            not self._graphs
            or self._graphs.by_name
            or not self.own_places
            or place in self.own_places
        )

    def is_wanted(self, place: Place) -> bool:
        """Tell whether a place can have rows: there is a model for it and, as far as is known now,
        golden data for its step.
        """
        return self.is_modelled(place) and not (self.settled and self._goldens.lacks(place))

    def is_modelled(self, place: Place) -> bool:
        """Tell whether there is a model for the dumps of a place, or none for any."""
        return not self._graphs or self._graphs.of(place.model) is not None

    def note(self, file: TargetFile) -> bool:
        """Record a file that has arrived; tell whether its place is the model's: False while no op
        of the model has arrived there.
        """
        place = file.place
        graph = self._graphs.of(place.model)
        if graph is not None and (self._graphs.by_name or graph.ops_named(file.op_name)):
            self.own_places.add(place)
        return not self._graphs or place in self.own_places


class Slices:
    """The slices among the files of a catalogue; any other file stands for itself."""

    def __init__(self, catalogue: Catalogue, places: Places) -> None:
        self._catalogue = catalogue
        self._places = places

    def joins(self, file: TargetFile) -> bool:
        """Tell whether a file is a slice that is joined with the others of its op."""
        return self._catalogue.sliced and self._places.planner(file.place).joins(file.entry())

    def lead(self, file: TargetFile) -> TargetFile:
        """Return the file that stands for a slice's op: the first."""
        return next(iter(self._catalogue.slices(file).values()), file)

    def is_held(self, file: TargetFile) -> bool:
        """Tell whether a file is a slice that another stands for."""
        return self.joins(file) and self.lead(file) != file

    def others(self, lead: TargetFile) -> Tuple[TargetFile, ...]:
        """Return the other slices that a file stands for."""
        return (
            tuple(part for part in self._catalogue.slices(lead).values() if part != lead)
            if self.joins(lead)
            else ()
        )

    def all_there(self, file: TargetFile) -> bool:
        """Tell whether all slices of an op have come, by what the first tells of their number."""
        first, *others = self._catalogue.slices(file).values()
        return (
            all(part.state in (HELD, PLANNED) for part in others)
            and declared_slices(first.path) == len(others) + 1
        )

    def plan(self, file: TargetFile) -> FilePlan:
        """Return the plan of a file's tensors, or of those of the slices it stands for."""
        planner, entry = self._places.planner(file.place), file.entry()
        if not self.joins(file):
            return planner.plan(entry, file.iteration)
        parts = {number: part.entry() for number, part in self._catalogue.slices(file).items()}
        return planner.plan(entry, file.iteration, parts or {0: entry})
