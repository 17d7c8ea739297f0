"""The tensors of finished rows, read again on the workers that see them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any, Callable, Optional, Sequence

from ..comparing.patterns import MOST_ELEMENTS, AlignedPair, Walked
from ..engine.engine import Engine
from ..engine.target_file import TargetFile
from ..naming import whole_name
from ..verdict.explaining import TensorReader
from ..verdict.observations import ObservedOp
from ..verdict.seen import Observation
from .asking import is_there
from .messages import Order
from .session import age_of, read_pair, read_walked
from .workplaces import SharedDisk

_PATIENCE_S = 60


class RemoteReader(TensorReader):
    """Reads what a run has compared where its files lie.

    Parameters
    ----------
    client
        ``distributed.Client``.
    places
        Which workers see what.
    engine
        The run's.
    order_of
        Makes an order of files.
    """

    def __init__(self, client: Any, places: SharedDisk, engine: Engine, order_of: Callable[[Sequence[TargetFile]], Order]) -> None:
        self._client, self._places = client, places
        self._engine, self._order_of = engine, order_of
        self._silent = False

    def pair(self, op: ObservedOp, row: Observation, most: int = MOST_ELEMENTS) -> Optional[AlignedPair]:
        """Return a row's elements; None where no worker can read them any more."""
        found: Optional[AlignedPair] = self._ask(read_pair, op, row.tensor, most)
        return found

    def walked(self, op: ObservedOp, row: Observation, background: float) -> Optional[Walked]:
        """Look at every element of a row's tensors; None where no worker can read them any more."""
        found: Optional[Walked] = self._ask(read_walked, op, row.tensor, row.distance, background)
        return found

    def stale(self, op: ObservedOp) -> str:
        """Compare the dump file's time with the model file's, and with its time folder's."""
        return self._ask(age_of, op, op.place) or ""

    def _ask(self, function: Callable[..., Any], op: ObservedOp, *rest: Any) -> Any:
        known = self._engine.catalogue.files
        path = os.path.join(self._engine.catalogue.root, op.file)
        if path not in known or self._silent:
            return None
        folder, name = os.path.dirname(path), whole_name(known[path].op_name)[0]
        files = [file for file in known.within(folder) if whole_name(file.op_name)[0] == name]
        order = replace(self._order_of(files), iterations={file.rel: file.iteration for file in files})
        where = self._places.where(files)
        if where == []:
            return None
        try:
            return self._client.submit(function, order, op.file, *rest, workers=where, pure=False).result(_PATIENCE_S)
        except Exception as error:
            # A suspect without an explanation is better than no result.
            self._silent = isinstance(error, asyncio.TimeoutError) or not is_there(self._client)
            if self._silent:
                self._places.tell("warning: the cluster answers no more: suspects are not explained; the same command tries it again")
            return None
