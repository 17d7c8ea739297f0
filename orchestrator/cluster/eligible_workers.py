"""Which workers may compare: those with our versions that see the run's files under the same paths
as this machine.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ..base.errors import InputError
from ..base.notes import note
from ..base.wording import listed
from ..dumps.dump_tree import DumpTree
from ..run.comparison_options import ComparisonOptions
from .checked_connection import unlike
from .file_probes import FileProbe, file_probe, first_file, probed, unseen
from .requests_with_timeout import run_each, threads_of

_SHOWN = 4


class EligibleWorkers:
    """The workers that see TARGET, GOLDEN, the models and the scripts; the others get no work.

    Parameters
    ----------
    client
        ``distributed.Client``.
    say
        Called with a warning as soon as it is known.
    aside
        Workers that are known to have other versions, each with a sentence; the others that are
        there have ours.
    """

    def __init__(self, client: Any, say: Callable[[str], None], aside: Mapping[str, str]) -> None:
        self._client, self.say = client, say
        self.probes: List[FileProbe] = []
        self._excluded: Dict[str, str] = dict(aside)
        self._contacted: Set[str] = set(aside)
        self._alike = set(threads_of(client)) - self._contacted

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return the files of TARGET, once some worker is known to see them too.

        Raises
        ------
        InputError
            No worker sees them.
        """
        tree = options.target_index.tree(options.time)
        self.probes = [*_probes_of_inputs(options), *_probes_of_devices(tree)]
        reasons = list(self._excluded.values())
        reasons += self._ask_new_workers()
        if reasons and len(self._excluded) == len(self._contacted):
            raise InputError(
                "no worker sees the files: %s" % self.reasons,
                hint="they must lie under the same paths on their machines",
            )
        self._warn(reasons)
        return tree

    def addresses(self) -> Optional[List[str]]:
        """Return the addresses of the workers that may compare; None: all may."""
        return sorted(self._contacted - self._excluded.keys()) if self._excluded else None

    @property
    def reasons(self) -> str:
        """Why the workers that get no work do not get any."""
        return listed(list(self._excluded.values()), _SHOWN, "; ")

    def exclude(self, worker: str, reason: str) -> None:
        """Exclude a worker from further work."""
        if worker not in self._excluded:
            self._excluded[worker] = reason
            self._warn([reason])

    def renew(self) -> None:
        """Ask workers that have come since."""
        self._warn(self._ask_new_workers())

    def _ask_new_workers(self) -> List[str]:
        """Return a reason for each new worker that has other versions or does not see
        everything.
        """
        new = [worker for worker in threads_of(self._client) if worker not in self._contacted]
        aside = unlike(self._client, [worker for worker in new if worker not in self._alike])
        self._contacted.update(aside)
        self._excluded.update(aside)
        reasons = list(aside.values())
        new = [worker for worker in new if worker not in aside]
        for worker, numbers in run_each(self._client, new, unseen, tuple(self.probes)).items():
            if isinstance(numbers, Exception):
                raise numbers
            self._contacted.add(worker)
            if numbers:
                reason = "worker %s does not see %s" % (worker, probed(self.probes, numbers))
                reasons.append(self._excluded.setdefault(worker, reason))
        return reasons

    def warn_of_gone(self, workers: Iterable[str]) -> None:
        """Warn of eligible workers that have gone."""
        for worker in workers:
            if worker not in self._excluded:
                self.say(note("worker-gone", worker))

    def _warn(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            self.say(note("worker-unused", reason))


def _probes_of_inputs(options: ComparisonOptions) -> Iterator[FileProbe]:
    """Yield a file of GOLDEN, and the models and scripts."""
    golden = first_file(options.golden)
    if golden is not None:
        yield file_probe("GOLDEN (%s)" % options.golden, golden)
    for path in (*options.models, *options.user_code.scripts):
        file = first_file(path) if os.path.isdir(path) else os.path.abspath(path)
        if file is not None:
            yield file_probe(path, file)


def _probes_of_devices(tree: DumpTree) -> Iterator[FileProbe]:
    """Yield a file of each device folder of TARGET."""
    devices: Set[Tuple[Any, ...]] = set()
    for step_folder in tree.step_folders:
        if step_folder.place[:2] not in devices and step_folder.files:
            devices.add(step_folder.place[:2])
            yield file_probe(
                "TARGET (%s)" % step_folder.files[0].rel, os.path.abspath(step_folder.files[0].path)
            )
