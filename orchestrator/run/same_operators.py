"""Operators of two dumps that are one by what they read, whatever the builds call them."""

from __future__ import annotations

import hashlib
import os
import re
from bisect import bisect_left
from typing import (
    Any,
    Dict,
    FrozenSet,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name
from ..dumps.dump_file import DumpFile, TensorInfo
from ..dumps.statistics_dump import StatisticsDump, is_statistics
from ..model.row_plan import INPUT, OUTPUT
from ..tensors.tensor import WINDOW_BYTES

Form = Tuple[Any, ...]
EitherDump = Union[DumpFile, StatisticsDump]
Output = Tuple[str, int]
"""A file's relative path, and the number of an output."""

_MOST_CELLS = 4_000_000
"""How many pairs of operators two sequences may have that are laid beside each other: two tables of
16 MB."""


_VERSION = re.compile(r"(?:(?<=[a-z])D)?(?:V[0-9]+D?)?\Z")
_BATCHED = {"BatchMatMul": "MatMul"}


def family(op_type: str) -> str:
    """Return what types of an operator have in common that builds exchange for each other: without
    the version and without the D of constant attributes (MatMulV2, ReduceMeanD), a product of
    batches as a product.
    """
    name = _VERSION.sub("", op_type, count=1)
    return _BATCHED.get(name, name)


class _Op(NamedTuple):
    """An operator that its dump has alone.

    Attributes
    ----------
    form
        Its type, and type and shape of each input and output.
    inputs
        The bytes of each, as a digest.
    outputs
        The same of what it makes.
    readers
        The types of the operators that read these, each with the number of the input.
    """

    form: Form
    inputs: Tuple[bytes, ...]
    outputs: Tuple[bytes, ...]
    readers: FrozenSet[Tuple[str, int]]


class Build(NamedTuple):
    """One of the two dumps at a place.

    Attributes
    ----------
    dumps
        Its files by relative path, in the order of execution.
    types
        What builds call the type of the operator of each, :func:`family`.
    alone
        Those whose operator has no counterpart of its name.
    digests
        Of tensors that were read: by file, kind and number.
    """

    dumps: Mapping[str, EitherDump]
    types: Mapping[str, str]
    alone: Set[str]
    digests: Dict[Tuple[str, str, int], bytes]

    def digest(self, rel: str, kind: str, info: TensorInfo) -> bytes:
        """Return the digest of a tensor."""
        key = rel, kind, info.index
        if key not in self.digests:
            self.digests[key] = digest(self.dumps[rel], kind, info)
        return self.digests[key]


def same_operators(ours: Build, theirs: Build, named: Mapping[str, str]) -> Dict[str, str]:
    """Return files of operators that one dump has alone, each with the one of the other dump that
    is the same operator: of one type and form, and reading the same: the same bytes, or what the
    same operators make, be it right or wrong.

    What nothing in either dump makes (weights) may differ, but not all that is read. Of several
    that fit, those are taken whose output is the same; then what is left where it is one, and where
    operators of the same types read it: one that another one is fused into makes something else.

    Parameters
    ----------
    named
        Files of operators that are paired by their names.
    """
    sizes = {
        info.size_bytes
        for build in (ours, theirs)
        for rel in build.alone
        if rel in build.dumps
        for info in build.dumps[rel].inputs
    }
    makers = [_makers(build, sizes) for build in (ours, theirs)]
    left, right = (
        {
            rel: _op(build, rel, readers)
            for rel, dump in build.dumps.items()
            if rel in build.alone and dump.inputs and dump.outputs
        }
        for build, readers in ((one, _readers(one)) for one in (ours, theirs))
    )
    by_form: Dict[Form, List[str]] = {}
    for rel, op in right.items():
        by_form.setdefault(op.form, []).append(rel)
    pairs: Dict[str, str] = {}
    counterparts = dict(named)
    while True:
        before = len(pairs)
        for rel, op in left.items():
            if rel in pairs:
                continue
            fits = [
                other
                for other in by_form.get(op.form, ())
                if _reads_the_same(op, right[other], makers, counterparts)
            ]
            equal = [other for other in fits if right[other].outputs == op.outputs]
            if not equal and len(fits) == 1:
                # Another operator may fit it as well.
                rivals = (
                    []
                    if right[fits[0]].readers != op.readers
                    else [
                        one
                        for one, its in left.items()
                        if one not in pairs
                        and its.form == op.form
                        and _reads_the_same(its, right[fits[0]], makers, counterparts)
                    ]
                )
                equal = fits if rivals == [rel] else []
            if equal:
                pairs[rel] = counterparts[rel] = equal[0]
                by_form[op.form].remove(equal[0])
        if len(pairs) == before:
            return pairs


def by_order(ours: Build, theirs: Build) -> Dict[str, str]:
    """Return files of operators that one dump has alone, each with the one of the other dump that
    ran in its place, where neither dump holds inputs: where both ran operators of the same types
    and forms in the same order. Of one form, those that made the same are the same.
    """
    left, right = (
        [
            (rel, (build.types[rel], tuple((one.dtype, one.shape) for one in dump.outputs)))
            for rel, dump in sorted(build.dumps.items(), key=_time)
        ]
        for build in (ours, theirs)
    )
    if [form for _, form in left] != [form for _, form in right] or any(
        dump.inputs for build in (ours, theirs) for dump in build.dumps.values()
    ):
        return {}
    # What has a counterpart of its name has to stand in the same place.
    if any((a in ours.alone) != (b in theirs.alone) for (a, _), (b, _) in zip(left, right)):
        return {}
    pairs: Dict[str, str] = {}
    for form in {form for rel, form in left if rel in ours.alone}:
        mine, other = (
            [(rel, _made(build, rel)) for rel, of in some if of == form and rel in build.alone]
            for some, build in ((left, ours), (right, theirs))
        )
        for rel, made in mine:
            same = next((one for one in other if one[1] == made), None)
            if same is not None:
                pairs[rel] = same[0]
                other.remove(same)
        rest = [rel for rel, _ in mine if rel not in pairs]
        pairs.update(zip(rest, (rel for rel, _ in other)))
    return pairs


def same_readers(ours: Build, theirs: Build, known: Mapping[str, str]) -> Dict[str, str]:
    """Return files of operators that one dump has alone, each with the one of the other dump that
    begins with the same operator and reads the same: both are of one type, read tensors of the same
    shapes, and stand at the same place of the order of execution, whatever is fused in between. Of
    several places that fit none is taken. Their outputs may be of other operators.

    Parameters
    ----------
    known
        Files of operators that are paired otherwise.
    """
    left, right = (
        [
            (rel, (build.types[rel], _shapes_read(dump)))
            for rel, dump in sorted(build.dumps.items(), key=_time)
            if dump.inputs
        ]
        for build in (ours, theirs)
    )
    places = {rel: number for number, (rel, _) in enumerate(right)}
    fixed = _ascending([
        (number, places[known[rel]])
        for number, (rel, _) in enumerate(left)
        if known.get(rel) in places
    ])  # fmt: skip
    found: Dict[str, str] = {}
    start, begin = 0, 0
    for number, end in [*fixed, (len(left), len(right))]:
        pieces = left[start:number], right[begin:end]
        if len(pieces[0]) * len(pieces[1]) <= _MOST_CELLS:
            for one, other in _in_common(*([form for _, form in piece] for piece in pieces)):
                found[pieces[0][one][0]] = pieces[1][other][0]
        start, begin = number + 1, end + 1
    return found


def _ascending(pairs: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Return the longest part of pairs, of which the first numbers ascend, whose second do, too."""
    ends: List[int] = []
    last: List[int] = []
    before: List[int] = []
    for number, (_, value) in enumerate(pairs):
        place = bisect_left(ends, value)
        before.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [value]
        last[place : place + 1] = [number]
    found = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _shapes_read(dump: EitherDump) -> Tuple[Any, ...]:
    """Return the shape of the first input: what a build folds adds or takes away constants."""
    return tuple(dump.inputs[0].shape)


def _in_common(ours: Sequence[Form], theirs: Sequence[Form]) -> List[Tuple[int, int]]:
    """Return the places of what each longest common subsequence of two sequences pairs alike."""
    kinds: Dict[Form, int] = {}
    left, right = (
        np.array([kinds.setdefault(form, len(kinds)) for form in some], np.int32)
        for some in (ours, theirs)
    )
    before = _lengths(left, right)
    behind = _lengths(left[::-1], right[::-1])[::-1, ::-1]
    longest = before[-1, -1]
    pairs = []
    for number, kind in enumerate(left):
        skipped = (before[number] + behind[number + 1] == longest).any()
        paired = before[number, :-1] + 1 + behind[number + 1, 1:] == longest
        (places,) = np.nonzero(paired & (right == kind))
        if not skipped and len(places) == 1:
            pairs.append((number, int(places[0])))
    return pairs


def _lengths(left: Any, right: Any) -> Any:
    """Return the length of the longest common subsequence of the first i and first j elements."""
    lengths = np.zeros((len(left) + 1, len(right) + 1), np.int32)
    for number, kind in enumerate(left):
        longer = np.maximum(lengths[number, 1:], lengths[number, :-1] + (right == kind))
        lengths[number + 1, 1:] = np.maximum.accumulate(longer)
    return lengths


def _time(entry: Tuple[str, EitherDump]) -> int:
    name = parse_dump_name(os.path.basename(entry[0]))
    return 0 if name is None else name.timestamp_us


def _made(build: Build, rel: str) -> Tuple[bytes, ...]:
    dump = build.dumps[rel]
    return tuple(build.digest(rel, OUTPUT, info) for info in dump.outputs)


def _readers(build: Build) -> Dict[bytes, List[Tuple[str, int]]]:
    """Return by the bytes of an output what reads it, of outputs of operators of one dump alone."""
    sizes = {info.size_bytes for rel in build.alone for info in build.dumps[rel].outputs}
    found: Dict[bytes, List[Tuple[str, int]]] = {}
    for rel, dump in build.dumps.items():
        for info in dump.inputs:
            if info.size_bytes in sizes:
                reader = build.types[rel], info.index
                found.setdefault(build.digest(rel, INPUT, info), []).append(reader)
    return found


def _op(build: Build, rel: str, readers: Mapping[bytes, List[Tuple[str, int]]]) -> _Op:
    dump = build.dumps[rel]
    infos = [*dump.inputs, *dump.outputs]
    form = build.types[rel], len(dump.inputs), tuple((one.dtype, one.shape) for one in infos)
    inputs, outputs = (
        tuple(build.digest(rel, kind, one) for one in some)
        for kind, some in ((INPUT, dump.inputs), (OUTPUT, dump.outputs))
    )
    read_by = frozenset(one for key in outputs for one in readers.get(key, ()))
    return _Op(form, inputs, outputs, read_by)


def _makers(build: Build, sizes: Set[int]) -> Dict[bytes, List[Output]]:
    """Return the outputs of some sizes by their bytes."""
    found: Dict[bytes, List[Output]] = {}
    for rel, dump in build.dumps.items():
        for info in dump.outputs:
            if info.size_bytes in sizes:
                found.setdefault(build.digest(rel, OUTPUT, info), []).append((rel, info.index))
    return found


def _reads_the_same(
    op: _Op,
    other: _Op,
    makers: List[Dict[bytes, List[Output]]],
    counterparts: Mapping[str, str],
) -> bool:
    known = [
        _is_same(ours, theirs, makers, counterparts)
        for ours, theirs in zip(op.inputs, other.inputs)
    ]
    return False not in known and True in known


def _is_same(
    ours: bytes,
    theirs: bytes,
    makers: List[Dict[bytes, List[Output]]],
    counterparts: Mapping[str, str],
) -> Optional[bool]:
    """Tell whether two inputs are one tensor; None for what nothing in either dump makes."""
    if ours == theirs:
        return True
    made, made_there = (one.get(key, []) for one, key in zip(makers, (ours, theirs)))
    if not made and not made_there:
        return None
    return any((counterparts.get(rel), number) in made_there for rel, number in made)


def open_either(root: str, rel: Optional[str]) -> EitherDump:
    """Open a dump below a folder, of tensors or of their statistics.

    Raises
    ------
    FormatError, TruncatedFile, MissingPath, OSError
        It is no whole dump, or cannot be read.
    """
    path = os.path.join(root, rel or "")
    return StatisticsDump(path) if is_statistics(path) else DumpFile.open(path)


def digest(dump: EitherDump, kind: str, info: TensorInfo) -> bytes:
    """Return a digest of a tensor's stored bytes, or of its statistics; of one that cannot be read,
    of what it is.
    """
    made = hashlib.blake2b(digest_size=16)
    try:
        if isinstance(dump, StatisticsDump):
            made.update(repr(dump.statistics(kind, info.index)).encode())
            return made.digest()
        source = dump.source(kind, info.index)
        for start in range(0, source.nbytes, WINDOW_BYTES):
            made.update(source.read(start, min(WINDOW_BYTES, source.nbytes - start)).tobytes())
    except (GoldwatchError, OSError):
        return ("%s %s %d" % (dump.path, kind, info.index)).encode("utf-8", "surrogateescape")
    return made.digest()
