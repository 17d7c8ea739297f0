"""The parent's side: one child process runs all pieces; after a crash it is started again behind
the piece that crashed.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ...base.errors import EnvironmentProblem, Interrupted
from ...base.fast_dataclasses import dataclass
from ..child.parent import Task, run_child

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Piece:
    """Some layers or nodes of a model that are run once.

    Attributes
    ----------
    title
        Its name in messages.
    inputs
        Name of each input (a blob, ``node:index``) to the .npy file of its values, the type that
        they are to have, and the shape.
    outputs
        For each output: (layer or node, number of the output, .npy file to write, type to round
        to).
    text
        A Caffe piece's prototxt; else empty.
    nodes
        The names of its nodes.
    """

    title: str
    inputs: Mapping[str, Tuple[str, str, Tuple[int, ...]]]
    outputs: Sequence[Tuple[str, int, str, str]]
    text: str = ""
    nodes: Tuple[str, ...] = ()

    def document(self, number: int) -> Dict[str, Any]:
        """Return the piece as the child receives it."""
        inputs = {
            name: [path, dtype, list(shape)] for name, (path, dtype, shape) in self.inputs.items()
        }
        outputs = [list(output) for output in self.outputs]
        return {
            "number": number,
            "inputs": inputs,
            "outputs": outputs,
            "text": self.text,
            "nodes": list(self.nodes),
        }


class PieceRunner(ABC):
    """Runs parts of a model in its framework, in a child process.

    Attributes
    ----------
    name
        The framework's name, for messages.
    notes
        What the user is to know of it.
    """

    name: str
    notes: List[str]

    @abstractmethod
    def _task(self, documents: List[Dict[str, Any]], folder: str) -> Task:
        """Return the child's task: the pieces' documents, and a folder for temporary files."""

    def run(self, pieces: Sequence[Piece], folder: str, progress: Progress) -> Dict[int, str]:
        """Run the pieces, which write their outputs into the files that they name.

        Parameters
        ----------
        folder
            An existing folder for temporary files.
        progress
            Called with (pieces done, pieces in all).

        Returns
        -------
        dict
            Number of each piece that could not be run to the reason.

        Raises
        ------
        GoldwatchError
            The framework cannot be started, or cannot load the model.
        Interrupted
            Ctrl-C.
        """
        failed: Dict[int, str] = {}
        first = attempt = 0
        while first < len(pieces):
            here = os.path.join(folder, "child%d" % attempt)
            os.mkdir(here)
            attempt += 1
            documents = [piece.document(number) for number, piece in enumerate(pieces)][first:]
            outcome = run_child(
                self._task(documents, here), here, partial(_behind, progress, first, len(pieces))
            )
            if outcome.interrupted:
                raise Interrupted(
                    "interrupted", hint="nothing was compared so far; the same command begins anew"
                )
            failed.update(
                {
                    int(kind.split()[1]): text
                    for kind, text in outcome.messages.items()
                    if kind.startswith("failed ")
                }
            )
            if "result" in outcome.messages and outcome.returncode == 0:
                return failed
            began = outcome.messages.get("began")
            problem = outcome.problem(self.name, "the message is the framework's own")
            if (
                began is None
                or outcome.own_error is not None
                or isinstance(problem, EnvironmentProblem)
            ):
                raise problem
            failed[began] = problem.message
            first = began + 1
        return failed


def _behind(progress: Progress, first: int, total: int, done: int, _left: int) -> None:
    progress(first + done, total)
