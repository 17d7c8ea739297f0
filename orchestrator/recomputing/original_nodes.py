"""What the nodes of original models have in common for :mod:`goldwatch.operators`: a node, and the
source of each of its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from ..operators import Node

Array = Any
Argument = Union[Tuple[int, int], Array, None]
"""Source of a node's input: (number of its producer, output), an array of the model, or None.
"""


class Call(NamedTuple):
    """A node and its inputs; for a constant its value."""

    node: Node
    arguments: List[Argument]
    constant: Optional[Array] = None


class Nodes(ABC):
    """The nodes of an original model by number."""

    @abstractmethod
    def call(self, number: int) -> Call:
        """Return a node by its number in the original.

        Raises
        ------
        NotComputable
            It has a body, is of another domain, or needs more than arrays.
        FormatError, InputError, MissingPath
            The model's data cannot be read.
        """
