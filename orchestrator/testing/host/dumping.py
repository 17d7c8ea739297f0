"""The dumps of a run on the stand-in's device, as acl.json asks for them."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Dict, Optional

from ...config.dump_plan import DumpPlan, ModelDump
from ...tensors.tensor import Tensor
from ..device_dump import DeviceDump
from ..device_model import DeviceModel
from ..dump_server import DumpServer
from ..statistics_files import statistics_dump
from .host_config import HostConfig


class Dumping:
    """Writes the dumps of one process; its runs share a time folder.

    Parameters
    ----------
    plan
        What acl.json says; None: nothing is dumped.
    host
        Whose faults concern the files.
    """

    def __init__(self, plan: Optional[DumpPlan], host: HostConfig) -> None:
        self._plan, self._host = plan, host
        self._runs: Dict[int, int] = {}
        self._stamp = ""

    def write(self, model: DeviceModel, device: int, number: int) -> None:
        """Write the dumps of a run; the folder of each further run of a model has the next number.

        Parameters
        ----------
        model
            The ops with their tensors; called as the om's file.
        number
            By which the model was loaded.
        """
        plan = self._plan
        step = self._runs[number] = self._runs.get(number, -1) + 1
        chosen = self._chosen(model.name)
        if (
            plan is None
            or chosen is None
            or plan.dump_path is None
            or not _names_step(plan.step, step)
        ):
            return
        now = time.time()
        self._stamp = self._stamp or time.strftime("%Y%m%d%H%M%S", time.localtime(now))
        layers = set(chosen.layers)
        originals = {op.name: {op.name, *(op.originals or ())} for op in model.ops}
        dumps = [
            dump.only(plan.mode or "output")
            for dump in model.dumps(
                self._stamp, device, number, step, first_timestamp_us=int(now * 1e6)
            )
            if not layers or originals[dump.op_name] & layers
        ]
        if plan.data == "stats":
            dumps = [_statistics(dump) for dump in dumps]
        crashes = self._host.has("crash")
        if crashes:
            most = self._host.number("crash")
            dumps = dumps[: len(dumps) // 2 if most is None else most]
        DumpServer(
            plan.dump_path, dumps, delay_s=self._host.delay_s, faults=self._host.file_faults()
        ).run()
        if crashes:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSEGV)

    def _chosen(self, name: str) -> Optional[ModelDump]:
        """Return what is dumped of a model: an entry without a name, or with that of the om's
        file.
        """
        if self._plan is None or self._plan.debug:
            return None
        return next(
            (model for model in self._plan.models or () if model.name in (None, name)), None
        )


def _names_step(steps: Optional[str], step: int) -> bool:
    """Tell whether dump_step, such as ``0|5-10``, names a step; without it all are meant."""
    parts = [part.partition("-") for part in (steps or "").split("|") if part]
    return not parts or any(int(first) <= step <= int(last or first) for first, _, last in parts)


def _statistics(dump: DeviceDump) -> DeviceDump:
    tensors = [("input", n, Tensor.from_array(t.data, t.format)) for n, t in enumerate(dump.inputs)]
    tensors += [
        ("output", n, Tensor.from_array(t.data, t.format)) for n, t in enumerate(dump.outputs)
    ]
    return statistics_dump(dump.folder, dump.name + ".csv", tensors)
