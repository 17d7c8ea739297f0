"""Translates command lines of the vendor's older tools into ours: docs/migrating.md has the whole
tables.
"""

from __future__ import annotations

import re
import shlex
from typing import Callable, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..base.errors import UsageError
from ..metrics.row import METRICS


class Old(NamedTuple):
    """One option of an older tool.

    Attributes
    ----------
    takes
        Whether a value follows it.
    new
        The option here; empty where it has none.
    why
        Why it has none, or what its value is here.
    first, second
        Whether its value is the first or the second argument here.
    """

    takes: bool = True
    new: str = ""
    why: str = ""
    first: bool = False
    second: bool = False


_TARGET, _GOLDEN = Old(first=True), Old(second=True)
_BY_CONTENT = Old(why="seen in the file itself")
_OP = "-op"
_COMPARE: Dict[str, Old] = {
    "-m": _TARGET, "-l": _TARGET, "-tp": _TARGET, "-g": _GOLDEN, "-gp": _GOLDEN, "-r": _GOLDEN,
    "-q": Old(new="--quant-json"), "-cf": Old(new="--unfused-om"), "-out": Old(new="-o"),
    "-alg": Old(new="--metrics"),
    "-a": Old(new="--metric-args"), "-c": Old(new="--custom"), "-map": Old(False, "--mapping"),
    "-csv": Old(False, why="always written"),
    "-advisor": Old(False, why="suspects are always named"),
    "-p": Old(why="of PyTorch's dumps alone"),
    "-ffts": Old(False, why="slices of two dumps are compared one by one"),
    "-fr": Old(new="-f"), "-cfr": Old(new="--unfused-om"), "-qfr": Old(new="--quant-json"),
    "-n": Old(new="--top"), "-ml": Old(new="--max-rows"), "-ai": Old(False, "--rows none"),
    "--ignore_single_op_result": Old(False, "--rows none"), _OP: Old(), "-s": Old(new="--select"),
    "-max": Old(why="all elements are compared; --max-elements N takes a sample"),
    "-overflow_detection": Old(False, "--overflow"),
    "--rank": Old(why="the folder of one rank, or of all, is the first argument"),
}  # fmt: skip
_OF_ONE_OPERATOR = ("-n", "-ml", "-ai", "--ignore_single_op_result")
_CONVERT: Dict[str, Old] = {
    "-d": _TARGET, "-out": Old(new="-o"), "-t": Old(new="--to"), "-target": Old(new="--to"),
    "-type": _BY_CONTENT,
    "-f": Old(new="--layout"), "-format": Old(new="--layout"), "-s": Old(new="--shape"),
    "-c": Old(new="--custom"),
    # Of shape_conversion.py.
    "-tensor": Old(), "-shape": Old(new="--shape"), "-custom": Old(new="--custom"),
}  # fmt: skip
_PRINTED = Old(why="printed")
_INSPECT: Dict[str, Old] = {
    "-d": _TARGET, "-i": _TARGET, "-out": _PRINTED, "-o": _PRINTED,
    "-n": Old(why="all records are shown"),
}  # fmt: skip
# The long names of msaccucmp 26.2.0, of msprobe and of msit llm.
_SHORT = {
    "--my_dump_path": "-m", "--golden_dump_path": "-g", "--fusion_rule_file": "-fr",
    "--quant_fusion_rule_file": "-qfr", "--close_fusion_rule_file": "-cfr",
    "--output_path": "-out", "--algorithm": "-alg", "--algorithm_options": "-a",
    "--custom_script_path": "-c", "--max_cmp_size": "-max", "--post_process": "-p",
    "--op_name": _OP, "--topn": "-n", "--max_line": "-ml", "--dump_file": "-d",
    "--output_tensor": "-o", "--input_tensor": "-i", "--type": "-t",
    "--target_path": "-tp", "--golden_path": "-gp", "-mp": "-m", "--my-path": "-m",
    "--golden-path": "-g",
}  # fmt: skip
# Of the tools that ran both models themselves: msquickcmp, ait, msit debug compare, and msprobe
# compare with the mode offline_model.
_MODEL, _OM = ("-gm", "--golden-model"), ("-om", "--om-model", "--offline-model-path")
_BOTH_MODELS = (*_MODEL, *_OM, "offline_model")
# Whose name may stand before the command.
_TOOLS = ("msprobe", "msit", "ait", "msquickcmp", "msaccucmp")
_MODE, _MODE_TARGET = ("-m", "--mode"), ("-tp", "--target_path")
_MODE_GOLDEN = ("-gp", "--golden_path")
_OF_BOTH: Dict[str, str] = {
    "-o": "-o", "--output": "-o", "-w": "--weights", "--weight": "--weights",
    "-s": "--shapes", "--input-shape": "--shapes", "-dr": "--shapes",
    "--dymShape-range": "--shapes", "-d": "--device", "--device": "--device",
    "-is": "--shapes", "--input_shape": "--shapes", "--dym_shape_range": "--shapes",
    "--output_path": "-o", "--rank": "--device",
}  # fmt: skip
# Of msit debug dump, as msprobe's offline_dump has them.
_OF_DEBUG_DUMP = {
    "-m": "--model_path", "--model": "--model_path", "-is": "--input_shape",
    "--input-shape": "--input_shape", "--output": "-o",
}  # fmt: skip
_OF_GOLDEN = {"-o": "-o", "--output_path": "-o", "--shape": "--shape"}
_INPUTS = ("-i", "--input", "--input_data")
_SINGLE = "goldwatch replay computes each operator alone with the device's own inputs"
_ALL_NODES = "not needed, golden data have every node"
_NO_COUNTERPART = {
    "--fusion-switch-file": "convert the om again with atc --fusion_switch_file=FILE",
    "--output_size": "not needed, outputs of unknown size get room",
    "-single": _SINGLE, "--single-op": _SINGLE,
    "-ofs": _ALL_NODES, "--onnx_fusion_switch": _ALL_NODES,
    "--rank": "not needed, no device runs it",
    "-c": "not needed, CANN is found", "--cann-path": "not needed, CANN is found",
}  # fmt: skip
# Of msprobe's comparisons, those of a device's dumps, and those of functions.
_DUMP_MODES, _FUNCTION_MODES = ("offline_data", "torchair"), ("auto", "atb")
# Of msprobe compare with the mode auto alone (26.2.0).
_OF_PYTORCH = frozenset(
    "--xlsx -fm --fuzzy_match -cm --cell_mapping -am --api_mapping -dm --data_mapping -lm "
    "--layer_mapping -da --diff_analyze -tensor_log --consistent_check".split()
)
_PYTORCH = "ptdbg and msprobe, whose dumps are those of a framework's functions"
_OPTIONS = {
    "compare": _COMPARE, "watch": _COMPARE, "compare-op": _COMPARE, "convert": _CONVERT,
    "inspect": _INSPECT,
}  # fmt: skip
_COMMANDS = {
    "compare_vector": "compare", "accuracy_compare": "compare", "file_compare": "compare-op",
    "overflow": "inspect --stats",
    "dump_data_conversion": "convert", "shape_conversion": "convert --layout FORMAT",
    "inplace_layer_process": "golden caffe deinplace",
    "new": "config new", "check": "config check", "caffe": "golden caffe", "tf": "golden tf",
    "onnx": "golden onnx",
    "dump": "golden caffe dump, golden tf dump or "
        "golden onnx dump", "deinplace": "golden caffe deinplace",
    "debug": "compare", "rename": "golden tf rename",
    "html": "report --html FILE", "tensorflow": "golden tf", "pytorch": "golden fx",
    "msaccucmp": "compare", "msquickcmp": "locate", "msprobe": "compare", "ait": "locate",
    "msit": "locate", "parse": "convert", "offline_dump": "locate",
    "overflow_check": "inspect --stats",
}  # fmt: skip


_VALUED = ("-o", "--out", "-f")
_NUMBERS = re.compile(r"[0-9]+(?:,[0-9]+)*\Z")


def command_elsewhere(name: str) -> Optional[str]:
    """Return what a command of another group, or of an older tool, is called here."""
    return _COMMANDS.get(name.replace(".pyc", "").replace(".py", ""))


def refuse_old_options(words: Sequence[str]) -> None:
    """Raise UsageError for an option of several letters after one dash, which click would take for
    another one with a value.
    """
    words = _without_tool(words)
    if words[0] in ("compare", "debug") or words[0].startswith("-"):
        for before, word in zip(("", *words), words):
            if word == "--":
                break
            if word == "offline_model" and before not in _MODE:
                continue
            if word in _BOTH_MODELS and before not in _VALUED:
                tool = "the tools that ran both models themselves (%s)" % (
                    "msprobe" if word == "offline_model" else "msquickcmp, msit debug compare"
                )
                option = "%s %s" % (before, word) if before in _MODE else word
                hint = "here one command does this: " + _located(words)
                raise UsageError("%s is an option of %s" % (option, tool), hint=hint)
    pairs = list(zip(words, [*words[1:], "--"]))
    pairs = pairs[: [word for _, word in pairs].index("--")]
    for before, word in pairs if words[0] == "compare" else ():
        of_pytorch = word in _OF_PYTORCH and before not in _VALUED
        if of_pytorch or _of_functions(before, word):
            option = word if of_pytorch else "%s %s" % (before, word)
            named = dict(zip(words, words[1:]))
            given = [
                next((named[option] for option in options if option in named), missing)
                for options, missing in (
                    ((*_MODE_TARGET, "-mp", "--my-path"), "TARGET"),
                    ((*_MODE_GOLDEN, "--golden-path"), "GOLDEN"),
                    (("-o", "--output_path", "--output"), "OUT"),
                )
            ]
            raise UsageError(
                "%s is an option of %s" % (option, _PYTORCH),
                hint="here a device's dumps are compared with golden data or with another dump: "
                "where these folders hold such, goldwatch compare %s %s -o %s; of PyTorch's graph "
                "mode: docs/torchair.md" % tuple(map(shlex.quote, given)),
            )
    for before, word in pairs:
        # A folder may have such a name.
        table, short = _OPTIONS.get(words[0], {}), _SHORT.get(word, word)
        if len(word) > 2 and short in table and before not in _VALUED:
            raise UsageError("%s is an option of the older tools" % word)


def _of_functions(before: str, word: str) -> bool:
    """Return whether two words are a comparison of a framework's functions."""
    return (before == "-i" and word.endswith(".json")) or (
        before in _MODE and word in _FUNCTION_MODES
    )


def _located(words: Sequence[str]) -> str:
    """Return the search that does what a tool did that ran both models."""
    operands = ["MODEL", "OM"]
    options = []
    offline_model = "offline_model" in words
    for word, value in zip(words, [*words[1:], ""]):
        if offline_model and word in _MODE:
            continue
        if word in _MODEL or (word == "-m" and value) or (offline_model and word in _MODE_GOLDEN):
            operands[0] = value
        elif word in _OM or (offline_model and word in _MODE_TARGET):
            operands[1] = value
        else:
            options.append((word, value))
    return _spelt(["locate", *operands], options, _OF_BOTH)


def _spelt(
    command: Sequence[str], options: Sequence[Tuple[str, str]], known: Dict[str, str]
) -> str:
    """Return a command with what the options of a tool that runs models are here, by ``known``,
    and why others are left out.
    """
    others: List[str] = []
    left_out: List[str] = []
    inputs: List[str] = []
    for word, value in options:
        if word in known:
            others += [known[word], value]
        elif word in _INPUTS:
            inputs += value.split(",")
        elif word.startswith("-") and not _NUMBERS.match(word[1:]):
            without = word if value.startswith("-") or not value else "%s %s" % (word, value)
            left_out.append("%s: %s" % (without, _NO_COUNTERPART.get(word, "left out")))
    for path in inputs:
        others += ["-i", "NAME=" + path]
    spelt = " ".join(map(shlex.quote, ["goldwatch", *command, *others]))
    named = " (NAME is the input's name in the model)" if inputs else ""
    return "; ".join([spelt + named, *left_out])


def new_spelling(
    words: Sequence[str], known: Callable[[str], Collection[str]] = lambda name: ()
) -> Optional[str]:
    """Return a command line with options of the older tools in our spelling, and why others have
    none; None where it has none of theirs.

    Parameters
    ----------
    words
        Everything behind ``goldwatch``.
    known
        Returns the options of a command of ours: others are left out, and named. None are where it
        returns none.
    """
    words = _without_tool(words)
    if list(words[:2]) == ["debug", "dump"]:
        words = ["offline_dump", *(_OF_DEBUG_DUMP.get(word, word) for word in words[2:])]
    if words[:1] == ["offline_dump"]:
        return _offline_dump(words)
    words = _of_our_command(words)
    table = _OPTIONS.get(words[0], {}) if words else {}
    if any(
        word in _BOTH_MODELS or word in _OF_PYTORCH or _of_functions(before, word)
        for before, word in zip(["", *words], words)
    ):
        return None
    words = _short(words) if table else words
    arguments: Dict[int, str] = {}
    others: List[str] = []
    left_out: List[str] = []
    operator: Optional[List[str]] = None
    has_old_option = False
    position = 1
    while position < len(words):
        word = words[position]
        if word == "--":
            break
        old = _meant(words, position, table)
        position += 1
        if old is None:
            others.append(word)
            continue
        has_old_option = True
        value = list(words[position : position + 1]) if old.takes else []
        position += len(value)
        if old.why:
            left_out.append("%s: %s" % (" ".join([word, *value]), old.why))
        if word == _OP:
            operator = value
        if old.first or old.second:
            arguments[2 if old.second else 1] = "".join(value)
        elif old.new:
            if word == "-alg":
                value = [",".join(map(_metric, part.split(","))) for part in value]
            others += old.new.split() + ([] if len(old.new.split()) == 2 else value)
    if not has_old_option:
        return None
    others, unknown = _apart(others, known("compare-op" if operator is not None else words[0]))
    left_out += ["%s: has no counterpart" % text for text in unknown]
    if "-o" not in others and "--out" not in others and words[0] != "inspect":
        others += ["-o", "OUT"]
    ordered = [words[0], *(arguments[place] for place in sorted(arguments)), *others]
    if operator is not None:
        # Behind TARGET and GOLDEN, whichever way these were given.
        ordered[0] = "compare-op"
        ordered[len(arguments) + 1 if arguments else len(ordered) :] = operator + (
            others if arguments else []
        )
    command = " ".join(map(shlex.quote, [*ordered, *words[position:]]))
    return "; ".join(["goldwatch " + command, *left_out])


def _without_tool(words: Sequence[str]) -> Sequence[str]:
    """Return an older tool's words without its name, where a command of its own stands behind."""
    named = words and words[0].replace(".pyc", "").replace(".py", "") in _TOOLS
    return words[1:] if named and len(words) > 1 else words


def _offline_dump(words: Sequence[str]) -> Optional[str]:
    options = list(zip(words[1:], [*words[2:], ""]))
    given = dict(options).get("--model_path", "")
    if not given.endswith(".onnx"):
        model = "-om" if given.endswith(".om") else "-gm"
        return _located([model if word == "--model_path" else word for word in words])
    # It runs the model itself, without a device.
    shapes = [
        ("--shape", "=".join(shape.split(":", 1)))
        for word, value in options
        if word == "--input_shape"
        for shape in value.split(";")
    ]
    options = [
        (word, value) for word, value in options if word not in ("--model_path", "--input_shape")
    ]
    if not any(word in ("-o", "--output_path") for word, _ in options):
        options.append(("-o", "OUT"))
    return _spelt(["golden", "onnx", "dump", given], [*options, *shapes], _OF_GOLDEN)


def _apart(words: Sequence[str], options: Collection[str]) -> Tuple[List[str], List[str]]:
    """Return the words of options that a command has, and the others with their values; all where
    none is known.
    """
    kept: List[str] = []
    others: List[str] = []
    for before, word in zip(["", *words], words):
        if not options or (word.startswith("-") and word.split("=")[0] in options):
            kept.append(word)
        elif word.startswith("-"):
            others.append(word)
        elif others and others[-1] == before and "=" not in before:
            others[-1] += " " + word
        else:
            kept.append(word)
    return kept, others


def _of_our_command(words: Sequence[str]) -> Sequence[str]:
    """Return an older tool's words behind the name of the command that does the same here."""
    if not words or words[0].startswith("-") or words[0] in _OPTIONS:
        return words
    meant = (command_elsewhere(words[0]) or "").replace(" --layout FORMAT", "").split()
    if meant[:1] and meant[0] in _OPTIONS:
        return [*meant, *words[2 if words[1:2] == meant else 1 :]]
    return words


def _short(words: Sequence[str]) -> List[str]:
    """Return an older tool's words with its short names, without msprobe's mode, the numbers of a
    list of metrics joined.
    """
    short: List[str] = []
    by_msprobe = any(target in words for target in _MODE_TARGET)
    if words[0] == "compare" and "-d" in words and "-t" in words:
        # An operator of compare_vector: -d OP -t output -i 0.
        kind = dict(zip(words, words[1:]))["-t"]
        at = list(words).index("-t")
        words = [*words[:at], *words[at + 2 :]]
        index = "-i" if kind == "input" else "-o"
        words = [{"-d": _OP, "-i": index}.get(word, word) for word in words]
    for word in words:
        word = _SHORT.get(word, word)
        if short[-1:] and short[-1] in _MODE and word in _DUMP_MODES and by_msprobe:
            short.pop()
        elif word.isdigit() and short[-2:-1] == ["-alg"]:
            short[-1] += "," + word
        else:
            short.append(word)
    if "-tensor" in short and "-index" not in short:
        short += ["-index", "0"]
    return short


def _metric(name: str) -> str:
    """Return a metric's name; the older tools also take its number among the ten, from 0."""
    return METRICS[int(name)] if name.isdigit() and int(name) < len(METRICS) else name


def _meant(words: Sequence[str], position: int, table: Dict[str, Old]) -> Optional[Old]:
    """Return the older tool's option at a position; some change their meaning with the other
    words.
    """
    word = words[position]
    follower = words[position + 1] if position + 1 < len(words) else ""
    converts = words[0] == "convert"
    if word == "-q" and (not follower.endswith(".json") or converts):
        return None  # -q is "quiet" here
    if word == "-f" and converts and follower.endswith((".json", ".txt", ".prototxt")):
        return Old(why="no model is needed, a dump's header tells types, layouts and shapes")
    if word == "-v" and follower in ("1", "2"):
        return _BY_CONTENT
    if word == "--output" and (words[0] in ("compare", "watch") or (converts and "-d" in words)):
        return Old(new="-o")
    of_one_tensor = _OP in words or (converts and "-out" in words)
    if word in ("-o", "-i") and of_one_tensor and _NUMBERS.match(follower):
        return Old(new="--output" if word == "-o" else "--input")
    if word == "-i" and converts:
        return _TARGET
    if word == "-index" and converts:
        named = dict(zip(words, words[1:])).get("-tensor", "output")
        return Old(new="--" + named)
    if word in _OF_ONE_OPERATOR and words[0] in ("compare", "watch") and _OP not in words:
        return Old(table[word].takes, why="of one operator, goldwatch compare-op")
    if word in ("-t", "-target") and not converts:
        return Old(why="a file's kind is seen in the file itself")
    if word in ("-t", "-target") and follower == "numpy":
        return Old(new="--to npy")
    if word in ("-t", "-target") and follower in ("pt", "msnpy"):
        return Old(new="--to npy", why="here npy")
    if word == "-r" and (
        _NUMBERS.match(follower) or any(other in words for other in ("-m", "-g", "-tp", "-gp"))
    ):
        return Old(new="--range")
    return table.get(word)
