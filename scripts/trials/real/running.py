"""Runs of the trial: one network with one input on one device, compared with its golden data;
healthy, then with planted faults."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import shutil
import tempfile
import time
import zlib
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from .device import Device, Store
from .faults import KINDS, NETWORK_KINDS, Planted, other_input, plant
from .lowering import Habit, Lowered, lower
from .nets import NETS, model_of
from .writing import PLACE, write_changed, write_json, write_tree

Array = Any

HABITS: Dict[str, Habit] = {
    "f16": Habit(),
    "f16-told": Habit(weights=True, told=True, sharp=True, islands=("SoftmaxV2", "LayerNorm")),
    "f16-plain": Habit(fold=False, fuse=False, blocks=False, five=False, fractal=False),
    "f16-islands": Habit(
        islands=(
            "SoftmaxV2",
            "LayerNorm",
            "ReduceMeanD",
            "ReduceSumD",
            "Sigmoid",
            "Log",
            "Sqrt",
            "Pow",
            "Exp",
        ),
        fuse=False,
        sharp=True,
    ),
    "f16-sums": Habit(half_sums=True, told=True),
    "bf16": Habit("bfloat16", islands=("SoftmaxV2", "LayerNorm")),
    "bf16-told": Habit("bfloat16", weights=True, told=True, fuse=False, sharp=True),
    "f32": Habit("float32"),
    "f32-told": Habit("float32", weights=True, told=True, five=False, fractal=False, sharp=True),
    "hf32": Habit("hf32", weights=True, told=True),
}
OTHER_HABITS: Dict[str, Habit] = {
    "f16-cut": Habit(cut=True),
    "bf16-cut": Habit("bfloat16", cut=True, weights=True, told=True, fuse=False),
    "f16-sums-cut": Habit(half_sums=True, cut=True, told=True),
}
"""Devices that are only tried where they are asked for."""
ALL_HABITS = {**HABITS, **OTHER_HABITS}
FORMS = ("all", "output", "bare")
"""``all``: dumps with inputs. ``output``: without. ``bare``: without, and golden data do not tell
where the original model is."""

_HALF_RANGE = 60000.0
_FARTHEST = {"float16": 0.0225, "bfloat16": 0.15, "float32": 0.0225}
"""Relative Euclidean distance of an op's output from golden data that a type which suits a network
keeps: three quarters of goldwatch's default limits."""


class Run(NamedTuple):
    """One run: what decides it. Its text form names it in the tables and on the command line."""

    net: str
    number: int
    habit: str
    form: str
    fault: str = ""
    seed: int = 0

    def text(self) -> str:
        """Return the run's name."""
        return "/".join(
            [self.net, str(self.number), self.habit, self.form]
            + ([self.fault, str(self.seed)] if self.fault else [])
        )


def parse_run(text: str) -> Run:
    """Return the run of a name; ValueError where it is none."""
    parts = text.split("/")
    if (
        len(parts) not in (4, 6)
        or parts[0] not in NETS
        or parts[2] not in ALL_HABITS
        or parts[3] not in FORMS
    ):
        raise ValueError("%r is not the name of a run: NET/INPUT/HABIT/FORM[/FAULT/SEED]" % text)
    if len(parts) == 6 and parts[4] not in KINDS and parts[4] not in NETWORK_KINDS:
        raise ValueError("no fault is called %r" % parts[4])
    return Run(
        parts[0],
        int(parts[1]),
        parts[2],
        parts[3],
        *([parts[4], int(parts[5])] if len(parts) == 6 else []),
    )


class Options(NamedTuple):
    """What all runs of a trial share.

    Attributes
    ----------
    words
        Further words for ``goldwatch compare``.
    keep
        Folder that keeps a run's files; empty: none.
    """

    cache: str
    words: Tuple[str, ...] = ()
    keep: str = ""


class Scene:
    """One network with one input on one device: compiled, run, its golden data made.

    Raises
    ------
    LookupError
        The network cannot be had, or the device's type does not suit it.
    """

    def __init__(self, net: str, number: int, habit: str, options: Options, folder: str) -> None:
        model = model_of(net, options.cache)
        if model is None:
            raise LookupError("%s cannot be had" % net)
        self.model, self.folder, self.habit, self.options = (
            model,
            folder,
            ALL_HABITS[habit],
            options,
        )
        self.net, self.number = net, number
        self.feeds = NETS[net].feed(number)
        self.lowered: Lowered = lower(model, self.feeds, self.habit)
        self.device = Device(self.lowered, self.habit)
        with np.errstate(all="ignore"):
            self.healthy: Store = self.device.run()
        self._suits()
        self.om = write_json(self.lowered, self.habit, os.path.join(folder, "model.json"))
        self._goldens: Dict[bool, str] = {}
        self._trees: Dict[str, str] = {}

    def _suits(self) -> None:
        """Refuse a type whose range or steps the golden values leave."""
        for op in self.lowered.ops:
            for index, out in enumerate(op.outputs):
                golden = self.lowered.values[out.value]
                if golden.dtype != np.float32 or not golden.size:
                    continue
                if not np.isfinite(golden).all():
                    raise LookupError("golden data of %s are not finite" % op.name)
                if out.dtype == "float16" and np.abs(golden).max() > _HALF_RANGE:
                    raise LookupError("%s leaves float16" % op.name)
                made = self.healthy[op.name, index].reshape(golden.shape)
                if not np.isfinite(made).all():
                    raise LookupError("%s is not finite in %s" % (op.name, out.dtype))
                far = np.linalg.norm(made.astype(np.float64) - golden)
                if op.nodes and far > _FARTHEST[self.habit.dtype] * np.linalg.norm(golden):
                    raise LookupError("%s is %s: not exact enough" % (op.name, self.habit.dtype))

    def golden(self, bare: bool) -> str:
        """Return the folder of golden data, made when first asked for."""
        if bare not in self._goldens:
            folder = os.path.join(self.folder, "golden")
            self._goldens[bare] = (
                self._without_model() if bare else make_golden(self.model, self.feeds, folder)
            )
        return self._goldens[bare]

    def _without_model(self) -> str:
        """Return golden data of which the manifest does not tell the original model."""
        before, folder = self.golden(False), os.path.join(self.folder, "golden_bare")
        shutil.copytree(before, folder, copy_function=os.link)
        path = os.path.join(folder, "manifest.json")
        with open(path, encoding="utf-8") as stream:
            manifest = json.load(stream)
        os.unlink(path)
        for key in ("model", "original", "original_model", "source"):
            manifest.pop(key, None)
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(manifest, stream)
        return folder

    def tree(self, form: str) -> str:
        """Return the dump tree of the healthy run."""
        form = "all" if form == "all" else "output"
        if form not in self._trees:
            root = os.path.join(self.folder, "dump_" + form)
            write_tree(self.lowered, self.healthy, self.habit, form, root)
            self._trees[form] = root
        return self._trees[form]


def run_one(run: Run, scene: Scene) -> Optional[Dict[str, Any]]:
    """Return what came of a run; None where no operator of the network can have the fault."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scene.folder) as here:
        golden, dump, found = scene.golden(run.form == "bare"), scene.tree(run.form), _found(run)
        random = np.random.RandomState(zlib.crc32(run.text().encode()) & 0x7FFFFFFF)
        form = "all" if run.form == "all" else "output"
        if run.fault in KINDS:
            made = plant(run.fault, scene.device, scene.healthy, random)
            if made is None:
                return None
            dump = os.path.join(here, "dump")
            write_changed(
                scene.lowered,
                made.changed,
                made.store,
                scene.habit,
                form,
                dump,
                scene.tree(run.form),
            )
            _tell_planted(found, made, scene)
        elif run.fault == "golden-exchanged":
            golden = _exchanged(scene, golden, os.path.join(here, "golden"), random, found)
            if not golden:
                return None
        elif run.fault:
            dump = os.path.join(here, "dump")
            if not fed_otherwise(found, scene, run, form, dump):
                return None
        _judge(found, scene, dump, golden, here)
        found["seconds"] = round(time.monotonic() - started, 2)
        if scene.options.keep:
            _keep(scene, found, dump, golden)
    return found


def fed_otherwise(found: Dict[str, Any], scene: Scene, run: Run, form: str, dump: str) -> bool:
    """Write the dumps of a device that got another input; False where the network has none such."""
    data = other_input(run.fault, scene.feeds, NETS[run.net].feed(run.number + 17))
    if data is None or run.fault != "input-other" and not NETS[run.net].images:
        return False
    with np.errstate(all="ignore"):
        store = scene.device.run(data)
    write_tree(scene.lowered, store, scene.habit, form, dump)
    _tell_input(found, scene, data)
    return True


def _found(run: Run) -> Dict[str, Any]:
    return {
        "run": run.text(),
        "net": run.net,
        "habit": run.habit,
        "form": run.form,
        "fault": run.fault,
        "op": "",
        "type": "",
    }


def _tell_planted(found: Dict[str, Any], made: Planted, scene: Scene) -> None:
    found["op"], found["moved"], found["roundings"] = made.op, made.moved, made.roundings
    found["type"] = next(op.type for op in scene.lowered.ops if op.name == made.op)


def _tell_input(found: Dict[str, Any], scene: Scene, data: Dict[str, Array]) -> None:
    name = next(iter(data))
    right = scene.feeds[name].astype(np.float64)
    found["moved"] = float(np.linalg.norm(data[name] - right) / (np.linalg.norm(right) or 1))
    found["roundings"] = found["moved"] * 2**11


def _exchanged(scene: Scene, before: str, folder: str, random: Any, found: Dict[str, Any]) -> str:
    """Return golden data of which two tensors of one shape are exchanged; empty where there are no
    two."""
    shown = {out.origin: op for op in scene.lowered.ops if op.nodes for out in op.outputs}
    with open(os.path.join(before, "manifest.json"), encoding="utf-8") as stream:
        entries = [
            entry
            for entry in json.load(stream)["tensors"]
            if (entry["original_name"], entry["output_index"]) in shown
        ]
    entries = [
        entry
        for entry in entries
        if entry["dtype"] == "float32" and int(np.prod(entry["shape"])) > 8
    ]
    random.shuffle(entries)
    for at, one in enumerate(entries):
        for other in entries[at + 1 :]:
            ops = [shown[entry["original_name"], entry["output_index"]] for entry in (one, other)]
            if one["shape"] != other["shape"] or ops[0] is ops[1]:
                continue
            arrays = [
                np.load(os.path.join(before, entry["file"])).astype(np.float64)
                for entry in (one, other)
            ]
            moved = float(np.linalg.norm(arrays[0] - arrays[1]) / (np.linalg.norm(arrays[0]) or 1))
            if moved < 0.03:
                continue
            shutil.copytree(before, folder, copy_function=os.link)
            for entry, source in ((one, other), (other, one)):
                path = os.path.join(folder, entry["file"])
                os.unlink(path)
                os.link(os.path.join(before, source["file"]), path)
            found["op"], found["moved"], found["roundings"] = (
                "\n".join(op.name for op in ops),
                moved,
                moved * 2**11,
            )
            found["type"] = "\n".join(op.type for op in ops)
            return folder
    return ""


def _judge(found: Dict[str, Any], scene: Scene, dump: str, golden: str, here: str) -> None:
    """Compare, and note what was said."""
    path = os.path.join(here, "result.json")
    words = [
        "compare",
        os.path.join(dump, PLACE.folder()),
        golden,
        "-f",
        scene.om,
        "-o",
        os.path.join(here, "out"),
        "--quiet",
    ]
    words += ["--table", "none", "--jobs", "1", "--json", path, *scene.options.words]
    code, text = _goldwatch(words)
    found["code"], found["planted"] = code, found["op"].split("\n")
    found["suspects"], found["first"], found["failed"] = [], "", 0
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            summary = json.load(stream)["summary"]
        for suspect in summary["suspects"]:
            kinds, said = (
                [entry[key] for entry in suspect["explanations"]] for key in ("kind", "sentence")
            )
            found["suspects"].append(
                [suspect["op"], suspect["op_type"], suspect["evidence"], kinds, said]
            )
        found["first"] = (summary.get("first_divergence") or {}).get("op", "")
        found["failed"] = summary["failed"]
    if code not in (0, 1) or not os.path.exists(path):
        found["error"] = text[-2000:]
    said = list(_own_sentences(text, [op.name for op in scene.lowered.ops], found["planted"]))
    found["maybe"] = [line for line in said if _MAYBE.search(line)]
    found["own"] = [line for line in said if not _MAYBE.search(line)]


_MAYBE = re.compile(r"\bmay be its own\b")
_OWN = re.compile(r"\bits own\b(?! input)")
_CHANNELS_OWN = re.compile(r"\b(factor|offset) of its own\b")


def _own_sentences(text: str, ops: Sequence[str], planted: Sequence[str]) -> Iterator[str]:
    """Yield the sentences that say of another op than the planted one that the error is its own."""
    for line in re.split(r"\n|Besides, ", text):
        if not _OWN.search(_CHANNELS_OWN.sub("", line)) or re.match(
            r"(No|The golden comparison fails but no) operator", line
        ):
            continue
        places = [
            (found.start(), -len(name), name)
            for name in ops
            for found in [re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), line)]
            if found
        ]
        if places and min(places)[2] not in planted:
            yield line.strip()[:300]


def _keep(scene: Scene, found: Dict[str, Any], dump: str, golden: str) -> None:
    """Copy what a run was made of, with the command that judges it."""
    keep = scene.options.keep
    for name, source in (("dump", dump), ("golden", golden)):
        shutil.rmtree(os.path.join(keep, name), ignore_errors=True)
        shutil.copytree(source, os.path.join(keep, name))
    shutil.copyfile(scene.om, os.path.join(keep, "model.json"))
    words = "goldwatch compare dump golden -f model.json -o out --force " + " ".join(
        scene.options.words
    )
    with open(os.path.join(keep, "cmd.sh"), "w", encoding="utf-8") as stream:
        stream.write(
            '#!/bin/sh\n# %s: %s %s\ncd "$(dirname "$0")" && %s\n'
            % (found["run"], found["fault"], found["op"], words.strip())
        )
    with open(os.path.join(keep, "found.json"), "w", encoding="utf-8") as stream:
        json.dump(found, stream, indent=1)


def make_golden(model: str, feeds: Mapping[str, Array], folder: str) -> str:
    """Make golden data of a model in a folder, with its inputs beside it; return the folder.

    Raises
    ------
    RuntimeError
        The command failed.
    """
    words = ["golden", "onnx", "dump", model, "-o", folder, "--quiet", "--threads", "1"]
    for index, (name, array) in enumerate(feeds.items()):
        path = os.path.join(os.path.dirname(folder), "input_%d.npy" % index)
        np.save(path, array)
        words += ["--input", "%s=%s" % (name, path)]
    code, out = _goldwatch(words)
    if code:
        raise RuntimeError("golden onnx dump %s ended with %s: %s" % (model, code, out.strip()))
    return folder


def _goldwatch(words: Sequence[str]) -> Tuple[int, str]:
    """Run the command line in this process; return its exit code and all that it printed."""
    from goldwatch.cli import goldwatch
    from goldwatch.cli.error_handling import run_command

    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            run_command(goldwatch, list(words))
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


Unit = Tuple[Tuple[str, int, str], List[Run]]


def _work(given: Tuple[Unit, Options]) -> List[Dict[str, Any]]:
    """Do the runs of one network with one input on one device."""
    (key, runs), options = given
    found: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="goldwatch-real-trial-") as folder:
        try:
            scene = Scene(*key, options, folder)
        except LookupError as reason:
            return [{"run": run.text(), "left_out": str(reason)} for run in runs]
        for run in runs:
            made = run_one(run, scene)
            found.append(
                made
                if made is not None
                else {"run": run.text(), "left_out": "no operator can have it"}
            )
    return found


def planned(
    nets: Sequence[str],
    habits: Sequence[str],
    inputs: int,
    faults: int,
    seed: int,
    kinds: Sequence[str],
) -> List[Unit]:
    """Return the runs of a trial, those of one scene together; any beginning is a fair part.

    Parameters
    ----------
    inputs
        Of each network.
    faults
        Of each scene; kinds and forms take turns.
    """
    keys = [
        (net, number, habit)
        for number in range(seed, seed + inputs)
        for net in nets
        for habit in habits
    ]
    keys.sort(key=lambda key: zlib.crc32(repr(key).encode()))
    units: List[Unit] = []
    turn = seed * 7
    for place, key in enumerate(keys):
        runs = [Run(*key, form) for form in ("all", FORMS[1 + place % 2])]
        for _ in range(faults):
            kind, round_ = kinds[turn % len(kinds)], turn // len(kinds)
            runs.append(Run(*key, FORMS[(turn + round_) % 3], kind, round_))
            turn += 1
        units.append((key, runs))
    return units


def run_all(
    units: Iterable[Unit], options: Options, jobs: int, do: Callable[..., Any] = _work
) -> Iterator[Dict[str, Any]]:
    """Yield what came of each run, scene by scene; ``do`` does those of one."""
    work = [(unit, options) for unit in units if unit[1]]
    if jobs == 1:
        for entry in work:
            yield from do(entry)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        for part in pool.imap_unordered(do, work):
            yield from part
