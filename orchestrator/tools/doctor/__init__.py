"""What of this installation and this machine may keep goldwatch from working: looked at, never
mended.
"""

from __future__ import annotations

from .collect_facts import diagnose

__all__ = ["diagnose"]
