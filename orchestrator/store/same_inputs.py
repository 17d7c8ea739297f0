"""Whether OUT holds the results of the same inputs and options: where it does not, what differs is
named.
"""

from __future__ import annotations

import json
from os.path import commonprefix
from typing import Any, Mapping, Tuple

from ..errors import UsageError

_MOST_CHARACTERS, _AROUND = 80, 24


class OtherResults(UsageError):
    """OUT holds the results of another comparison (exit code 2)."""

    kind = "other_results"


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
            changes = (
                "limits: " + _limit_changes(before[key], now[key])
                if key == "limits" and isinstance(before.get(key), dict)
                else "%s was %s, is %s" % (key, *_difference(before.get(key), now.get(key)))
                for key in different[:4]
            )
            message = "%s holds the results of other inputs or options: %s" % (
                out,
                "; ".join(changes),
            )
        raise OtherResults(message, hint="choose another folder for the results, or discard those")


def _limit_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return which entries of two tables of limits differ: ``CosineSimilarity > 0.99, now >
    0.9999``.
    """
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(
        "%s %s, now %s" % (name, *_entries(before.get(name), now.get(name)))
        for name in different[:4]
    )


def _entries(*values: Any) -> Tuple[str, ...]:
    """Return entries of tables of limits as text: of lists what only one has."""
    lists = [value if isinstance(value, list) else [] for value in values]
    texts = []
    for value, other in zip(values, lists[::-1]):
        if isinstance(value, list):
            value = [entry for entry in value if entry not in other]
        if isinstance(value, dict) and all(isinstance(each, float) for each in value.values()):
            texts.append(" and ".join("%s %.9g" % each for each in value.items()))
        else:
            texts.append(canonical(value) if value else "no limit")
    return tuple(texts)


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
