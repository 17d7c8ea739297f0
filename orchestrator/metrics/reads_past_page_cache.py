"""Reads pairs that are larger than the page cache without evicting other files: what was read is
dropped from the cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Tuple

from ..base.system import cache_room
from ..dumps.file_source import FileSource
from ..tensors.dtypes import Array
from ..tensors.tensor import ByteSource, Tensor
from .pair_task import PairTask

# Shorter reads may share a page with the next one.
_LEAST_BYTES = 64 * 1024


class PassingSource:
    """A file's byte range as a :class:`goldwatch.tensors.tensor.ByteSource` that drops from the
    page cache what was read, except for its end.

    Parameters
    ----------
    source
        The byte range.
    kept_from
        From this byte on nothing is dropped.
    """

    def __init__(self, source: FileSource, kept_from: int) -> None:
        self._source = source
        self._kept_from = kept_from
        self._passed = kept_from, 0

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return self._source.nbytes

    def read(self, offset: int, nbytes: int) -> Array:
        """Return bytes as a new array; errors as :meth:`FileSource.read`."""
        data = self._source.read(offset, nbytes)
        if nbytes >= _LEAST_BYTES and offset < self._kept_from:
            # All from the first read on: the cache's unit may be larger than a page, and one that
            # two reads share stays after the first.
            start, end = self._passed = (
                min(offset, self._passed[0]),
                max(min(offset + nbytes, self._kept_from), self._passed[1]),
            )
            self._source.drop(start, end - start)
        return data


def evicting_reads(task: PairTask, golden: Tensor, last: bool) -> Tuple[PairTask, Tensor]:
    """Return a pair whose reads do not evict everything else from the page cache.

    A pair that fits into the cache stays as it is: it may be read again from there. Of one that
    does not, only its end is kept, half of what the cache may hold: a second walk begins there.

    Parameters
    ----------
    last
        Nothing of it is read again soon.
    """
    room, total = cache_room(), task.nbytes + golden.source.nbytes
    if room is None or total <= room:
        return task, golden
    share = 1.0 if last else 1.0 - room / 2 / total
    target = replace(task.target, source=_passing(task.target.source, share))
    return replace(task, target=target), replace(golden, source=_passing(golden.source, share))


def _passing(source: ByteSource, share: float) -> ByteSource:
    return (
        PassingSource(source, int(share * source.nbytes))
        if isinstance(source, FileSource)
        else source
    )
