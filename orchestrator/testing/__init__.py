"""A stand-in for an Ascend device: writes dump trees as the device does, for tests, the demo and
users without a device.

``python -m goldwatch.testing --help`` does the same as a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_imports import imported_when_used

if TYPE_CHECKING:
    from .caffe_device import CaffeNetwork
    from .device_dump import (
        DeviceDump,
        Place,
        dump_name,
        overflow_record,
        recorded,
        statistics,
        write_files,
    )
    from .device_model import DeviceModel, DeviceOp, DeviceTensor
    from .dump_server import DumpServer, Event, Report
    from .op_faults import OpFault
    from .runner_outputs import write_outputs
    from .statistics_files import as_statistics, statistics_dump
    from .synthetic_chain import Network
    from .torchair import TorchAirGraph
    from .training import Training, Wrong
    from .write_faults import Fault, quota

__all__ = [
    "CaffeNetwork",
    "DeviceDump",
    "DeviceModel",
    "DeviceOp",
    "DeviceTensor",
    "DumpServer",
    "Event",
    "Fault",
    "Network",
    "OpFault",
    "Place",
    "Report",
    "TorchAirGraph",
    "Training",
    "Wrong",
    "as_statistics",
    "dump_name",
    "overflow_record",
    "quota",
    "recorded",
    "statistics",
    "statistics_dump",
    "write_files",
    "write_outputs",
]

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        caffe_device=("CaffeNetwork",),
        device_dump=(
            "DeviceDump",
            "Place",
            "dump_name",
            "overflow_record",
            "recorded",
            "statistics",
            "write_files",
        ),
        write_faults=("Fault", "quota"),
        device_model=("DeviceModel", "DeviceOp", "DeviceTensor"),
        op_faults=("OpFault",),
        runner_outputs=("write_outputs",),
        dump_server=("DumpServer", "Event", "Report"),
        statistics_files=("as_statistics", "statistics_dump"),
        synthetic_chain=("Network",),
        torchair=("TorchAirGraph",),
        training=("Training", "Wrong"),
    )
