"""Dataclasses whose methods are shared and written late behave as the standard library's."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Dict, List, Tuple

import pytest

from goldwatch.base import fast_dataclasses


@fast_dataclasses.dataclass(frozen=True)
class Fast:
    name: str
    sizes: Tuple[int, ...] = ()
    found: List[int] = dataclasses.field(default_factory=list, compare=False)
    known: Dict[str, int] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    rank: int = dataclasses.field(default=7, init=False)

    def __post_init__(self):
        if self.name == "":
            raise ValueError("no name")


@dataclasses.dataclass(frozen=True)
class Plain:
    name: str
    sizes: Tuple[int, ...] = ()
    found: List[int] = dataclasses.field(default_factory=list, compare=False)
    known: Dict[str, int] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    rank: int = dataclasses.field(default=7, init=False)

    def __post_init__(self):
        if self.name == "":
            raise ValueError("no name")


@fast_dataclasses.dataclass(frozen=True)
class FastOne(Fast):
    last: float = 0.5


@dataclasses.dataclass(frozen=True)
class PlainOne(Plain):
    last: float = 0.5


@fast_dataclasses.dataclass
class FastChanging:
    number: int = 0
    double: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.double = 2 * self.number


@fast_dataclasses.keyword_dataclass
class ByName:
    first: int = 1
    needed: str


@pytest.mark.parametrize("fast, plain", [(Fast, Plain), (FastOne, PlainOne)])
def test_a_fast_dataclass_is_as_a_plain_one(fast, plain) -> None:
    for values, named in ((("a",), {}), (("a", (1, 2)), {}), (("a",), {"found": [3]})):
        made, right = fast(*values, **named), plain(*values, **named)
        assert dataclasses.astuple(made) == dataclasses.astuple(right)
        assert repr(made) == repr(right).replace(plain.__name__, fast.__name__)
        assert (hash(made) == hash(fast(*values))) and hash(right) == hash(plain(*values))
        assert pickle.loads(pickle.dumps(made)) == made
        assert vars(pickle.loads(pickle.dumps(made))) == vars(made)
        other = dataclasses.replace(made, sizes=(9,))
        assert other != made and other == fast("a", (9,)) and made != right
    assert fast("a", found=[1]) == fast("a", found=[2])
    assert fast("a").found is not fast("a").found and fast("a").known is not fast("a").known


@pytest.mark.parametrize("made", [Fast, Plain])
def test_a_frozen_one_is_not_changed_and_what_does_not_fit_is_refused(made) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        made("a").name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made("a").name
    for wrong in ({}, {"name": "a", "known": {}}, {"name": "a", "rank": 1}, {"title": "a"}):
        with pytest.raises(TypeError):
            made(**wrong)
    with pytest.raises(ValueError, match="no name"):
        made("")


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    made = FastChanging(3)
    assert (made.number, made.double) == (3, 6)
    made.number, made.double = 4, 8
    assert made == FastChanging(4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_fields_by_name_stand_in_any_order() -> None:
    assert ByName(needed="a") == ByName(first=1, needed="a")
    with pytest.raises(TypeError):
        ByName(1, "a")
    with pytest.raises(TypeError):
        ByName(first=2)
