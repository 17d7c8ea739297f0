"""Resolves the start and end names of a user to the nodes of a cut, with an error for every way in
which they cannot work.
"""

from __future__ import annotations

from typing import List, Sequence, Set, Tuple

from ...base.errors import InputError
from ...base.naming import nearest_names, printable
from .read_original import Original

_NEAR = 5


class UnknownNode(InputError):
    """No node has this name (exit code 4)."""

    kind = "unknown_node"


def chosen_nodes(
    original: Original, starts: Sequence[str], ends: Sequence[str]
) -> Tuple[List[int], List[int], Set[int]]:
    """Return the numbers of the starts, of the ends, and of all nodes on a path between.

    Raises
    ------
    InputError
        A name is unknown (the message has similar ones), a blob's, or that of several layers; a
        start leads to no end; an end is not reached.
    """
    _require_known(original, starts, ends)
    first = [_number(original, name, "start") for name in dict.fromkeys(starts)]
    last = [_number(original, name, "end") for name in dict.fromkeys(ends)]
    reached = original.graph.descendants(first)
    leading = original.graph.ancestors(last)
    for number in last:
        if number not in reached:
            raise _no_path(original, first, number)
    for number in first:
        if number not in leading:
            message = "start %s leads to none of the ends: no path" % printable(
                original.names[number]
            )
            raise InputError(message, hint="leave it out, or choose an end behind it")
    return first, last, reached & leading


def _no_path(original: Original, starts: Sequence[int], end: int) -> InputError:
    names = ", ".join(printable(original.names[number]) for number in starts)
    message = "end %s is not reachable from start %s: no path" % (
        printable(original.names[end]),
        names,
    )
    if original.graph.descendants([end]) & set(starts):
        return InputError(message, hint="the other way round there is one: swap start and end")
    return InputError(
        message,
        hint="they are on different branches: take a start before both, or list the nodes in order",
    )


def _number(original: Original, name: str, what: str) -> int:
    numbers = original.numbers(name)
    if len(numbers) == 1:
        return numbers[0]
    if numbers:
        lines = original.lines(numbers)
        raise InputError(
            "%s %s: %d layers have this name%s"
            % (what, printable(name), len(numbers), " (%s)" % lines if lines else ""),
            hint="give each its own name in the prototxt, and in the weights",
        )
    if name in original.inner:
        owner = printable(original.inner[name])
        message = "%s %s is a node in the body of %s, which is not cut"
        raise InputError(
            message % (what, printable(name), owner),
            hint="take %s: its bodies come along whole" % owner,
        )
    makers = [number for number, tensors in enumerate(original.tensors) if name in tensors]
    if makers:
        writers = ", ".join(printable(original.names[number]) for number in makers)
        kind = {"caffe": "a blob, written by layer", "onnx": "a value of node"}.get(
            original.kind, "a tensor of node"
        )
        raise InputError(
            "%s %s is %s %s" % (what, printable(name), kind, writers),
            hint="give a name of these instead",
        )
    if name in original.input_fields:
        message = "%s %s is a blob, an input of the net, and no layer"
        raise InputError(message % (what, printable(name)), hint="start at a layer that reads it")
    raise _unknown(original, [(what, name)])


def _require_known(original: Original, starts: Sequence[str], ends: Sequence[str]) -> None:
    """Raise where several names are nothing of the model, about all of them at once."""
    wrong = [
        (what, name)
        for what, names in (("start", starts), ("end", ends))
        for name in dict.fromkeys(names)
        if not original.numbers(name)
        and name not in original.inner
        and name not in original.input_fields
        and not any(name in tensors for tensors in original.tensors)
    ]
    if len(wrong) > 1:
        raise _unknown(original, wrong)


def _unknown(original: Original, wrong: Sequence[Tuple[str, str]]) -> UnknownNode:
    texts, hints = [], []
    for what, name in wrong:
        texts.append("%s %s" % (what, printable(name)))
        near = nearest_names(name, original.names, _NEAR, 0.5)
        about = "near names" if len(wrong) == 1 else "near %s" % printable(name)
        if near:
            hints.append("%s: %s" % (about, ", ".join(printable(other) for other in near)))
    if not hints and original.names:
        some = ", ".join(printable(name) for name in original.names[:_NEAR])
        hints.append("there are, for example, %s" % some)
    return UnknownNode(
        "%s: no such %s in %s" % (", ".join(texts), original.noun, original.path or "the model"),
        hint="; ".join([*hints, "all names"]),
    )
