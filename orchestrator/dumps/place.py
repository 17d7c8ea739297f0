"""The place of a file in a dump tree: the run's time, the device, the model and the step.

The full form of a tree is ``{time}/{device_id}/{model_name}/{model_id}/{data_index}/{dump_file}``;
for a run of single ops ``{time}/{device_id}/{dump_file}`` or, older,
``{device_id}/{op_name}/{dump_file}``. Any level may be the folder that the user names.

A place is read from the names of the file's folder and of that folder's parents on the absolute
path, also those above the folder that the user named, as far as they have the form:

- parent a time (14 digits, a possible date; 13 where month or day has no leading 0) and folder a
  number: time and device (single op);
- folder a number (step) and parent a number (model_id): the next parent is the model, the next, if
  a number, or ``rank_`` and a number as MindSpore names it, the device, and the next, if a time,
  the time;
- parent a number and the folder named like the one op whose dumps it holds: device (single op,
  older form); all such folders of one device are one place;
- otherwise all five are None.
"""

from __future__ import annotations

import os
import re
from typing import Dict, NamedTuple, Optional, Set, Tuple

from .statistics_csv import SUFFIX

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_RANK = re.compile(r"(?:rank_)?([0-9]{1,20})\Z")
_CLOCK = r"(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]\Z"
_TIME = re.compile(r"[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])" + _CLOCK)
# Of month and day one has no leading 0.
_SHORT_MONTH = re.compile(r"([12][0-9]{3})([1-9](?:0[1-9]|[12][0-9]|3[01])%s)" % _CLOCK)
_SHORT_DAY = re.compile(r"([12][0-9]{3}(?:0[1-9]|1[0-2]))([1-9]%s)" % _CLOCK)


class Place(NamedTuple):
    """One device × model × step of one run, read from folder names; None for unknown parts.

    Attributes
    ----------
    time
        ``YYYYmmddHHMMSS`` of the run.
    device
        device_id, or ``rank_N``.
    model, model_id
        The model's name, and its number on the device.
    step
        The dump step (data_index).
    host
        In a run of several hosts, the host of the rows; not part of any folder name.
    """

    time: Optional[str] = None
    device: Optional[str] = None
    model: Optional[str] = None
    model_id: Optional[str] = None
    step: Optional[str] = None
    host: Optional[str] = None

    def label(self) -> str:
        """Return the known parts as text, such as ``device 0, model net, model_id 1, step 7``;
        empty if there are none.
        """
        parts = (("host", self.host), *zip(self._fields[1:5], self[1:5]))
        return ", ".join("%s %s" % (name, part) for name, part in parts if part is not None)

    def document(self) -> Dict[str, Optional[str]]:
        """Return the parts by name; the host only if there is one."""
        fields: Dict[str, Optional[str]] = dict(zip(self._fields, self.parts))
        return fields if self.host is None else {"host": self.host, **fields}

    @property
    def parts(self) -> Tuple[Optional[str], ...]:
        """All parts but the host."""
        return self[:5]

    @property
    def run(self) -> Tuple[Optional[str], Optional[str], Optional[str]]:
        """(time, device, model): what distinguishes runs."""
        return self[:3]

    @property
    def device_name(self) -> Optional[str]:
        """The device, prefixed by the host if there is one: ``host/0``."""
        return self.device if self.host is None else "%s/%s" % (self.host, self.device or "-")

    def holds(self, other: Place) -> bool:
        """Return whether another place equals this one or is part of it: same device, and equal in
        all known parts of this one.
        """
        return self.device == other.device and all(
            mine in (None, theirs) for mine, theirs in zip(self, other)
        )

    def order(self) -> Tuple[Tuple[int, int, str], ...]:
        """Return a sort key: host, device, model, model_id, step, time; numbers as numbers."""
        return tuple(name_order(part) for part in (self.host, *self[1:5], self.time))


NOWHERE = Place()
"""The place of a file outside a tree."""


def name_order(name: Optional[str]) -> Tuple[int, int, str]:
    """Return a sort key for a folder's name: numbers and ranks first and as numbers."""
    number = None if name is None else _RANK.match(name)
    return (1, 0, name or "") if number is None else (0, int(number.group(1)), name or "")


def is_number(name: Optional[str]) -> bool:
    """Return whether a folder's name is a plain number."""
    return name is not None and _NUMBER.match(name) is not None


def is_time(name: str) -> bool:
    """Return whether a folder's name is a time: 14 digits that are a date, or 13 if month or day
    has no leading 0.
    """
    return (
        _TIME.match(name) is not None
        or _SHORT_MONTH.match(name) is not None
        or _SHORT_DAY.match(name) is not None
    )


def time_order(name: str) -> str:
    """Return a time folder's name as 14 digits for sorting; of an ambiguous name with 13 digits the
    date with the one-digit month.
    """
    return _SHORT_DAY.sub(r"\g<1>0\2", _SHORT_MONTH.sub(r"\g<1>0\2", name))


def place_of(folder: str, op_names: Set[str]) -> Place:
    """Return the place of the files in a folder by the module's rule.

    Parameters
    ----------
    op_names
        Names of the ops whose dumps it holds.
    """
    names = os.path.abspath(folder).split(os.sep)
    # A table of statistics counts as the folder of the dumps that it replaces.
    names = names[:-1] if names[-1].endswith(SUFFIX) and os.path.isfile(folder) else names
    time, device, model, model_id, step = ([""] * 5 + names)[-5:]
    if is_time(model_id) and is_number(step):
        return Place(model_id, step)
    if is_number(step) and is_number(model_id) and model:
        known_device = device if _RANK.match(device) else None
        return Place(
            time if known_device and is_time(time) else None, known_device, model, model_id, step
        )
    if is_number(model_id) and op_names == {step}:
        return Place(model if is_time(model) else None, model_id)
    return NOWHERE
