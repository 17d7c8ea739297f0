"""Detects what a folder holds by file names: a device's dumps, golden files, or another tool's
files.

Sources of the names: public documents of msprobe, TorchAir, ATB (msit llm dump) and MindSpore; for
our own, :mod:`goldwatch.base.naming`.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Pattern, Tuple

from ..base.naming import is_hash_name, parse_dump_name, parse_golden_name
from . import kind as kinds
from .kind import Kind

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

_MOST_FILES = 20000
_NAMES: Tuple[Tuple[str, Pattern[str]], ...] = (
    (kinds.FX, re.compile(r".+\.(?:INPUT|OUTPUT)\.[0-9]+\.[0-9]{10,}\.npy\Z")),
    # A dump's name, which number of input or output, and its layout: MindSpore. Without a layout: a
    # file that was converted.
    (
        kinds.MINDSPORE,
        re.compile(
            r"[^.]+\.[^.]+(?:\.[0-9]+){2,3}\.(?:input|output)[._][0-9]+\.[A-Za-z]\w*(?:\.\w+)?\.(?:npy|bin)\Z"
        ),
    ),
    # Its synchronous dump up to 1.3: the name has type and shape.
    (
        kinds.MINDSPORE,
        re.compile(
            r".+_(?:input|output)_[0-9]+_shape_[0-9_]*[A-Z][a-z]+[0-9]*_[A-Z]\w*\.(?:bin|npy)\Z"
        ),
    ),
    (
        kinds.CONVERTED,
        re.compile(
            r"[^.]+\.[^.]+(?:\.[0-9]+){2,7}\.(?:input|output)\.[0-9]+(?:\.[\d_]+)?\.(?:npy|bin|txt)\Z"
        ),
    ),
    (
        kinds.MSPROBE,
        re.compile(r".+\.(?:forward|backward)\b.*\.(?:pt|npy)\Z|(?:construct|stack)\.json\Z"),
    ),
    (kinds.ATB, re.compile(r"(?:in|out|inter)tensor[0-9]+\.bin\Z")),
    (kinds.MINDSPORE_STATISTICS, re.compile(r"statistic\.csv\Z")),
    (kinds.TORCH, re.compile(r".+\.(?:pt|pth|bin\.pt)\Z")),
    (kinds.PICKLE, re.compile(r".+\.(?:pkl|pickle)\Z")),
    (kinds.MODELS, re.compile(r".+\.(?:om|onnx|prototxt|caffemodel|pbtxt)\Z")),
    (kinds.MISNAMED, re.compile(r".+\.npy\Z")),
    (kinds.NPZ, re.compile(r".+\.npz\Z")),
    (kinds.RAW, re.compile(r".+\.(?:bin|raw|dat)\Z")),
    (kinds.NUMBERS, re.compile(r".+\.txt\Z")),
    (kinds.IMAGE, re.compile(r".+\.(?:jpe?g|png|bmp)\Z", re.IGNORECASE)),
)
# The most significant kind first, if there are several.
_FOREIGN = (kinds.FX, kinds.MINDSPORE, kinds.MSPROBE, kinds.ATB, kinds.MINDSPORE_STATISTICS)


def kind_of_name(name: str) -> Optional[str]:
    """Return what a file is by its name alone: a dump, golden data, statistics, or a file of
    another tool; None for any other.
    """
    if is_hash_name(name):
        return None
    dump = parse_dump_name(name)
    if dump is not None:
        return kinds.STATISTICS_DUMP if dump.kind == "stats" else kinds.DUMPS
    if parse_golden_name(name) is not None and not _NAMES[0][1].match(name):
        return kinds.GOLDEN
    return next((kind for kind, pattern in _NAMES if pattern.match(name)), None)


class Folder(Protocol):
    """A folder that is listed elsewhere."""

    root: str

    def below(self) -> Iterator[str]:
        """Yield the files below it, relative to it."""


def kinds_in_folder(folder: Folder) -> List[Kind]:
    """Return the kinds of files below a folder, most significant first; empty if none is known. At
    most 20,000 names are examined.
    """
    counts: Counter[str] = Counter()
    examples: Dict[str, str] = {}
    for rel in islice(folder.below(), _MOST_FILES):
        name = os.path.basename(rel)
        file_kind = kinds.SAVED_MODEL if name == "saved_model.pb" else kind_of_name(name)
        if file_kind is not None:
            counts[file_kind] += 1
            examples.setdefault(file_kind, rel)
    found_kinds = [Kind(name, examples[name], count) for name, count in counts.most_common()]
    return sorted(found_kinds, key=lambda kind: kind.name not in _FOREIGN)
