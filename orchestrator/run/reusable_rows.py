"""What a start finds in the store of an earlier one: which rows hold still."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ..base.fast_dataclasses import dataclass
from ..dumps.folder_listing import look_at
from ..metrics.row import FAIL, PASS
from ..store.row_sql import row_key
from ..store.store import RunStore
from .target_file import DELETED_PREFIX, OUTDATED, TargetFile


@dataclass
class ReusableRows:
    """The rows that hold still.

    Attributes
    ----------
    valid
        By target file (relative): its signature's text, and the golden file of each row by key.
    with_rows
        The target files that have rows.
    gone
        Path and whether we deleted it, of target files that were compared and are no longer there.
    outdated
        Paths of files whose rows do not hold.
    """

    valid: Dict[str, Tuple[str, Dict[str, Optional[str]]]] = field(default_factory=dict)
    with_rows: Set[str] = field(default_factory=set)
    gone: List[Tuple[str, bool]] = field(default_factory=list)
    outdated: Set[str] = field(default_factory=set)

    def take(self, file: TargetFile) -> Dict[str, Optional[str]]:
        """Return key and golden file of a file's rows, if it is as it was when they were stored;
        once.
        """
        if not self.valid:
            return {}
        text, rows = self.valid.pop(file.rel, ("", {}))
        return rows if file.signature is not None and file.signature.text == text else {}


def reusable_rows(store: RunStore, target: str, golden: str) -> ReusableRows:
    """Return which rows were compared from files that have not changed since; files that have gone
    cannot have changed.

    Parameters
    ----------
    target, golden
        What the rows' files are relative to; TARGET absolute, links resolved.
    """
    noted = store.files()
    files: Dict[str, Tuple[bool, bool, str]] = {}
    golden_files: Dict[str, bool] = {}
    result = ReusableRows()
    for row in store.rows("arrival"):
        rel = row.target_file
        if rel is None:
            continue
        result.with_rows.add(rel)
        if row.verdict not in (PASS, FAIL):
            continue
        path = os.path.join(target, rel)
        if path not in files:
            files[path] = _judge(path, noted, result)
        valid, there, text = files[path]
        if valid and there and row.golden_file is not None:
            valid = _unchanged(os.path.join(golden, row.golden_file), noted, golden_files)
        if valid:
            result.valid.setdefault(rel, (text, {}))[1][row_key(row)] = row.golden_file
        else:
            result.outdated.add(path)
    return result


def _judge(path: str, noted: Any, result: ReusableRows) -> Tuple[bool, bool, str]:
    """Return whether a target file is as it was compared, whether it is there, and its signature's
    text.
    """
    record, signature = noted.get(path), look_at(path)
    state = record.state if record is not None else OUTDATED
    deleted = state.startswith(DELETED_PREFIX)
    text = state[len(DELETED_PREFIX) :] if deleted else state
    valid = state != OUTDATED and (signature is None or signature.text == text)
    if valid and signature is None:
        result.gone.append((path, deleted))
    return valid, signature is not None, text


def _unchanged(path: str, noted: Any, known: Dict[str, bool]) -> bool:
    if path not in known:
        record, signature = noted.get(os.path.realpath(path)), look_at(path)
        known[path] = (
            record is not None and signature is not None and record.state == signature.text
        )
    return known[path]


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
