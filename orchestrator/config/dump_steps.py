"""The grammar of dump_step, in the strict form that every consumer accepts.

``\\d+(-\\d+)?`` joined by ``|``; at most 100 parts; in a range the first step is smaller than the
last; values fit int32.
"""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

MAX_PARTS = 100
MAX_STEP = 2147483647

_PART = re.compile(r"[0-9]+(?:-[0-9]+)?\Z")
_BLANK = re.compile(r"\s")

ACL_LAX = (
    "acl.json's reader takes equal bounds and large values, GE's options and npu_bridge do not"
)
NPU_LAX = "the TensorFlow adapter lets '5|', '5-' and '-5' pass, GE behind it rejects them"


def step_problems(text: str) -> List[Tuple[str, str, str]]:
    """Return ``(rule, message, corrected value)`` of everything in ``text`` that some consumer
    refuses.

    Rules: ``step-syntax``, ``step-too-many``, ``step-reversed``, ``step-equal`` and
    ``step-too-large``. An empty text means every step.
    """
    if not text:
        return []
    parts = text.split("|")
    problems = []
    if len(parts) > MAX_PARTS:
        problems.append(
            (
                "step-too-many",
                "%d sets of steps, at most %d are allowed" % (len(parts), MAX_PARTS),
                _repaired(text),
            )
        )
    wrong = [part for part in parts if not _PART.match(part)]
    if wrong:
        problems.append(("step-syntax", _syntax_message(wrong[0]), _repaired(text)))
        return problems
    for rule, message in _range_problems(parts):
        problems.append((rule, message, _repaired(text)))
    return problems


def count_steps(text: str) -> int:
    """Return how many steps a dump_step names; 0 where it names none."""
    if not text or step_problems(text):
        return 0
    bounds = [[int(bound) for bound in part.split("-")] for part in text.split("|")]
    return len({step for pair in bounds for step in range(pair[0], min(pair[-1], MAX_STEP) + 1)})


def step_fix(repaired: str) -> str:
    """Return the correction for people: the repaired text, or an example when no step is left of
    it.
    """
    return '"%s"' % repaired if repaired else 'a form such as "0|5-10"; leave it out for every step'


def _syntax_message(part: str) -> str:
    if not part:
        return "an empty step (| at the start, at the end or doubled)"
    if _BLANK.search(part):
        return "%r holds a blank" % part
    return "%r is neither a step nor a range of steps" % part


def _range_problems(parts: List[str]) -> List[Tuple[str, str]]:
    problems: Dict[str, str] = {}
    for part in parts:
        first, _, last = part.partition("-")
        if any(_value(bound) > MAX_STEP for bound in (first, last) if bound):
            problems.setdefault("step-too-large", "%s is larger than %d" % (part[:60], MAX_STEP))
        elif last and _value(first) > _value(last):
            problems.setdefault(
                "step-reversed", "in %s the first step is larger than the last" % part
            )
        elif last and _value(first) == _value(last):
            problems.setdefault("step-equal", "in %s the first step equals the last" % part)
    return list(problems.items())


def _value(digits: str) -> int:
    # Longer numbers than this are too large whatever they are; Python refuses to convert thousands
    # of digits.
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 20 else 10**20


def _repaired(text: str) -> str:
    """Return the nearest text that every consumer accepts; empty when no step is left."""
    repaired = []
    for part in re.sub(r"\s", "", text).replace(",", "|").replace("_", "-").split("|"):
        bounds = [bound for bound in part.split("-") if re.match(r"[0-9]+\Z", bound)]
        values = sorted(min(_value(bound), MAX_STEP) for bound in bounds)
        if values:
            repaired.append(
                "%d-%d" % (values[0], values[-1]) if values[0] < values[-1] else str(values[0])
            )
    return "|".join(repaired[:MAX_PARTS])
