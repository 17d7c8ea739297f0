"""The syntax of config new's option values, and which option belongs to which field."""

from __future__ import annotations

from typing import Iterable, Tuple

from ..config.dump_plan import POSITION, ModelDump, PlanError, Skip
from ..errors import UsageError

#: The option of config new that says a field, as the plan, the request or the consumer calls it.
_OPTIONS = {
    "dump_path": "--dump-path", "dump_mode": "--mode", "dump_op_switch": "--op-switch",
    "dump_step": "--step", "dump_data": "--data",
    "dump_stats": "--stats", "dump_level": "--level", "dump_debug": "--debug",
    "dump_scene": "--scene", "dump_kernel_data": "--kernel-data",
    "model_name": "--model", "layer": "--model", "watcher_nodes": "--watch-node",
    "optype_blacklist": "--skip-type",
    "opname_blacklist": "--skip-op", "opname_range": "--op-range", "enable_dump_debug": "--debug",
    "dump_debug_mode": "--debug-mode",
    "dump_layer": "--model", "mode": "--mode", "op_switch": "--op-switch", "step": "--step",
    "data": "--data", "stats": "--stats",
    "level": "--level", "debug": "--debug", "debug_mode": "--debug-mode", "scene": "--scene",
    "kernel_data": "--kernel-data",
    "watch_nodes": "--watch-node", "skip_types": "--skip-type", "skip_ops": "--skip-op",
    "op_ranges": "--op-range", "layers": "--layers",
    "types": "--type", "narrow": "--narrow",
}  # fmt: skip
_SHOWS_NAMES = "config new --om MODEL --list shows the names"


def parse_model(text: str) -> ModelDump:
    """Return the model entry of ``NAME[:LAYER,LAYER...]``, split at the first colon; an empty NAME
    stands for all models.

    Raises
    ------
    UsageError
        Both parts are empty, or a layer is.
    """
    name, colon, layers = text.partition(":")
    names = tuple(layers.split(",")) if colon else ()
    if any(not layer.strip() for layer in names):
        raise UsageError(
            "--model: an empty layer name in %r" % text,
            hint="write NAME:LAYER,LAYER, or NAME for all layers",
        )
    if not name and not names:
        raise UsageError("--model: the name is empty", hint="write NAME, or NAME:LAYER,LAYER")
    return ModelDump(name or None, tuple(dict.fromkeys(names)))


def parse_skip(option: str, text: str) -> Skip:
    """Return the blacklist entry of ``NAME[:POS,...]``, split at the last colon.

    Raises
    ------
    UsageError
        The name is empty, or what follows the last colon is no list of positions.
    """
    name, colon, tail = text.rpartition(":")
    if not colon:
        name, tail = text, ""
    positions = tuple(tail.split(",")) if tail else ()
    wrong = [position for position in positions if not POSITION.match(position)]
    if wrong:
        hint = "positions are inputN and outputN; end a name that holds a colon with one more colon"
        raise UsageError("%s: %r in %r is no position" % (option, wrong[0], text), hint=hint)
    if not name:
        raise UsageError(
            "%s: the name is empty in %r" % (option, text), hint="write NAME or NAME:input0,output0"
        )
    return Skip(name, positions)


def parse_range(text: str) -> Tuple[str, str]:
    """Return the ends of ``BEGIN..END``.

    Raises
    ------
    UsageError
        There is no ``..``, or an end is empty.
    """
    begin, dots, end = text.partition("..")
    if not dots or not begin or not end:
        raise UsageError(
            "--op-range: %r is no range" % text, hint="write BEGIN..END with two op names"
        )
    return begin, end


def parse_list(option: str, texts: Iterable[str]) -> Tuple[str, ...]:
    """Return the words of comma lists, each once.

    Raises
    ------
    UsageError
        A word is empty.
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    if any(not word for word in words):
        raise UsageError(
            "%s: an empty word in %r" % (option, ",".join(texts)), hint="write a comma list"
        )
    return tuple(dict.fromkeys(words))


def in_options(error: PlanError) -> UsageError:
    """Return the library's error in the words of the command line."""
    hint, option = error.hint, _OPTIONS.get(error.field)
    if error.field == "om":
        hint = "add --om MODEL.json (made by atc --mode=1)"
    elif error.field == "dump_path" and hint == "name an existing folder":
        hint += " with --dump-path"
    elif error.field == "narrow":
        hint = "name the model that was compared with --om"
    elif hint is None and error.field == "layers":
        hint = _SHOWS_NAMES
    elif hint:
        hint = hint.replace("write acl.json", "write --for acl")
    if option is None:
        return UsageError(error.message, hint=hint)
    message = (
        error.message[len(error.field) + 2 :]
        if error.message.startswith(error.field + ": ")
        else error.message
    )
    return UsageError("%s: %s" % (option, message), hint=hint)
