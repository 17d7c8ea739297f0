"""A stand-in for an Ascend device: writes dump trees as the device does, for tests, the demo and users without a device.

``python -m goldwatch.testing --help`` does the same as a program.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dump import DeviceDump, Place, dump_name, overflow_record, recorded, statistics, write_files
    from .faults import Fault, quota
    from .model import DeviceModel, DeviceOp, DeviceTensor
    from .server import DumpServer, Event, Report
    from .synthetic import Network

_PLACES = {
    "DeviceDump": "dump",
    "DeviceModel": "model",
    "DeviceOp": "model",
    "DeviceTensor": "model",
    "DumpServer": "server",
    "Event": "server",
    "Fault": "faults",
    "Network": "synthetic",
    "Place": "dump",
    "Report": "server",
    "dump_name": "dump",
    "overflow_record": "dump",
    "quota": "faults",
    "recorded": "dump",
    "statistics": "dump",
    "write_files": "dump",
}

__all__ = [
    "DeviceDump",
    "DeviceModel",
    "DeviceOp",
    "DeviceTensor",
    "DumpServer",
    "Event",
    "Fault",
    "Network",
    "Place",
    "Report",
    "dump_name",
    "overflow_record",
    "quota",
    "recorded",
    "statistics",
    "write_files",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError("module %s has no attribute %s" % (__name__, name))
    return getattr(importlib.import_module("." + _PLACES[name], __name__), name)
