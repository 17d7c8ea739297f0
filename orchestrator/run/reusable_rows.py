"""What a start finds in the store of an earlier one: which rows hold still."""

from __future__ import annotations

import os
from itertools import islice
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple

from ..dumps.folder_listing import look_at
from ..store.store import RunStore
from .target_file import DELETED, DELETED_PREFIX, GONE, OUTDATED, TargetFile

_AT_ONCE = 100


class ReusableRows:
    """The rows that were compared from files that have not changed since.

    They stay in the store, and are asked for file by file: of a million, objects took 0.6 KB each.

    Parameters
    ----------
    target, golden
        What the rows' files are relative to; TARGET absolute, links resolved.
    """

    def __init__(self, store: RunStore, target: str, golden: str) -> None:
        self._store, self._target = store, target
        self._other_golden = set(self._changed_golden(golden))

    def _changed_golden(self, golden: str) -> Iterator[str]:
        for files in _some(self._store.table.golden_files()):
            paths = [os.path.join(golden, file) for file in files]
            noted = self._store.files([os.path.realpath(path) for path in paths])
            for file, path in zip(files, paths):
                record, signature = noted.get(os.path.realpath(path)), look_at(path)
                if record is None or signature is None or record.state != signature.text:
                    yield file

    def changed_files(self, same: bool) -> Iterator[Tuple[str, str]]:
        """Yield each file whose rows do not hold, ``outdated``, and those that are no longer there
        though their rows hold, ``gone`` or, where we removed them, ``deleted``.

        Parameters
        ----------
        same
            Whether the rows were planned with the present models; if not, none hold.
        """
        for files in _some(self._store.table.compared_files()):
            paths = [os.path.join(self._target, file) for file in files]
            noted = self._store.files(paths)
            for file, path in zip(files, paths):
                signature = look_at(path)
                state = noted[path].state if path in noted else OUTDATED
                if (
                    not same
                    or state == OUTDATED
                    or (signature is not None and _compared_as(state) != signature.text)
                    or (signature is not None and self._with_other_golden(file))
                ):
                    yield path, OUTDATED
                elif signature is None:
                    yield path, DELETED if state.startswith(DELETED_PREFIX) else GONE

    def _with_other_golden(self, file: str) -> bool:
        return bool(self._other_golden) and not self._other_golden.isdisjoint(
            self._store.table.compared_of_file(file).values()
        )

    def rows(self, file: TargetFile) -> Mapping[str, Optional[str]]:
        """Return key and golden file of a file's rows, if it is as it was when they were stored."""
        if file.signature is None:
            return {}
        text = file.signature.text
        return self._store.table.compared_of_file(
            file.rel, file.path, (text, DELETED_PREFIX + text)
        )


def _some(files: Iterator[str]) -> Iterator[List[str]]:
    return iter(lambda: list(islice(files, _AT_ONCE)), [])


def _compared_as(state: str) -> str:
    """Return the text of the signature that a file was compared with."""
    return state[len(DELETED_PREFIX) :] if state.startswith(DELETED_PREFIX) else state


def same_model(store: RunStore, models: Sequence[str]) -> bool:
    """Tell whether the model files are those that the stored rows were planned with; note the
    present ones.
    """
    signatures = [look_at(model) for model in models]
    now = (
        " ".join("" if signature is None else signature.text for signature in signatures)
        if signatures
        else None
    )
    before = store.get("model_file")
    if before != now:
        store.set("model_file", now)
    return bool(before == now)
