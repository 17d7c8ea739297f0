"""Runs of the trial: a network on a device that reads one thing otherwise, compared with golden
data of the network as it is; and the table of what was said."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections import defaultdict
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..real.attributes import attributes
from ..real.device import Change, Device, Store
from ..real.faults import Scene
from ..real.lowering import Habit, Lowered, Op, lower
from ..real.running import PLACE, _goldwatch, make_golden
from ..real.writing import write_json, write_tree
from .exchanges import EXCHANGES, Exchange
from .lot import draw, unrelated
from .networks import CORE, build

Array = Any
Found = Dict[str, Any]

DTYPES = ("float16", "float32")
FORMS = ("all", "output")
TOLD = ("none", "model", "device")
"""What attributes the om's json has: none, the model's, those by which the device computes."""
HEALTHY = "healthy"
_PATTERNS = frozenset(
    "saturation overflow flush-to-zero rounding layout shift scale bias wrong-golden other-input "
    "random dequantisation stale-dump padding one-slice nan did-nothing one-device "
    "activation".split()
)
"""Kinds of explanation that are false unless an exchange says that they are also true of it."""
_FALSE = re.compile(r"foreign memory|nothing to do with|unrelated", re.I)
_EXCUSED = re.compile(r"inherit|accumulated rounding|small errors add up|\bcore\b[^.;]* is right")


class Options(NamedTuple):
    """What all runs of a trial share.

    Attributes
    ----------
    told
        One of ``TOLD``; empty: they take turns.
    keep
        Folder that keeps each run's files; empty: none.
    """

    dtypes: Tuple[str, ...] = DTYPES
    forms: Tuple[str, ...] = FORMS
    told: str = ""
    seed: int = 0
    keep: str = ""


def chosen(pattern: str, quick: bool) -> List[Exchange]:
    """Return the exchanges whose names match; ``quick``: each sixth of them."""
    found = [entry for entry in EXCHANGES if re.search(pattern, entry.name)]
    return found[::6] if quick else found


def work(given: Tuple[str, bool, Options]) -> List[Found]:
    """Do the runs of the exchange of a name; ``given`` says whether those of the healthy network
    too."""
    name, control, options = given
    exchange = exchange_of(name)
    found: List[Found] = []
    with tempfile.TemporaryDirectory(prefix="goldwatch-attribute-trial-") as folder:
        seed = zlib.crc32(exchange.name.encode()) % 10**6 + options.seed
        net, result = build(exchange.frame, exchange.core, seed)
        model = net.save(os.path.join(folder, "model.onnx"), [result])
        make_golden(model, net.inputs, os.path.join(folder, "golden"))
        for dtype in options.dtypes:
            habit = Habit(dtype, False, False, False, False, False, five=False, fractal=False,
                          sharp=True)  # fmt: skip
            lowered = lower(model, net.inputs, habit)
            device = Device(lowered, habit)
            with np.errstate(all="ignore"):
                healthy = device.run()
                store, changed = _exchanged(device, healthy, exchange, seed)
            same = all(np.array_equal(array, healthy[key]) for key, array in store.items())
            for form in options.forms:
                for wrong in [True] * (not same) + [False] * control:
                    run = Run(name, exchange, dtype, form, wrong, len(lowered.ops))
                    found.append(
                        run.judged(
                            lowered, habit, store if wrong else healthy, changed, folder, options
                        )
                    )
    return found


def _exchanged(
    device: Device, healthy: Store, exchange: Exchange, seed: int
) -> Tuple[Store, Change]:
    """Return what a device with the exchange makes, and the change.

    Raises
    ------
    ValueError
        The exchange changes the shape of what the core makes.
    """
    core = next(op for op in device.lowered.ops if op.name == CORE)
    change = exchange.maker(Scene(device, core, healthy, np.random.RandomState(seed)))
    store = dict(healthy)
    made = device.one(core, store, change)
    for index, array in enumerate(made):
        before = healthy[CORE, index]
        if array.shape != before.shape or array.dtype != before.dtype:
            raise ValueError(
                "%s: %s %s, not %s %s"
                % (exchange.name, array.dtype, array.shape, before.dtype, before.shape)
            )
        store[CORE, index] = array
    return device.go_on(store, device.behind(core)), change


class Run(NamedTuple):
    """One run."""

    name: str
    exchange: Exchange
    dtype: str
    form: str
    wrong: bool
    ops: int

    def text(self) -> str:
        """Return the run's name."""
        return "/".join([self.exchange.name, self.dtype, self.form] + [HEALTHY] * (not self.wrong))

    def judged(
        self,
        lowered: Lowered,
        habit: Habit,
        store: Store,
        change: Change,
        folder: str,
        options: Options,
    ) -> Found:
        """Write the dumps, compare them, and return what was said."""
        started = time.monotonic()
        told = options.told or TOLD[zlib.crc32(self.text().encode()) % len(TOLD)]
        found: Found = {"run": self.text(), "exchange": self.name, "told": told,
                        "dtype": self.dtype, "form": self.form, "wrong": self.wrong,
                        "ops": self.ops}  # fmt: skip
        dump, om = os.path.join(folder, "dump"), os.path.join(folder, "om.json")
        out = os.path.join(folder, "out")
        for path in (dump, out):
            shutil.rmtree(path, ignore_errors=True)
        write_tree(lowered, store, habit, self.form, dump)
        core = next(op for op in lowered.ops if op.name == CORE)
        kept = core.attributes
        if self.wrong and told == "device":
            core.attributes = _changed_attributes(core, change, lowered)
        write_json(lowered, habit._replace(told=told != "none"), om)
        core.attributes = kept
        path = os.path.join(out, "result.json")
        words = ["compare", os.path.join(dump, PLACE.folder()), os.path.join(folder, "golden")]
        words += ["-f", om, "-o", out, "--quiet", "--table", "none", "--jobs", "1"]
        found["code"], text = _goldwatch(words)
        if found["code"] not in (0, 1) or not os.path.exists(path):
            raise RuntimeError("%s: exit %s: %s" % (self.text(), found["code"], text[-2000:]))
        with open(path, encoding="utf-8") as stream:
            summary = json.load(stream)["summary"]
        found["suspects"] = [
            [entry["op"], entry["evidence"],
             [[one["kind"], one["sentence"]] for one in entry["explanations"]]]
            for entry in summary["suspects"]
        ]  # fmt: skip
        found["not_computed"] = summary.get("recomputed", {}).get("not_computed", [])
        found["excused"] = [
            sentence.strip()
            for line in text.split("\n")
            for sentence in re.split(r"(?<=[.;]) ", line)
            if re.search(r"\b%s\b(?!:input)" % CORE, sentence) and _EXCUSED.search(sentence)
        ]
        found["seconds"] = round(time.monotonic() - started, 2)
        if options.keep:
            self._keep(folder, os.path.join(options.keep, self.text().replace("/", "_")), text)
        return found

    def _keep(self, folder: str, kept: str, text: str) -> None:
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        with open(os.path.join(kept, "said.txt"), "w", encoding="utf-8") as stream:
            stream.write(text)
        with open(os.path.join(kept, "cmd.sh"), "w", encoding="utf-8") as stream:
            stream.write(
                '#!/bin/sh\n# %s\ncd "$(dirname "$0")" && '
                "goldwatch compare dump/%s golden -f om.json --original model.onnx -o out --force\n"
                % (self.text(), PLACE.folder())
            )


def _changed_attributes(core: Op, change: Change, lowered: Lowered) -> Dict[str, Any]:
    """Return the attributes of the node by which the device computes; those of the model where it
    is of another type, or none."""
    nodes = change.nodes(core.nodes) if change.nodes is not None else core.nodes
    if len(nodes) != 1 or nodes[0].op_type != core.nodes[0].op_type:
        return core.attributes
    constants = {entry.value: entry.array for entry in core.constants}
    if change.constants is not None:
        constants = change.constants(constants)
    graph = SimpleNamespace(constants=constants, values=lowered.values, opset=lowered.opset)
    return attributes(core.type, nodes, graph)


def rank(entry: Found) -> int:
    """Return the core's place among the suspects, from 0; −1 where it is none of them."""
    return next((at for at, suspect in enumerate(entry["suspects"]) if suspect[0] == CORE), -1)


def _explanations(entry: Found) -> List[Tuple[str, str]]:
    at = rank(entry)
    return [] if at < 0 else [tuple(one) for one in entry["suspects"][at][2]]


def named(entry: Found, first: bool = True) -> bool:
    """Tell whether the first explanation, or one of all, names the thing, or what does the same."""
    exchange = exchange_of(entry["exchange"])
    return any(
        re.search(exchange.named, text, re.I) or _proven(exchange, text)
        for kind, text in (_explanations(entry)[:1] if first else _explanations(entry))
        if kind != "unexplained"
    )


def valued(entry: Found) -> bool:
    """Tell whether the first explanation names the thing, with what the device took instead."""
    exchange = exchange_of(entry["exchange"])
    said = _explanations(entry)[:1]
    return named(entry) and any(
        re.search(exchange.value, text, re.I) or _proven(exchange, text) for _, text in said
    )


def _proven(exchange: Exchange, text: str) -> bool:
    return exchange.proves is not None and exchange.proves(text)


def false(entry: Found) -> List[str]:
    """Return the sentences that are not true."""
    exchange = exchange_of(entry["exchange"])
    wrong = [
        "%s: %s" % (kind, text)
        for kind, text in _explanations(entry)
        if _FALSE.search(text)
        or kind in _PATTERNS
        and kind not in exchange.also
        and not re.search(exchange.named, text, re.I)
    ]
    return wrong + entry["excused"]


def accused(entry: Found) -> List[str]:
    """Return the operators that are suspects and innocent."""
    return [suspect[0] for suspect in entry["suspects"] if suspect[0] != CORE or not entry["wrong"]]


@lru_cache(maxsize=None)
def exchange_of(name: str) -> Exchange:
    """Return an exchange by its name, or by ``lot/SEED/NUMBER`` one that is drawn; with ``null`` in
    place of ``lot`` what nothing explains.
    """
    if name.startswith(("lot/", "null/")):
        kind, seed, number = name.split("/")
        return (draw if kind == "lot" else unrelated)(int(seed), int(number))
    return next(one for one in EXCHANGES if one.name == name)


_HEAD = ("| runs | count | core first | named first | with its value | named at all "
         "| something false | another accused |")  # fmt: skip


def table(found: Sequence[Found]) -> Iterator[str]:
    """Yield the lines of the table."""
    wrong = [entry for entry in found if entry["wrong"]]
    yield _HEAD
    yield "|---" * 8 + "|"
    parts = [("%s, %s" % (dtype, form), [entry for entry in wrong if entry["dtype"] == dtype
                                         and entry["form"] == form])
             for dtype in DTYPES for form in FORMS]  # fmt: skip
    parts += [
        ("json with attributes: " + told, [entry for entry in wrong if entry["told"] == told])
        for told in TOLD
    ]
    for title, group in [*parts, ("**all**", wrong)]:
        if group:
            counts = [sum(bool(fits(entry)) for entry in group) for fits in (
                lambda entry: rank(entry) == 0, named, valued,
                lambda entry: named(entry, False), false, accused)]  # fmt: skip
            yield "| %s | %d | %s |" % (title, len(group), " | ".join("%d (%.1f %%)" % (
                count, 100.0 * count / len(group)) for count in counts))  # fmt: skip
    healthy = [entry for entry in found if not entry["wrong"]]
    yield ""
    yield "healthy: %d runs, %d end with 0, %d accuse an operator, %.1f s each" % (
        len(healthy),
        sum(entry["code"] == 0 for entry in healthy),
        sum(bool(accused(entry)) for entry in healthy),
        sum(entry["seconds"] for entry in found) / max(1, len(found)),
    )


def misses(found: Sequence[Found]) -> Iterator[str]:
    """Yield a line for each run that did not come out as it should, and what was said."""
    for entry in found:
        what: List[Optional[str]] = []
        if entry["wrong"]:
            what += [
                None if rank(entry) == 0 else "not first",
                None if valued(entry) else "its value" if named(entry) else "not named",
            ]
            what.append("false" if false(entry) else None)
        else:
            what.append("exit %d" % entry["code"] if entry["code"] else None)
        if accused(entry):
            what.append("accused: " + ", ".join(accused(entry)[:3]))
        if any(what):
            yield "%s [%s] %s" % (entry["run"], entry["told"], "; ".join(filter(None, what)))
            for kind, text in _explanations(entry)[:3]:
                yield "    %s: %s" % (kind, text)
            for line in entry["excused"][:2]:
                yield "    " + line[:300]


def by_attribute(found: Sequence[Found]) -> Iterator[str]:
    """Yield what came of each attribute and input that was drawn by lot."""
    groups: Dict[str, List[Found]] = defaultdict(list)
    for entry in found:
        if entry["wrong"]:
            kind, _, _, what = entry["run"].partition("/")[0].split("-", 3)
            groups["%s, %s" % (kind, what)].append(entry)
    yield "| drawn | runs | core first | with its value | named at all | something false |"
    yield "|---" * 6 + "|"
    for title, group in sorted(groups.items()):
        yield "| %s | %d | %d | %d | %d | %d |" % (
            title,
            len(group),
            sum(rank(entry) == 0 for entry in group),
            sum(valued(entry) for entry in group),
            sum(named(entry, False) for entry in group),
            sum(bool(false(entry)) for entry in group),
        )


def found_anyway(found: Sequence[Found]) -> Iterator[str]:
    """Yield what was found where nothing explains it."""
    runs = [entry for entry in found if entry["wrong"]]
    told = [
        (entry["run"], kind, text)
        for entry in runs
        for kind, text in _explanations(entry)
        if kind not in ("unexplained", "not-equal") and "by chance" not in text
    ]
    yield "unrelated outputs: %d, something found: %d" % (len(runs), len({one[0] for one in told}))
    yield from ("%s\n    %s: %s" % one for one in told)
