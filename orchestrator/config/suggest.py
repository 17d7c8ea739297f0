"""Did you mean: the nearest known names to a misspelt one."""

from __future__ import annotations

import difflib
from typing import Dict, List, Optional, Sequence

import numpy as np

MAX_SUGGESTIONS = 20
_LETTERS = 32
_PAIRS = 64
_CANDIDATES = 40
_CUTOFF = 0.6


def nearest_word(word: str, words: Sequence[str]) -> Optional[str]:
    """Return the most similar of a few words, or None; differences of case and of ``-`` for ``_`` count nothing."""
    plain = {_plain(known): known for known in words}
    if _plain(word) in plain:
        return plain[_plain(word)]
    found = difflib.get_close_matches(_plain(word)[:100], list(plain), 1, _CUTOFF)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")


class NameIndex:
    """Finds near names among many (tens of thousands) in milliseconds, at most ``MAX_SUGGESTIONS`` times.

    Names are counted by letter and by pair of letters; the few whose counts are nearest are compared letter by letter.
    """

    def __init__(self, names: Sequence[str], limit: int = MAX_SUGGESTIONS) -> None:
        self._names = list(dict.fromkeys(names))
        self._left = limit
        self._counts: Optional[np.ndarray] = None
        self._squares: np.ndarray = np.zeros(0)
        self._plain: Dict[str, str] = {}

    def nearest(self, name: str) -> Optional[str]:
        """Return the most similar known name, or None when none is similar or the limit is used up."""
        if self._left <= 0 or not self._names:
            return None
        self._left -= 1
        if self._counts is None:
            self._counts = _letter_counts(self._names)
            self._squares = np.einsum("ij,ij->i", self._counts, self._counts)
            self._plain = {_plain(known): known for known in self._names}
        if _plain(name) in self._plain:
            return self._plain[_plain(name)]
        # Squared distance of the counts, but for a constant; einsum, since BLAS would start threads.
        distance = self._squares - 2 * np.einsum("ij,j->i", self._counts, _letter_counts([name])[0])
        order = np.argsort(distance, kind="stable")[:_CANDIDATES]
        candidates: List[str] = [self._names[index][:300] for index in order]
        found = difflib.get_close_matches(name[:300], candidates, 1, _CUTOFF)
        return self._names[order[candidates.index(found[0])]] if found else None


def _letter_counts(names: Sequence[str]) -> np.ndarray:
    """Return float32 counts, shape (names, letters + pairs): hashed letters, then hashed pairs of letters."""
    raw = [name.encode("utf-8", "replace")[:300] for name in names]
    lengths = np.array([len(item) for item in raw], dtype=np.int64)
    letters = np.frombuffer(b"".join(raw), dtype=np.uint8).astype(np.int64)
    rows = np.repeat(np.arange(len(raw), dtype=np.int64), lengths)
    width = _LETTERS + _PAIRS
    single = rows * width + letters % _LETTERS
    same = rows[1:] == rows[:-1]
    pairs = (rows[1:] * width + _LETTERS + (letters[:-1] * 31 + letters[1:]) % _PAIRS)[same]
    counts = np.bincount(np.concatenate([single, pairs]), minlength=len(raw) * width)
    result: np.ndarray = counts.reshape(len(raw), width).astype(np.float32)
    return result
