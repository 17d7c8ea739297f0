"""Suspects that are wrong on some devices of a training and right on others in the same step: all
run the same model, so what differs is the device or what it was given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Optional, Sequence, Set, Tuple

from ...base.wording import listed, plural
from ...dumps.place import Place, name_order
from ...metrics.row import FAIL, PASS
from .explanations import OTHER_INPUT, WRONG_GOLDEN, Explanation
from .observed_ops import ObservedOps
from .own_error.estimate import Estimate

ONE_DEVICE = "one-device"

_MOST_NAMED = 4

Key = Tuple[Place, str, int]
"""A place, an op's name, and which of its outputs."""


class _Apart(NamedTuple):
    """The devices on which an output is wrong in a step, and those on which it is right."""

    wrong: Sequence[str]
    right: Sequence[str]


class DevicesApart:
    """Tells of suspects on which devices they are wrong.

    Parameters
    ----------
    observed
        The rows of one model.
    suspected
        The outputs that are suspects.
    """

    def __init__(self, observed: ObservedOps, suspected: Set[Key]) -> None:
        self._suspected = suspected
        self._observed = observed
        self._several = len({place.device_name for place in observed.places}) > 1

    def explained(
        self, estimate: Estimate, explanations: Sequence[Explanation]
    ) -> Tuple[Explanation, ...]:
        """Return the explanations of a suspect, with what to do where only some devices are wrong:
        the model and its golden data are right there.
        """
        apart = self._apart(estimate)
        if apart is None:
            return tuple(explanations)
        return explained_by_devices(
            explanations, *apart, step=estimate.op.place.step, known=estimate.known
        )

    def _apart(self, estimate: Estimate) -> Optional[_Apart]:
        number = estimate.output.number
        wrong, right = set(), set()
        step = estimate.op.place.step
        for op in self._observed.named(estimate.op.name, step) if self._several else ():
            output = (op.inputs if estimate.output.kind == "input" else op.outputs).get(number)
            if output is None:
                continue
            device = op.place.device_name or "?"
            if (op.place, op.name, number) in self._suspected or output.verdict == FAIL:
                wrong.add(device)
            elif output.verdict == PASS and output.golden_file == estimate.output.golden_file:
                right.add(device)
        right -= wrong
        if not wrong or not right:
            return None
        return _Apart(*(sorted(names, key=name_order) for names in (wrong, right)))


def explained_by_devices(
    explanations: Sequence[Explanation],
    wrong: Sequence[str],
    right: Sequence[str],
    step: Optional[str],
    known: bool,
) -> Tuple[Explanation, ...]:
    """Return the explanations of a suspect with what follows from the devices on which it is wrong
    and those on which it is right, where these are no fewer.

    Parameters
    ----------
    known
        Whether the suspect's inputs are.
    """
    if not wrong or len(right) < len(wrong):
        return tuple(explanations)
    apart = _Apart(wrong, right)
    rest = [entry for entry in explanations if entry.kind != WRONG_GOLDEN]
    given = not known or bool(rest and rest[0].kind == OTHER_INPUT)
    if rest and rest[0].blameless and not given:
        return tuple(rest)
    sentence, advice = _sentence(apart, step), _advice(apart, step, given)
    if not rest:
        return (Explanation(ONE_DEVICE, 0.0, sentence, advice, sentence),)
    first = replace(rest[0], sentence="%s; %s" % (rest[0].sentence, sentence), devices=sentence)
    return tuple(replace(entry, next=advice) for entry in (first, *rest[1:]))


def explained_over_hosts(
    explanations: Sequence[Explanation],
    host: str,
    wrong: Sequence[str],
    right: Sequence[str],
    step: Optional[str],
    known: bool,
) -> Tuple[Explanation, ...]:
    """Return what a host's own run says of a suspect, with what follows from the devices of all
    hosts in place of those of this host alone.
    """
    if not wrong or len(right) < len(wrong):
        return tuple(
            replace(
                entry,
                sentence=_before(entry, entry.devices) + "on host %s %s" % (host, entry.devices),
                devices="on host %s %s" % (host, entry.devices),
            )
            if entry.devices
            else entry
            for entry in explanations
        )
    bare = [
        replace(entry, sentence=_before(entry, "; " + entry.devices), devices="")
        if entry.devices
        else entry
        for entry in explanations
        if entry.kind != ONE_DEVICE
    ]
    return explained_by_devices(bare, wrong, right, step, known)


def _before(entry: Explanation, end: str) -> str:
    return entry.sentence[: -len(end)]


def _named(devices: Sequence[str]) -> str:
    if len(devices) > 1:
        return "devices %s" % listed(devices, _MOST_NAMED)
    host, _, device = devices[0].rpartition("/")
    return "device %s of host %s" % (device, host) if host else "device %s" % device


def _sentence(apart: _Apart, step: Optional[str]) -> str:
    others = (
        "%s gets" % _named(apart.right)
        if len(apart.right) == 1
        else ("the other %s get" % plural(len(apart.right), "device"))
    )
    return "only %s %s wrong: %s it right with the same model and golden data%s" % (
        _named(apart.wrong),
        "is" if len(apart.wrong) == 1 else "are",
        others,
        "" if step is None else " in step %s" % step,
    )


def _advice(apart: _Apart, step: Optional[str], given: bool) -> str:
    which = _named(apart.wrong)
    if given:
        return "compare what %s was given (its data, weights and seeds) with the other devices" % (
            which
        )
    return (
        "run %s again with the work of %s on another device: if the error stays with the device, "
        "check its health (memory errors, driver, firmware); if it moves with the work, compare "
        "what it was given with the other devices"
        % ("the program" if step is None else "step %s" % step, which)
    )
