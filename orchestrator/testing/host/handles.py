"""What the stand-in's AscendCL hands out as numbers: memory by its address, and everything else by
a handle.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Tuple

from .loaded_model import LoadedModel


class Memory:
    """What was allocated, by address."""

    def __init__(self) -> None:
        self._blocks: Dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        """Return the address of a new block."""
        block = ctypes.create_string_buffer(max(1, size))
        address = ctypes.addressof(block)
        self._blocks[address] = block
        return address

    def free(self, address: int) -> bool:
        """Give a block back; tell whether there was one."""
        return self._blocks.pop(address, None) is not None

    def holds(self, address: int, size: int) -> bool:
        """Tell whether so many bytes from an address on lie in one block."""
        return any(
            start <= address and address + size <= start + len(block)
            for start, block in self._blocks.items()
        )


class Objects:
    """Things that are handed out as numbers."""

    def __init__(self) -> None:
        self._things: Dict[int, Any] = {}
        self._next = 0x10000

    def add(self, thing: Any) -> int:
        """Return the number by which a thing is known from now on."""
        self._next += 0x100
        self._things[self._next] = thing
        return self._next

    def get(self, number: int, kind: Any) -> Any:
        """Return a thing of a kind; None where there is none such."""
        thing = self._things.get(number)
        return thing if isinstance(thing, kind) else None

    def remove(self, number: int) -> bool:
        """Forget a thing; tell whether there was one."""
        return self._things.pop(number, None) is not None


class Buffer:
    """A data buffer: an address and its bytes."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size


class TensorDesc:
    """Type and shape of a tensor."""

    def __init__(self, dtype: int, shape: List[int]) -> None:
        self.dtype, self.shape = dtype, list(shape)


class Dataset:
    """The buffers of a run's inputs or outputs, and what was told of their shapes."""

    def __init__(self) -> None:
        self.buffers: List[int] = []
        self.descs: Dict[int, TensorDesc] = {}
        self.gear: Optional[Tuple[int, ...]] = None


class ModelDesc:
    """The description of a model, and the shapes of the outputs of its last run."""

    loaded: Optional[LoadedModel] = None
    shapes: Optional[List[Tuple[int, ...]]] = None
