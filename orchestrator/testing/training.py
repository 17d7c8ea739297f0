"""A training run on the stand-in of a device: several models, devices and steps, GE's graphs, and
golden data of each step.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import compose_golden_name
from .device_dump import DeviceDump, write_files
from .device_model import FIRST_TIMESTAMP_US, DeviceModel, DeviceOp, DeviceTensor

Array = Any

_STEP_US = 60 * 1000 * 1000
_ROWS, _COLUMNS = 8, 20
_FACTOR = 1.5


@dataclass(frozen=True)
class Wrong:
    """An op that is computed wrong, with all that comes behind it.

    Attributes
    ----------
    op
        Its name, such as ``part0/MatMul``.
    device
        On this device only; None: on all.
    from_step
        In this step and all later ones.
    to_step
        Up to this step; None: to the last.
    """

    op: str
    device: Optional[int] = None
    from_step: int = 0
    to_step: Optional[int] = None

    def concerns(self, op: str, device: int, step: int) -> bool:
        """Tell whether an op is computed wrong there."""
        is_in_steps = step >= self.from_step and (self.to_step is None or step <= self.to_step)
        return op == self.op and self.device in (None, device) and is_in_steps


@dataclass(frozen=True)
class Training:
    """Models of four ops each, part{N}/IteratorGetNext (of the first only; else part{N}/Fill) ->
    Mul -> MatMul -> Relu, in float16.

    The first model reads the training data. The values are others in each step, and the same on
    each device but for ``wrong`` ones.

    Attributes
    ----------
    models
        Their names: the model_name folders.
    devices
        How many.
    steps
        The dump steps.
    seed
        Decides the values.
    wrong
        What is computed wrong.
    time
        The time folder.
    mode
        What is dumped, as dump_mode says it: ``all``, ``input`` or ``output``.
    """

    models: Tuple[str, ...] = ("ge_default_20260102030405_11", "ge_default_20260102030405_21")
    devices: int = 2
    steps: Tuple[int, ...] = (1, 2, 10)
    seed: int = 0
    wrong: Tuple[Wrong, ...] = ()
    time: str = "20260102030405"
    mode: str = "all"

    def __post_init__(self) -> None:
        names = [name for number in range(len(self.models)) for name in self._op_names(number)]
        for wrong in self.wrong:
            if wrong.op not in names:
                raise UsageError(
                    "there is no op %s to compute wrong" % wrong.op,
                    hint="ops: %s" % ", ".join(names),
                )

    @staticmethod
    def _op_names(number: int) -> List[str]:
        first = "Fill" if number else "IteratorGetNext"
        return ["part%d/%s" % (number, name) for name in (first, "Mul", "MatMul", "Relu")]

    def golden(self, step: int) -> Iterator[Tuple[str, Array]]:
        """Yield each op's name and its exact float32 values in a step."""
        for number in range(len(self.models)):
            yield from self._values(number, step).items()

    def _values(self, number: int, step: int) -> Dict[str, Array]:
        random = np.random.RandomState((self.seed * 1000003 + number * 9973 + step) % 2**32)
        batch = random.standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
        weights = (
            np.random.RandomState(self.seed + number)
            .standard_normal((_COLUMNS, _COLUMNS))
            .astype(np.float32)
            / 4
        )
        values: List[Array] = [batch, batch * 2]
        values.append(values[1] @ weights)
        values.append(np.maximum(values[2], 0))
        return dict(zip(self._op_names(number), values))

    def model(self, number: int, device: int = 0, step: Optional[int] = None) -> DeviceModel:
        """Return one model with the values of a device and step (the first by default)."""
        step = self.steps[0] if step is None else step
        model = DeviceModel(self.models[number])
        source: Tuple[Tuple[str, int], ...] = ()
        factor = 1.0
        types = ("Fill" if number else "GetNext", "Mul", "MatMul", "Relu")
        for (name, values), kind in zip(self._values(number, step).items(), types):
            if any(wrong.concerns(name, device, step) for wrong in self.wrong):
                factor *= _FACTOR
            layout = "FRACTAL_NZ" if kind == "MatMul" else "ND"
            tensor = DeviceTensor((values * factor).astype(np.float16), layout, "ND", name)
            model.add(DeviceOp(name, kind, source, (tensor,), (name,)))
            source = ((name, 0),)
        model.add(DeviceOp("Node_Output", "NetOutput", source, (), ()))
        return model

    def dumps(
        self,
        device: int,
        models: Optional[Sequence[int]] = None,
        steps: Optional[Sequence[int]] = None,
    ) -> Iterator[DeviceDump]:
        """Yield the dump files of a device, step by step; a minute lies between two steps. By
        default of all models and steps.
        """
        for step in self.steps if steps is None else steps:
            for number in range(len(self.models)) if models is None else models:
                first_us = FIRST_TIMESTAMP_US + step * _STEP_US + 1000 * 1000 * number
                dumps = self.model(number, device, step).dumps(
                    self.time, device, number + 1, step, first_us
                )
                yield from (dump.only(self.mode) for dump in dumps)

    def write_tree(self, root: str, **some: Any) -> List[str]:
        """Write whole dump files below ``root/{time}/{device}/{model}/{model_id}/{step}/``;
        ``some`` as for :meth:`dumps`.
        """
        return write_files(
            root, (dump for device in range(self.devices) for dump in self.dumps(device, **some))
        )

    def write_graphs(self, folder: str, models: Optional[Sequence[int]] = None) -> List[str]:
        """Write ``ge_proto_0000000N_Build.txt`` of each model; return the paths."""
        os.makedirs(folder, exist_ok=True)
        numbers = range(len(self.models)) if models is None else models
        return [
            self.model(number).write_ge_text(
                os.path.join(folder, "ge_proto_%08d_Build.txt" % (number + 1))
            )
            for number in numbers
        ]

    def write_golden(self, folder: str, steps: Optional[Sequence[int]] = None) -> None:
        """Write ``folder/{step}/{op}.0.{timestamp}.npy`` of each op and step."""
        for step in self.steps if steps is None else steps:
            step_folder = os.path.join(folder, str(step))
            os.makedirs(step_folder, exist_ok=True)
            for name, values in self.golden(step):
                np.save(
                    os.path.join(
                        step_folder,
                        compose_golden_name(name, 0, FIRST_TIMESTAMP_US + step * _STEP_US),
                    ),
                    values,
                )

    def write(self, folder: str) -> None:
        """Write dump/, graphs/ and golden/ into a folder."""
        self.write_tree(os.path.join(folder, "dump"))
        self.write_graphs(os.path.join(folder, "graphs"))
        self.write_golden(os.path.join(folder, "golden"))
