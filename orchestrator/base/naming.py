"""Every rule about names: parse, compose, sanitise, collisions, hashes and mapping.csv.

Source of the forms: the vendor's public documents on dump files (CANN 20.x to 9.x).
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import io
import os
import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Dict, Iterable, List, Optional, Set, Tuple

from .errors import FormatError
from .fast_dataclasses import dataclass
from .safe_reading import read_input

RESHAPING_TYPES = frozenset(
    [
        "ExpandDims", "Flatten", "FlattenV2", "Reshape", "Squeeze", "SqueezeV2", "SqueezeV3",
        "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3",
    ]
)  # fmt: skip
"""Types, of the device and of original models, whose output has the values of their first input in
their order, in another shape. What else keeps or moves values is told where it is asked for.
"""

MAPPING_FILE = "mapping.csv"
MAPPING_LIMIT_BYTES = 100 * 1024 * 1024
TIMESTAMP_DIGITS = 16
MAX_NAME_BYTES = 255

_DEVICE_UNSAFE = re.compile(r"[ ./\\]")
_GOLDEN_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_DUMP = re.compile(r"([^./\\\x00]+)\.([^./\\\x00]+)((?:\.[0-9]{1,255}){2,7})\Z")
_GOLDEN = re.compile(
    r"(?P<op>[.A-Za-z0-9_-]+)\.(?P<index>[0-9]{1,9})\.(?P<timestamp>[0-9]{1,255})\.(?P<suffix>npy|pb|quant)\Z"
)
_PART_LACKING = re.compile(
    r"(?!.*\.(?:input|output|INPUT|OUTPUT)\.).*[^.:0-9][^.:]*[.:][0-9]{1,255}\.npy\Z", re.DOTALL
)
_HASH_GOLDEN = re.compile(r"(?P<digits>[0-9]{1,20})\.(?:npy|pb|quant)\Z")
_HASH_TARGET = re.compile(r"[0-9]{1,20}\Z")
_OVERFLOW_TYPE = "opdebug"
_RUN_TIME = re.compile(r"[0-9]{14}")
_NEAREST_LETTERS = 200
_NEAREST_CANDIDATES = 50
_PARKED = re.compile(r"(?P<op>.+)-parked-[0-9]{1,9}\Z")
_FX = re.compile(
    r"(?P<node>\w+)-(?P<target>[\w.]+)\.(?P<kind>INPUT|OUTPUT)\.(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9})?)\.(?P<time>[0-9]{1,20})\.npy\Z",
    re.ASCII,
)
_GRAPH_RUN = re.compile(r"(?P<graph>graph_[0-9]+)_[0-9]+\Z")
_LX_SLICE = re.compile(r"(?P<op>.+)_lxslice(?P<number>[0-9]{1,9})\Z", re.DOTALL)


@dataclass(frozen=True)
class DumpName:
    """The parts of a device dump's file name.

    Attributes
    ----------
    op_type, op_name
        As the device wrote them: blank, ``.``, ``/`` and ``\\`` are already ``_``.
    timestamp_us
        Microseconds since the epoch.
    kind
        ``dump``, ``overflow`` (an Opdebug record) or ``stats`` (a statistics CSV).
    """

    op_type: str
    op_name: str
    task_id: int
    timestamp_us: int
    stream_id: Optional[int] = None
    task_type: Optional[int] = None
    context_id: Optional[int] = None
    thread_id: Optional[int] = None
    device_id: Optional[int] = None
    kind: str = "dump"

    @property
    def slice(self) -> Optional[Tuple[int, int]]:
        """(context, thread) of a file that FFTS+ wrote, which may hold one slice of its op; None
        for other files.
        """
        return (
            None
            if self.context_id is None or self.thread_id is None
            else (self.context_id, self.thread_id)
        )

    @property
    def slice_numbers(self) -> Tuple[Optional[int], Optional[int], Optional[int]]:
        """What may number the slices of an op: N of ``{op}_lxslice{N}``, thread and context; None
        for what the name does not have.
        """
        return whole_name(self.op_name)[1], self.thread_id, self.context_id


@dataclass(frozen=True)
class GoldenName:
    """The parts of a golden file's name:
    ``{op_name}.{output_index}.{timestamp}.{npy|pb|quant}``.
    """

    op_name: str
    output_index: int
    timestamp_us: int
    suffix: str


def graph_of_run(model_name: str) -> str:
    """Return the graph that a model_name folder is of: GE writes ``graph_1`` or, with a number of
    the run behind it, ``graph_1_0``.
    """
    match = _GRAPH_RUN.match(model_name)
    return model_name if match is None else match.group("graph")


@dataclass(frozen=True)
class FxName:
    """The parts of a file's name in an FX dump:
    ``{node}-{target}.{INPUT|OUTPUT}.{number}[.{place}].{time}.npy``.

    Attributes
    ----------
    node, target
        The node's name in its graph, and what it calls, such as ``add_1`` and ``aten.add.Tensor``.
    op_name, index
        The same as a golden file's name: ``add_1-aten.add.Tensor.OUTPUT`` and 0; of one of a list
        of inputs the place in the list.
    timestamp
        As written: ``YYYYmmddHHMMSSffffff`` as a number.
    """

    node: str
    target: str
    op_name: str
    index: int
    timestamp: int


def fx_file_name(node: str, target: str, kind: str, numbers: Tuple[int, ...], time: str) -> str:
    """Return a file's name in an FX dump; the inverse of :func:`parse_fx_name`. Source: TorchAir's
    fx_dumper.py.
    """
    return "%s-%s.%s.%s.%s.npy" % (node, target, kind, ".".join(map(str, numbers)), time)


@lru_cache(maxsize=4096)
def parse_fx_name(file_name: str) -> Optional[FxName]:
    """Return the parts of a file's name in an FX dump, or None when it is not one."""
    match = _FX.match(file_name)
    if match is None:
        return None
    op_name, index, time = file_name[: -len(".npy")].rsplit(".", 2)
    return FxName(match.group("node"), match.group("target"), op_name, int(index), int(time))


def whole_name(op_name: str) -> Tuple[str, Optional[int]]:
    """Return the op that ``{op}_lxslice{N}`` is a slice of, and N; any other name as it is, and
    None.
    """
    match = _LX_SLICE.match(op_name)
    return (match.group("op"), int(match.group("number"))) if match is not None else (op_name, None)


@lru_cache(maxsize=4096)
def sanitise_device(name: str) -> str:
    """Return ``name`` as the device writes it: exactly blank, ``.``, ``/`` and ``\\`` become
    ``_``.
    """
    return _DEVICE_UNSAFE.sub("_", name)


@lru_cache(maxsize=4096)
def sanitise_golden(name: str) -> str:
    """Return ``name`` as golden files must carry it: everything outside ``[A-Za-z0-9_-]`` becomes
    ``_``.
    """
    return _GOLDEN_UNSAFE.sub("_", name)


def run_name(model: Optional[str], instead: str = "") -> Optional[str]:
    """Return a model's name without the time of its run, which the name of a training graph holds:
    ge_default_20200808163719_121; ``instead`` stands for it.
    """
    return None if model is None else _RUN_TIME.sub(instead, model)


@lru_cache(maxsize=8192)
def parse_dump_name(file_name: str) -> Optional[DumpName]:
    """Return the parts of a device dump's file name, or None when it is not one.

    Fields are counted from both ends: type and name in front; behind them ``task.timestamp`` (up to
    CANN 5.0), ``task.stream.timestamp`` (since 5.1), and with FFTS+
    ``.{task_type}.{context_id}.{thread_id}[.{device_id}]`` after the timestamp. Documents print the
    stream before the task, device code writes it after; both are three numbers and are read alike,
    the first as the task. A name that is only digits is a hash name (:func:`is_hash_name`), not a
    dump name.
    """
    kind = "dump"
    if file_name.endswith(".csv"):
        file_name, kind = file_name[:-4], "stats"
    fields = _DUMP.match(file_name)
    if fields is None:
        return None
    op_type, op_name, digits = fields.groups()
    numbers = digits[1:].split(".")
    head, tail = _split_numbers(numbers, list(map(int, numbers)))
    if head is None:
        return None
    if op_type.lower() == _OVERFLOW_TYPE and op_name.lower() == "node_opdebug" and kind == "dump":
        kind = "overflow"
    return DumpName(
        op_type=op_type,
        op_name=op_name,
        task_id=head[0],
        stream_id=head[1] if len(head) == 3 else None,
        timestamp_us=head[-1],
        task_type=tail[0] if tail else None,
        context_id=tail[1] if tail else None,
        thread_id=tail[2] if tail else None,
        device_id=tail[3] if len(tail) == 4 else None,
        kind=kind,
    )


def _split_numbers(texts: List[str], values: List[int]) -> Tuple[Optional[List[int]], List[int]]:
    """Split the numbers of a dump name into (task[, stream], timestamp) and the FFTS+ tail."""
    count = len(values)
    if count in (2, 3):
        return values, []
    if count in (5, 6, 7):
        # With six numbers the timestamp is the longer of the second and third: task.timestamp +
        # four, or task.stream.timestamp + three.
        head = {5: 2, 7: 3}.get(count) or (3 if len(texts[2]) >= len(texts[1]) else 2)
        return values[:head], values[head:]
    return None, []


def compose_dump_name(name: DumpName) -> str:
    """Return the file name of ``name``; the inverse of :func:`parse_dump_name`. Type and name are
    sanitised as on the device.
    """
    fields = [sanitise_device(name.op_type), sanitise_device(name.op_name), str(name.task_id)]
    if name.stream_id is not None:
        fields.append(str(name.stream_id))
    fields.append(str(name.timestamp_us).zfill(TIMESTAMP_DIGITS))
    for number in (name.task_type, name.context_id, name.thread_id, name.device_id):
        if number is not None:
            fields.append(str(number))
    return ".".join(fields) + (".csv" if name.kind == "stats" else "")


def parse_golden_name(file_name: str) -> Optional[GoldenName]:
    """Return the parts of a golden file's name, or None when it is not one.

    Dots are allowed in the op part and kept (``bn.1_Const.0.TS.npy``); look-ups sanitise both
    sides.
    """
    match = _GOLDEN.match(file_name)
    if match is None:
        return None
    return GoldenName(
        match.group("op"),
        int(match.group("index")),
        int(match.group("timestamp")),
        match.group("suffix"),
    )


def intended_golden_name(file_name: str) -> Optional[str]:
    """Return the correct name of a file whose name is a golden file's but for invalid characters,
    or None."""
    op_name, *rest = file_name.rsplit(".", 3)
    meant = ".".join([sanitise_golden(op_name), *rest])
    return (
        meant
        if parse_golden_name(file_name) is None and parse_golden_name(meant) is not None
        else None
    )


def lacks_name_part(file_name: str) -> bool:
    """Return whether this is the name of an npy file with an op's name and only one number: an
    output index without a time, or a time alone.
    """
    return (
        bool(_PART_LACKING.match(file_name))
        and parse_golden_name(file_name) is None
        and not is_hash_name(file_name)
    )


def compose_golden_name(
    op_name: str, output_index: int, timestamp_us: int, suffix: str = "npy"
) -> str:
    """Return ``{sanitised op_name}.{output_index}.{16-digit timestamp}.{suffix}``, however long;
    see :func:`fits`.
    """
    return "%s.%d.%s.%s" % (
        sanitise_golden(op_name),
        output_index,
        str(timestamp_us).zfill(TIMESTAMP_DIGITS),
        suffix,
    )


def parked_name(op_name: str, number: int) -> str:
    """Return the name under which golden files are listed if several ops share their sanitised
    name: no reader mistakes it for one of them.
    """
    return "%s-parked-%d" % (op_name, number)


def op_of_parked_name(op_name: str) -> Optional[str]:
    """Return the sanitised name that :func:`parked_name` was given; None for any other name."""
    match = _PARKED.match(op_name)
    return match.group("op") if match is not None else None


def fits(file_name: str) -> bool:
    """Return whether this name fits ext4 and xfs (255 bytes at most)."""
    return len(os.fsencode(file_name)) <= MAX_NAME_BYTES


def shortened_file_name(head: str, tail: str) -> str:
    """Return ``head`` + ``tail`` as a file name of at most 255 bytes: a longer head is cut and ends
    with 16 digits of its SHA-256.
    """
    data = head.encode("utf-8", "surrogateescape")
    room = MAX_NAME_BYTES - len(os.fsencode(tail))
    if len(data) > room:
        head = (
            data[: room - 17].decode("utf-8", "ignore")
            + "_"
            + hashlib.sha256(data).hexdigest()[:16]
        )
    return head + tail


def is_hash_name(file_name: str) -> bool:
    """Return whether this is the decimal hash name of an over-long one (``digits`` or
    ``digits.npy``), resolved by mapping.csv.
    """
    return bool(_HASH_TARGET.match(file_name) or _HASH_GOLDEN.match(file_name))


def hash_digits(original_name: str) -> str:
    """Return the decimal name (1 to 20 digits) that stands for an over-long one; deterministic, 64
    bits of SHA-256.
    """
    return str(
        int.from_bytes(
            hashlib.sha256(original_name.encode("utf-8", "surrogateescape")).digest()[:8], "big"
        )
    )


def read_mapping(path: str) -> Dict[str, str]:
    """Return ``{hash name: original name}`` of a mapping.csv; a repeated line is read once, an
    incomplete last line is skipped.

    Raises
    ------
    FormatError
        The file is larger than 100 MiB, a line has no name, or one hash stands for two names.
    MissingPath, OSError
        The file cannot be read, or is no file.
    """
    text = read_input(path, MAPPING_LIMIT_BYTES).decode("utf-8", "surrogateescape")
    if text and not text.endswith("\n"):
        # The writer appends whole lines; what stands behind the last newline may still be growing.
        complete, _, rest = text.rpartition("\n")
        text = complete + ("\n" + rest if "," in rest and rest.partition(",")[2] else "")
    names: Dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        # The device writes the name as it is, commas included; a CSV writer quotes such a one.
        key, comma, original = line.partition(",")
        key, original = key.strip(), original.strip()
        if len(original) > 1 and original[0] == original[-1] == '"':
            original = original[1:-1].replace('""', '"')
        if not comma or not original:
            raise FormatError("line %d is not hash,original_name" % number, path)
        if names.setdefault(key, original) != original:
            raise FormatError("line %d: %s stands for two names" % (number, key), path)
    return names


def mapping_line(hash_name: str, original_name: str) -> str:
    """Return one line of mapping.csv, newline included."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerow([hash_name, original_name])
    return out.getvalue()


def find_collisions(names: Iterable[str]) -> Dict[str, List[str]]:
    """Return ``{sanitised name: distinct original names}`` for every golden name that several
    originals share.
    """
    groups: Dict[str, List[str]] = {}
    for name in names:
        group = groups.setdefault(sanitise_golden(name), [])
        if name not in group:
            group.append(name)
    return {key: group for key, group in groups.items() if len(group) > 1}


def free_name(name: str, taken: Set[str]) -> str:
    """Return ``name``, or ``name_1``, ``name_2`` … if it is taken, and mark the result as taken."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = "%s_%d" % (name, number)
    taken.add(candidate)
    return candidate


def nearest_names(name: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> List[str]:
    """Return up to ``n`` of the ``known`` names that resemble ``name``, best first; case and ``-``
    for ``_`` count nothing.

    Names whose length alone rules them out are passed over; of the others the fifty that share most
    letters at their two ends are compared letter by letter, so that 30,000 names cost a fraction of
    a second.

    Parameters
    ----------
    cutoff
        The least similarity, 0 to 1: twice the letters in common by those of both names
        (:class:`difflib.SequenceMatcher`).
    """
    name_folded = _folded(name)
    backwards = name_folded[::-1]
    length = len(name_folded)
    shortest, longest = (
        length * cutoff / (2 - cutoff),
        length * (2 - cutoff) / cutoff if cutoff else float("inf"),
    )
    ranked = []
    for number, text in enumerate(dict.fromkeys(known)):
        if shortest <= min(len(text), _NEAREST_LETTERS) <= longest:
            folded = _folded(text)
            alike = len(os.path.commonprefix((name_folded, folded))) + len(
                os.path.commonprefix((backwards, folded[::-1]))
            )
            # Of a name within the other ("conv" and "conv_conv") both ends may cover the same
            # letters.
            ranked.append(
                (
                    abs(length - len(folded)) - 2 * min(alike, length, len(folded)),
                    number,
                    text,
                    folded,
                )
            )
    matcher = SequenceMatcher(None, "", name_folded, autojunk=False)
    nearest = []
    for _, number, text, folded in heapq.nsmallest(_NEAREST_CANDIDATES, ranked):
        matcher.set_seq1(folded)
        if matcher.quick_ratio() >= cutoff:
            ratio = matcher.ratio()
            if ratio >= cutoff:
                nearest.append((-ratio, number, text))
    return [text for _, _, text in heapq.nsmallest(n, nearest)]


def _folded(name: str) -> str:
    return name[:_NEAREST_LETTERS].strip().lower().replace("-", "_").replace(" ", "_")


# Unicode 15's category Cf and Default_Ignorable_Code_Point, as ranges: what Python knows of them
# differs between its versions.
_INVISIBLE = (
    r"\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff%s]" % _INVISIBLE)


def printable(text: str) -> str:
    """Return ``text`` with control and invisible characters, escapes and undecodable bytes as
    ``\\xNN`` (``\\uNNNN``, ``\\UNNNNNNNN``).

    It is safe on a terminal, and no name reads as another that differs by a character without a
    width.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda match: _escape(ord(match.group())), text)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return (
        "\\x%02x" % code
        if code < 0x100
        else "\\u%04x" % code
        if code < 0x10000
        else "\\U%08x" % code
    )
