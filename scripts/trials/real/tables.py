"""The figures of a trial as one table, and its misses with what reproduces them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Dict, List, Sequence, Tuple

from .faults import KINDS, NETWORK_KINDS

Found = Dict[str, Any]

SIZES: Tuple[Tuple[str, Callable[[Found], bool]], ...] = (
    ("moved > 3 %", lambda entry: entry["moved"] > 0.03),
    ("1 to 3 %", lambda entry: 0.01 < entry["moved"] <= 0.03),
    ("< 1 %, > 10 roundings", lambda entry: entry["moved"] <= 0.01 and entry["roundings"] > 10),
    ("smaller", lambda entry: entry["moved"] <= 0.01 and entry["roundings"] <= 10),
)
WANTED = {"moved > 3 %": 0.99, "1 to 3 %": 0.95, "< 1 %, > 10 roundings": 0.85}
BARE_WANTED = 0.90


def accepted(kind: str) -> Tuple[str, ...]:
    """Return the explanations that are right for a kind of fault, as of :class:`faults.Kind`; empty
    where any may be.
    """
    return KINDS[kind].explained if kind in KINDS else NETWORK_KINDS[kind]


def rank(entry: Found) -> int:
    """Return the planted op's place among the suspects, from 0; −1 where it is none of them."""
    if entry["fault"].startswith("input-"):
        return 0 if entry["suspects"] and entry["suspects"][0][3][:1] == ["other-input"] else -1
    return next(
        (
            place
            for place, suspect in enumerate(entry["suspects"])
            if suspect[0] in entry["planted"]
        ),
        -1,
    )


def explained(entry: Found) -> bool:
    """Tell whether the first explanation of the planted op is right."""
    place = rank(entry)
    kinds, said = entry["suspects"][place][3:] if place >= 0 else ([], [])
    return any(
        right.partition(": ")[0] == kinds[0] and re.search(right.partition(": ")[2], said[0])
        for right in accepted(entry["fault"])
        if kinds
    )


def asked(entry: Found) -> bool:
    """Tell whether the planted op has an explanation that can be right or wrong."""
    place = rank(entry)
    return bool(accepted(entry["fault"])) and place >= 0 and bool(entry["suspects"][place][3])


def silent(entry: Found) -> bool:
    """Tell whether nothing was said of the run."""
    return entry["code"] == 0 and not entry["suspects"]


def size(entry: Found) -> str:
    """Return the name of a fault's size."""
    return next(name for name, fits in SIZES if fits(entry))


def _share(count: int, total: int) -> str:
    return "%d (%.1f %%)" % (count, 100.0 * count / total) if total else "–"


def table(found: Sequence[Found]) -> List[str]:
    """Return the lines of all tables."""
    runs = [entry for entry in found if "left_out" not in entry]
    healthy = [entry for entry in runs if not entry["fault"]]
    planted = [entry for entry in runs if entry["fault"]]
    lines = [
        "| healthy | runs | exit 0 | 1 | other | with a suspect | its own, of an op |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, group in [
        *_groups(healthy, "form"),
        *_groups(healthy, "habit"),
        *_groups(healthy, "net"),
        ("**all**", healthy),
    ]:
        codes = Counter(entry["code"] for entry in group)
        other = sum(count for code, count in codes.items() if code not in (0, 1))
        suspects = _share(sum(bool(entry["suspects"]) for entry in group), len(group))
        lines.append(
            "| %s | %d | %d | %d | %d | %s | %d |"
            % (
                title,
                len(group),
                codes[0],
                codes[1],
                other,
                suspects,
                sum(bool(entry["own"]) for entry in group),
            )
        )
    lines += [
        "",
        "| fault | runs | first suspect | top 3 | silent | first explanation right | without one | "
        "its own (+ may be), of a wrong op |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, fits in SIZES:
        group = [entry for entry in planted if fits(entry)]
        lines.append(_line("**%s**" % name, group))
        for form, part in _groups(group, "form"):
            lines.append(_line("%s, %s" % (name, form), part))
    counted = [entry for entry in planted if size(entry) != "smaller"]
    for kind in [*KINDS, *NETWORK_KINDS]:
        group = [entry for entry in counted if entry["fault"] == kind]
        if group:
            lines.append(_line(kind, group))
    for title, group in [
        *_groups(counted, "form"),
        *_groups(counted, "habit"),
        *_groups(counted, "net"),
        ("**all but the smaller**", counted),
    ]:
        lines.append(_line(title, group))
    seconds = sum(entry.get("seconds", 0) for entry in runs)
    left = Counter(entry["left_out"] for entry in found if "left_out" in entry)
    lines += [
        "",
        "%d runs of %d networks, %.1f s each"
        % (len(runs), len({entry["net"] for entry in runs}), seconds / max(1, len(runs))),
    ]
    lines += (
        [
            "left out: %d runs (%s)"
            % (sum(left.values()), "; ".join("%s: %d" % pair for pair in left.most_common(12)))
        ]
        if left
        else []
    )
    return lines


def _groups(found: Sequence[Found], key: str) -> List[Tuple[str, List[Found]]]:
    names = list(dict.fromkeys(entry[key] for entry in found))
    return [(name, [entry for entry in found if entry[key] == name]) for name in names]


def _line(title: str, group: Sequence[Found]) -> str:
    total = len(group)
    ranks = [rank(entry) for entry in group]
    judged = [entry for entry in group if asked(entry)]
    mute = sum(rank(entry) >= 0 and not entry["suspects"][rank(entry)][3] for entry in group)
    return "| %s | %d | %s | %s | %d | %s | %d | %d + %d |" % (
        title,
        total,
        _share(ranks.count(0), total),
        _share(sum(0 <= place < 3 for place in ranks), total),
        sum(silent(entry) for entry in group),
        _share(sum(explained(entry) for entry in judged), len(judged)),
        mute,
        sum(bool(entry["own"]) for entry in group),
        sum(bool(entry["maybe"]) for entry in group),
    )


def figures(found: Sequence[Found]) -> List[Tuple[str, float, float, bool]]:
    """Return what is wanted: a name, the figure, what it should be, and whether it is.

    The last is told of what the trial has runs of alone.
    """
    runs = [entry for entry in found if "left_out" not in entry]
    known = [entry for entry in runs if entry["form"] != "bare"]
    bare = [entry for entry in runs if entry["form"] == "bare"]
    made: List[Tuple[str, float, float, bool]] = []

    def least(
        name: str, group: Sequence[Found], good: Callable[[Found], bool], wanted: float
    ) -> None:
        if group:
            share = sum(good(entry) for entry in group) / len(group)
            made.append((name, share, wanted, share >= wanted))

    def most(
        name: str, group: Sequence[Found], bad: Callable[[Found], bool], wanted: float
    ) -> None:
        if group:
            share = sum(bad(entry) for entry in group) / len(group)
            made.append((name, share, wanted, share <= wanted))

    most(
        "healthy runs that fail",
        [entry for entry in runs if not entry["fault"]],
        lambda entry: entry["code"] != 0,
        0.0,
    )
    most(
        "healthy with a suspect",
        [entry for entry in known if not entry["fault"]],
        lambda entry: bool(entry["suspects"]),
        0.01,
    )
    most(
        "healthy with a suspect, bare",
        [entry for entry in bare if not entry["fault"]],
        lambda entry: bool(entry["suspects"]),
        0.03,
    )
    planted = [entry for entry in known if entry["fault"]]
    for name, wanted in WANTED.items():
        least(
            "first, " + name,
            [entry for entry in planted if size(entry) == name],
            lambda entry: rank(entry) == 0,
            wanted,
        )
    large = [entry for entry in planted if entry["moved"] > 0.01]
    most("silent above 1 %", large, silent, 0.0)
    counted = [entry for entry in planted if size(entry) != "smaller"]
    least("first explanation right", [entry for entry in counted if asked(entry)], explained, 0.95)
    most("its own, of a wrong op", counted, lambda entry: bool(entry["own"]), 0.0)
    least(
        "first, bare",
        [e for e in bare if e["fault"] and size(e) != "smaller"],
        lambda entry: rank(entry) == 0,
        BARE_WANTED,
    )
    return made


def misses(found: Sequence[Found]) -> List[str]:
    """Return a line for each run that did not come out as it should, and the name by which it is
    run again."""
    lines = []
    for entry in found:
        if "left_out" in entry:
            continue
        said = "; ".join(
            "%s (%s) %s [%s]" % (op, kind, evidence[:110], ",".join(kinds))
            for op, kind, evidence, kinds, _ in entry["suspects"][:3]
        )
        if entry.get("error"):
            lines.append(
                "%s: exit %s: %s"
                % (entry["run"], entry["code"], entry["error"][-300:].replace("\n", " "))
            )
        elif not entry["fault"]:
            if entry["code"] or entry["suspects"] or entry["own"]:
                lines.append(
                    "%s: exit %d, first outside %s; %s"
                    % (entry["run"], entry["code"], entry["first"] or "none", said or "no suspect")
                )
        elif size(entry) != "smaller" and (
            rank(entry) != 0 or asked(entry) and not explained(entry) or entry["own"]
        ):
            what = (
                "not first"
                if rank(entry) != 0
                else "explanation"
                if asked(entry) and not explained(entry)
                else "its own"
            )
            lines.append(
                "%s: %s: in %s (%s), moved %.2g %%, %.0f roundings, exit %s; said %s"
                % (
                    entry["run"],
                    what,
                    entry["op"].replace("\n", " and "),
                    entry["type"].replace("\n", " and "),
                    100 * entry["moved"],
                    entry["roundings"],
                    entry["code"],
                    said or "nothing",
                )
            )
            lines += ["    its own: " + line for line in entry["own"]]
    return lines
