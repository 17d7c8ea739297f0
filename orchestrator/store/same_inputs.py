"""Whether OUT holds the results of the same inputs and options: where it does not, what differs is
named.
"""

from __future__ import annotations

import json
from os.path import commonprefix
from typing import Any, Mapping, Tuple

from ..text.wording import listed
from .integrity import OtherResults

_MOST_CHARACTERS, _AROUND = 40, 16
_FIRST_SHOWN = ("target", "golden", "model")


def canonical(value: Any) -> str:
    """Return a JSON value as text that is the same for equal values."""
    return json.dumps(value, sort_keys=True)


def check_inputs(out: str, before: Any, now: Mapping[str, Any]) -> None:
    """Raise OtherResults, naming what differs, unless a store's inputs are those of this run."""
    now = json.loads(canonical(now))
    before = before if isinstance(before, dict) else {}
    different = sorted(key for key in set(before) | set(now) if before.get(key) != now.get(key))
    if different:
        merges = [kind.get("command") == "merge" for kind in (before, now)]
        if merges[0] != merges[1]:
            what = "a merge of the runs of several hosts", "the run of one host"
            message = "%s holds %s, not %s" % (out, *(what if merges[0] else what[::-1]))
        elif "command" in different:
            # A comparison of what is all there names no command.
            commands = [kind.get("command") or "compare" for kind in (before, now)]
            message = "%s was made by %s: %s does not go on with it" % (out, *commands)
        else:
            shown, *others = sorted(different, key=lambda key: (_FIRST_SHOWN + (key,)).index(key))
            change = (
                "limits: " + _limit_changes(before[shown], now[shown])
                if shown == "limits" and isinstance(before.get(shown), dict)
                else "%s was %s, is %s" % (shown, *_difference(before.get(shown), now.get(shown)))
            )
            others_text = "; other, too: %s" % listed(others, 4) if others else ""
            message = "%s holds other results: %s%s" % (out, change, others_text)
        raise OtherResults(message, hint="choose another folder, or discard those")


def _limit_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return which entries of two tables of limits differ: ``CosineSimilarity > 0.99, now >
    0.9999``.
    """
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    plain = [name for name in different if name != "rules"]
    if not plain:
        return "those of single types and ops differ"
    texts = [
        " and ".join("%s %.9g" % each for each in (limits.get(plain[0]) or {}).items())
        or "no limit"
        for limits in (before, now)
    ]
    more = " and %d more" % (len(different) - 1) if len(different) > 1 else ""
    return "%s %s, now %s%s" % (plain[0], *texts, more)


def _difference(before: Any, now: Any) -> Tuple[str, str]:
    """Return two values as text; of long ones what differs, and a little around it."""
    texts = canonical(before), canonical(now)
    if max(map(len, texts)) <= _MOST_CHARACTERS:
        return texts
    front = len(commonprefix(texts))
    behind = len(commonprefix([text[front:][::-1] for text in texts]))
    first, second = (
        _window(text, max(0, front - _AROUND), min(len(text), len(text) - behind + _AROUND))
        for text in texts
    )
    return first, second


def _window(text: str, start: int, end: int) -> str:
    end = min(end, start + _MOST_CHARACTERS)
    return "%s%s%s" % ("…" * (start > 0), text[start:end], "…" * (end < len(text)))
