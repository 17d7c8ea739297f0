"""What goes to a worker, an order, and what comes back, its findings; picklable."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from ..base.fast_dataclasses import dataclass
from ..dumps.place import Place
from ..run.comparison_options import ComparisonOptions
from .file_probes import FileProbe

Note = Tuple[str, int, int, str]
"""As :meth:`goldwatch.store.store.RunStore.put_file` takes it: path (of files of TARGET relative
to it), bytes, time in ns, state.
"""


@dataclass(frozen=True)
class Order:
    """Files to compare.

    Attributes
    ----------
    run
        Stands for the run: a worker keeps what it has read of GOLDEN and the models until another
        run comes.
    version
        goldwatch's.
    options
        The run's, with the paths as the worker sees them.
    called
        Beginnings of paths, and what these are called in messages; the longest first.
    probes
        Of files that the worker must see.
    files
        Relative to TARGET, in the order of the execution, those that are superseded too.
    own_places
        The places that the models are of.
    stored
        What the run's store holds about these files, packed.
    notes
        And about the files that those rows are of.
    apart
        Compare in processes of their own: where one dies, its unit is the cause.
    """

    run: str
    version: str
    options: ComparisonOptions
    called: Tuple[Tuple[str, str], ...]
    probes: Tuple[FileProbe, ...]
    files: Tuple[str, ...]
    own_places: Tuple[Place, ...]
    stored: bytes
    notes: Tuple[Note, ...]
    apart: bool = False


FileState = Tuple[int, str, int, int, int, Optional[Tuple[int, int]], bool]
"""A file's number in the order, state, size by its header, inputs, outputs, iteration, and whether
it has rows.
"""


@dataclass(frozen=True)
class Findings:
    """What became of an order.

    Attributes
    ----------
    pieces, gone
        As those of :func:`goldwatch.store.row_transfer.changed_lines`.
    notes
        Of the files that were compared.
    files
        What is known of each.
    omitted
        (tensor, reason) of what has no row.
    earlier
        How many earlier dumps of which ops do not count.
    pairs
        How many pairs were compared.
    size_bytes, seconds
        Of the tensors that were compared, and how long that took.
    """

    pieces: Tuple[bytes, ...]
    gone: Tuple[str, ...]
    notes: Tuple[Note, ...]
    files: Tuple[FileState, ...]
    omitted: Tuple[Tuple[str, str], ...]
    earlier: Dict[str, int]
    pairs: int
    size_bytes: int
    seconds: float
