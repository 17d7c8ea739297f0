"""dump_data.proto: the messages of a dump file, in a private descriptor pool."""

from __future__ import annotations

from .loader import Messages, load_messages

__all__ = ["Messages", "load_messages"]
