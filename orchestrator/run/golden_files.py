"""The golden files, listed or as they arrive: only whole ones count, one that changes counts anew,
and each step may have its own.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Dict, List, NamedTuple, Optional, Set

from ..base.errors import GoldwatchError, InputError
from ..base.manifest import MANIFEST_FILE, model_file_name
from ..base.naming import (
    MAPPING_FILE,
    graph_of_run,
    intended_golden_name,
    is_hash_name,
    lacks_name_part,
    parse_dump_name,
    parse_fx_name,
    parse_golden_name,
)
from ..dumps.dump_header import COMPLETE
from ..dumps.folder_listing import Signature, is_folder, look_at
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place, is_number, name_order
from ..dumps.statistics_csv import is_table_of_ops
from ..model.graphs_of_run import ModelGraphs
from ..store.store import RunStore
from .comparison_options import EACH, ONE

_RANK = re.compile(r"worldsize[0-9]+_global_rank([0-9]+)\Z")
_TIMED = re.compile(r"gm_[0-9]+_dump\Z")
_OLDER = "data_dump"


class FxPlace(NamedTuple):
    """Rank, graph and token from the names of the folders of TorchAir's FX dumps; None if absent.

    | form | folders |
    |---|---|
    | newest | ``worldsize{N}_global_rank{R}/{graph}/{token}/`` |
    | before | ``data_dump/{token + 1}/{graph}/`` or ``data_dump/{token + 1}/gm_{time}_dump/`` |
    | oldest | ``gm_{time}_dump/{token + 1}/`` |

    Sources: TorchAir's ``fx_dumper.py`` of several years; the vendor's guide to dumps in TorchAir's
    scenes.

    Attributes
    ----------
    rank
        Global rank of the process.
    graph
        ``graph_1``, or ``gm_{time}_dump``, whose time is when the graph was compiled.
    token
        Number of the graph's call, from 0 as in GE's dumps, whatever the folder's numbering.
    """

    rank: Optional[str] = None
    graph: Optional[str] = None
    token: Optional[str] = None


def fx_place(folder: str) -> FxPlace:
    """Return the place of the files in a folder; parents of the folder that the user named count
    too.
    """
    names = os.path.abspath(folder).split(os.sep)
    above, parent, name = ([""] * 3 + names)[-3:]
    rank = rank_of(folder)
    if _TIMED.match(parent) and is_number(name):
        return FxPlace(rank, parent, _less_one(name))
    if is_number(parent) and (above == _OLDER or _TIMED.match(name)):
        return FxPlace(rank, name, _less_one(parent))
    if is_number(name):
        return FxPlace(rank, parent, name)
    return FxPlace(rank)


def rank_of(folder: str) -> Optional[str]:
    """Return the rank in the name of a folder or one of its parents, or None."""
    ranks = [
        match.group(1)
        for match in map(_RANK.match, os.path.abspath(folder).split(os.sep))
        if match is not None
    ]
    return ranks[-1] if ranks else None


def _less_one(number: str) -> Optional[str]:
    return str(int(number) - 1) if int(number) else None


class FxFolders:
    """The places of an FX dump so far; finds the one that a place of a device's dumps is compared
    with.

    Parameters
    ----------
    target
        Folder of the device's dumps; its name or parents may include a rank.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._known: Set[FxPlace] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, folder: str) -> str:
        """Add a folder of FX files and return a name for its place."""
        place = fx_place(folder)
        self._known.add(place)
        return repr(place)

    @property
    def tokens(self) -> List[str]:
        """The tokens in ascending order."""
        return sorted(
            {place.token for place in self._known if place.token is not None}, key=name_order
        )

    def of(self, place: Place) -> Optional[str]:
        """Return the name of the FX place that a device's place is compared with, or None.

        Of several ranks the one in the device's folders is used, else the device's number. Of
        several graphs the one of its model_name; folders named by time count as ``graph_1``,
        ``graph_2``, … in order. The token is the step.

        Raises
        ------
        InputError
            Several ranks dumped the same device at the same time.
        """
        matches = [
            fx
            for fx in self._known
            if fx.token is None or place.step is None or fx.token == place.step
        ]
        if len({fx.rank for fx in self._known}) > 1:
            rank = self._rank(place)
            matches = [fx for fx in matches if fx.rank == rank]
        names = sorted({fx.graph for fx in self._known if fx.graph is not None})
        if len(names) > 1:
            graph_name = graph_of_run(place.model or "")
            number = graph_name.rpartition("_")[2]
            if (
                all(map(_TIMED.match, names))
                and is_number(number)
                and 0 < int(number) <= len(names)
            ):
                graph_name = names[int(number) - 1]
            matches = [fx for fx in matches if fx.graph == graph_name]
        return repr(matches[0]) if len(matches) == 1 else None

    def _rank(self, place: Place) -> Optional[str]:
        rank = rank_of(self._target)
        if rank is not None or place.time is None or place.device is None:
            return rank or place.device
        below = (place.time, place.device)
        patterns = [
            os.path.join(glob.escape(self._target), *more, "worldsize*_global_rank*", *below)
            for more in ((), ("*",))
        ]
        ranks = {rank_of(path) for pattern in patterns for path in glob.glob(pattern)}
        if len(ranks) > 1:
            raise InputError(
                "TARGET: %s: several ranks dumped device %s at %s"
                % (self._target, place.device, place.time),
                hint="compare one rank at a time: give its folder worldsize…_global_rank… as "
                "TARGET",
            )
        return next(iter(ranks), place.device)


# A golden file that was not whole when it was looked at: no event may come any more. Chosen, no
# trial.
_RETRY_S = 0.5


class Goldens:
    """Golden files below GOLDEN, in one set for all steps or one set for each.

    Parameters
    ----------
    folder
        GOLDEN, as the user named it.
    steps
        ``one``: all files for all steps. ``each``: a step takes the files below GOLDEN/{step}/.
        ``auto``: a step takes the golden files of GOLDEN/{step}/ where there are such folders with
        a number for a name, besides what lies elsewhere.
    target
        TARGET, whose folders tell the ranks where GOLDEN is an FX dump of several; where GOLDEN is
        TARGET itself, device dumps are no golden data.
    graphs
        The models of the run: golden data in a folder that bears the name of one of them, or whose
        manifest names its file or the one that it was compiled from, are of no other model.

    Attributes
    ----------
    model_folders
        The model by the name of a folder GOLDEN/{name}/ that holds golden data of its own, for a
        model of the run is called so or a manifest lies there: {name}'s, or, where no model is
        called so, the one that is called as the file of the original model in the manifest, or that
        file where models were compiled from it.
    changed
        A file has changed or gone that pairs may have been compared with; whoever plans those
        pairs anew sets it back.
    """

    def __init__(
        self,
        folder: str,
        steps: str,
        store: RunStore,
        target: str,
        graphs: Optional[ModelGraphs] = None,
    ) -> None:
        self.folder = folder
        self._models = {} if graphs is None else graphs.model_names
        self._compiled_from = {} if graphs is None else graphs.original_names
        self._below = os.path.join(os.path.realpath(folder), "")
        self.steps = steps
        self.store = store
        self._dumps_too = os.path.realpath(folder) != os.path.realpath(target)
        self.changed = False
        self.revision = 0
        self.changed_at = time.monotonic()
        self.file_count = 0
        self.misnamed: Set[str] = set()
        self.every = GoldenSet(folder, [])
        self._of_step: Dict[str, GoldenSet] = {}
        self.fx = FxFolders(target)
        self._own_steps: Set[str] = set()
        self.model_folders: Dict[str, str] = {}
        self._own_model_name: Optional[str] = None
        self._shared: Set[str] = set()
        self._signatures: Dict[str, Signature] = {}
        self._unwhole: Dict[str, Signature] = {}
        self._retries: Dict[str, float] = {}
        self._retried: Set[str] = set()
        self._mappings: Dict[str, Signature] = {}
        self._folders: Dict[str, Set[str]] = {}
        self._real_folders: Dict[str, str] = {}
        self._inodes: Dict[int, List[str]] = {}
        self._inodes_of = -1

    def take(self, golden: GoldenSet) -> None:
        """Take all files of a set that was listed."""
        self.every = golden
        for path in self.every.paths():
            self._share(path)
        self.revision += 1

    def of(self, place: Place) -> GoldenSet:
        """Return the set that a place is compared with."""
        if self.fx and self.steps != ONE:
            return self._set(self.fx.of(place) or "")
        model = self._golden_name(place.model)
        if model in self.model_folders.values() or self.folders_of_others(place.model):
            return self._set(model)
        return (
            self._set(place.step)
            if place.step is not None and self.takes_steps_apart
            else self.every
        )

    def folder_of(self, place: Place) -> str:
        """Return the folder whose manifest tells of what a place is compared with."""
        model = self._golden_name(place.model)
        names = [name for name, of in self.model_folders.items() if of == model]
        if place.step in self._own_steps and not _has_manifest(self.folder):
            names = names or [place.step or ""]
        return os.path.join(self.folder, names[0]) if len(names) == 1 else self.folder

    def _golden_name(self, model_name: Optional[str]) -> str:
        """Return by which name a model's golden data are kept: its own, or that of the file that it
        was compiled from where these alone are there.
        """
        model = self._models.get(model_name or "", model_name or "")
        kept = {self._own_model(), *self.model_folders.values()}
        original = self._compiled_from.get(model, model)
        return original if model not in kept and original in kept else model

    def folders_of_others(self, model: Optional[str]) -> List[str]:
        """Return the folders of golden data, GOLDEN itself among them, that are of another model of
        the run by their name or manifest, where none is of this one."""
        of = {self._own_name: self._own_model(), **self.model_folders}
        if model is None or model not in self._models or self._golden_name(model) in of.values():
            return []
        return sorted(name for name in of if name in self._models or of[name] in self._models)

    @property
    def _own_name(self) -> str:
        return os.path.basename(self._below.rstrip(os.sep))

    def _own_model(self) -> str:
        """Return the model that what lies in GOLDEN itself is of."""
        if self._own_model_name is None:
            self._own_model_name = self._model_of(self._own_name, self.folder)
        return self._own_model_name

    def _model_of(self, name: str, folder: str) -> str:
        """Return the model whose golden data a folder holds: the one of the run that is called as
        the folder, or as the file of the original model in its manifest, or that file where models
        were compiled from it; else the folder's name.
        """
        model = self._models.get(name)
        # A manifest may be large, and of one model alone nothing is to be told apart.
        file = model_file_name(folder) if len(set(self._models.values())) > 1 else ""
        made_of = model
        if model is None or file != self._compiled_from.get(model):
            compiled = file if file in self._compiled_from.values() else model
            made_of = self._models.get(file, compiled)
        if model is not None and made_of not in (None, model):
            # The folder's name and its manifest tell two models: it is neither's.
            made_of = os.path.join(name, str(made_of))
        return made_of or name

    def lacks(self, place: Place) -> bool:
        """Tell whether each step has golden data of its own, and that of a place has none."""
        return (
            (place.step is not None or bool(self.fx))
            and self.takes_steps_apart
            and not len(self.of(place))
        )

    @property
    def takes_steps_apart(self) -> bool:
        """Whether each step is compared with golden data of its own."""
        return self.steps == EACH or (self.steps != ONE and bool(self._own_steps or self.fx))

    @property
    def step_names(self) -> List[str]:
        """The steps that have golden data of their own."""
        if self.fx:
            return self.fx.tokens
        return sorted(self._own_steps, key=lambda step: (len(step), step))

    @property
    def kind(self) -> str:
        """What the golden data are, as :attr:`goldwatch.dumps.GoldenSet.kind`."""
        return self.every.kind

    def _set(self, step: str) -> GoldenSet:
        if step not in self._of_step:
            self._of_step[step] = made = GoldenSet(self.folder, [])
            for path in sorted(self._shared):
                if self._takes_shared(step, path):
                    made.add(path)
        return self._of_step[step]

    def _step_of(self, path: str) -> Optional[str]:
        """Return the step (of an FX dump: the place) or the model whose own a file is; None: it is
        for all.
        """
        above = os.path.join(self.folder, "")
        # Nearly all: relpath asks for the current folder, twice.
        rel = path[len(above) :] if path.startswith(above) else os.path.relpath(path, self.folder)
        parts = rel.split(os.sep)
        name = parts[-1]
        if self.steps != ONE and parse_fx_name(name) is not None:
            return self.fx.add(os.path.dirname(path))
        if self.steps == EACH:
            return parts[0] if len(parts) > 1 else None
        if self.steps == ONE or len(parts) != 2:
            return None
        is_golden = parse_golden_name(name) is not None or is_hash_name(name)
        if not is_golden:
            return None
        name = parts[0]
        folder = os.path.join(self.folder, name)
        if name not in self.model_folders and (name in self._models or _has_manifest(folder)):
            model = self._model_of(name, folder)
            # A number is a step, which may have a manifest of its own, but where that tells one of
            # several models.
            tells = len(self._models) > 1 and model != name
            if is_number(name) and name not in self._models and not tells:
                return name
            self.model_folders[name] = model
        return self.model_folders.get(name, name if is_number(name) else None)

    def _share(self, path: str) -> None:
        """Add a file to the sets of the steps to which it belongs."""
        step = self._step_of(path)
        if step is not None:
            if step not in self.model_folders.values():
                self._own_steps.add(step)
            self._set(step).add(path)
        elif self.steps not in (ONE, EACH):
            self._shared.add(path)
            for name, other in self._of_step.items():
                if self._takes_shared(name, path):
                    other.add(path)

    def _takes_shared(self, step: str, path: str) -> bool:
        """Tell whether a file that is of no step or model alone is for one, too: not for a model
        with a folder of its own where GOLDEN has a manifest, or the file lies in a folder beside;
        nor where GOLDEN is of another model.
        """
        own = self._own_model()
        ours = {*self._models, *self._compiled_from.values()}
        if step in ours and (own in ours or self._own_name in ours):
            return step == own
        if step not in self.model_folders.values():
            return True
        folder = os.path.relpath(os.path.dirname(path), self.folder).split(os.sep)[0]
        beside = folder != os.curdir and self.model_folders.get(folder) != step
        return not beside and not _has_manifest(self.folder)

    def shares_file(self, path: str, inode: int) -> bool:
        """Tell whether a file is golden data under any other name: by a link, or a hard link."""
        if self._inodes_of != self.revision:
            self._inodes_of, self._inodes = self.revision, {}
            for name, signature in self._signatures.items():
                self._inodes.setdefault(signature.inode, []).append(name)
        names = self._inodes.get(inode, []) + [
            name for name, signature in self._unwhole.items() if signature.inode == inode
        ]
        return any(os.path.exists(name) and os.path.samefile(name, path) for name in names)

    def signature(self, path: str) -> Optional[Signature]:
        """Return how a file looked when it was taken; None where it is no golden file."""
        return self._signatures.get(path) or self._signatures.get(self._named(path))

    def note(self, path: str) -> None:
        """Record the signature of a file before it is read."""
        signature = look_at(path)
        if signature is not None and self._signatures.get(path) != signature:
            self._signatures[path] = signature
            self.store.put_file(
                self._real_path(path), signature.size_bytes, signature.mtime_ns, signature.text
            )

    def _real_path(self, path: str) -> str:
        """Return ``os.path.realpath(path)``; the folders of many files are looked at once."""
        if os.path.islink(path):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return os.path.join(self._real_folders[folder], name)

    def _named(self, path: str) -> str:
        """Return a path below GOLDEN as the user would write it, for messages."""
        return (
            os.path.join(self.folder, path[len(self._below) :])
            if path.startswith(self._below)
            else path
        )

    def look(self, path: str) -> bool:
        """Look at a file that may have come, changed or gone; tell whether anything was new.

        Must be called inside a transaction of the store.
        """
        path = self._named(path)
        name = os.path.basename(path)
        if name in (MAPPING_FILE, MANIFEST_FILE):
            return self._look_at_mapping(path)
        if not self._is_golden(name) and not (self._dumps_too and is_table_of_ops(path)):
            if intended_golden_name(name) is not None or lacks_name_part(name):
                self.misnamed.add(path)
            return False
        signature = look_at(path)
        if signature is None:
            return self._drop(path)
        retried = path in self._retried
        self._retried.discard(path)
        if signature == self._signatures.get(path) or (
            signature == self._unwhole.get(path) and not retried
        ):
            return False
        fresh = signature != self._unwhole.get(path)
        self.changed_at = time.monotonic() if fresh else self.changed_at
        self.file_count += path not in self._signatures and path not in self._unwhole
        if not self._whole(path) or look_at(path) != signature:
            self._drop(path)
            self._unwhole[path] = signature
            if fresh:
                self._retries[path] = time.monotonic() + _RETRY_S
            return fresh
        self._take(path)
        return True

    def _is_golden(self, name: str) -> bool:
        if is_hash_name(name) or parse_golden_name(name) is not None:
            return True
        dump = parse_dump_name(name)
        return self._dumps_too and dump is not None and dump.kind != "overflow"

    def _whole(self, path: str) -> bool:
        try:
            from ..dumps.completeness import NO_LAW, probe

            return probe(path).state in (COMPLETE, NO_LAW)
        except (GoldwatchError, OSError):
            return False

    def _take(self, path: str) -> None:
        self._unwhole.pop(path, None)
        self._retries.pop(path, None)
        self.changed = self.changed or path in self._signatures
        self.note(path)
        self._folders.setdefault(os.path.dirname(path), set()).add(path)
        self._add(path)

    def _drop(self, path: str) -> bool:
        self._unwhole.pop(path, None)
        self._retries.pop(path, None)
        if self._signatures.pop(path, None) is None:
            return False
        self._folders.get(os.path.dirname(path), set()).discard(path)
        self._shared.discard(path)
        for golden in (self.every, *self._of_step.values()):
            golden.discard(path)
        self.revision += 1
        self.changed_at = time.monotonic()
        self.changed = True
        return True

    def _look_at_mapping(self, path: str) -> bool:
        signature = look_at(path)
        if signature is None or self._mappings.get(path) == signature:
            return False
        self._mappings[path] = signature
        if os.path.dirname(path) == self.folder.rstrip(os.sep):
            before, self._own_model_name = self._own_model_name, None
            self.changed = self.changed or before not in (None, self._own_model())
        self.changed_at = time.monotonic()
        self._add(path)
        return True

    def _add(self, path: str) -> None:
        self.every.add(path)
        for golden in (
            self._of_step.values()
            if os.path.basename(path) in (MAPPING_FILE, MANIFEST_FILE)
            else ()
        ):
            golden.add(path)
        self._share(path)
        self.revision += 1

    def known_below(self, folder: str) -> List[str]:
        """Return the paths of known files in a folder (where that has gone: also below it)."""
        folder = self._named(folder + os.sep).rstrip(os.sep)
        folders = [folder]
        if not is_folder(folder):
            folders += [other for other in self._folders if other.startswith(folder + os.sep)]
        return [path for name in folders for path in self._folders.get(name, ())]

    def due(self, now: float) -> List[str]:
        """Return files that were not whole and are to be looked at again."""
        paths = [path for path, when in self._retries.items() if when <= now]
        for path in paths:
            del self._retries[path]
            # One more look even where nothing seems changed; after that only a change counts.
            self._retried.add(path)
        return paths

    def close(self) -> None:
        """Take what never became whole as well: its rows then tell what is wrong with it."""
        for path in list(self._unwhole):
            if look_at(path) is not None:
                self._take(path)


def _has_manifest(folder: str) -> bool:
    return look_at(os.path.join(folder, MANIFEST_FILE)) is not None
