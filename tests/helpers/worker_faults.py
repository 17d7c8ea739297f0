"""Faults planted into the workers of a cluster, including those started later."""

from __future__ import annotations

import contextlib
import os
import signal

from distributed.diagnostics.plugin import WorkerPlugin


class DiesComparing(WorkerPlugin):
    """The worker's own process ends as soon as it compares an op (``once``: a path; only the first
    that can make it); no other does.
    """

    def __init__(self, op, once=None):
        self.op, self.once = op, once

    def due(self):
        try:
            return self.once is None or os.mkdir(self.once) is None
        except FileExistsError:
            return False

    def setup(self, worker):
        from goldwatch.run import workers

        compare = workers.compare_pairs

        def fatal(tasks, *rest):
            if any(task.row.op == self.op for task in tasks) and self.due():
                os.kill(os.getpid(), signal.SIGKILL)
            return compare(tasks, *rest)

        def submit(self, tasks, here=False):
            workers.compare_pairs = compare if self._apart else fatal
            submit_as_ever(self, tasks, here)

        submit_as_ever = workers.Workers.submit
        workers.Workers.submit = submit


class DiesPlanning(WorkerPlugin):
    """The worker's process ends as soon as it looks into a file whose path holds a text."""

    def __init__(self, text):
        self.text = text

    def setup(self, worker):
        from goldwatch.run.compare_folders import Session

        plan = Session._plan

        def fatal(session, file):
            if self.text in file.path:
                os.kill(os.getpid(), signal.SIGKILL)
            return plan(session, file)

        Session._plan = fatal


class Gate:
    """Where workers wait, each as soon as it comes there, until it is opened for good, by its
    block's end at the latest; a FIFO's path.
    """

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()

    def wait(self):
        """Wait; a file beside the FIFO says that somebody does."""
        open(self.path + ".waiting", "w").close()
        # Opening a FIFO takes until it is opened for writing too.
        with contextlib.suppress(FileNotFoundError), open(self.path):
            pass

    def reached(self):
        return os.path.exists(self.path + ".waiting")

    def open(self):
        with contextlib.suppress(FileNotFoundError):
            writer = os.open(self.path, os.O_RDWR)
            os.remove(self.path)
            os.close(writer)


class Waits(WorkerPlugin):
    """The workers compare nothing until a gate is opened."""

    def __init__(self, gate):
        self.gate = gate

    def setup(self, worker):
        from goldwatch.cluster import worker_comparison

        compare = worker_comparison.OpenRun._compare

        def waits(itself, order):
            self.gate.wait()
            return compare(itself, order)

        worker_comparison.OpenRun._compare = waits


class Freezes(WorkerPlugin):
    """The first worker that is to compare stops its parent, the scheduler's process."""

    def setup(self, worker):
        from goldwatch.cluster import worker_comparison

        def freezes(itself, order):
            os.kill(os.getppid(), signal.SIGSTOP)

        worker_comparison.OpenRun._compare = freezes


class Blind(WorkerPlugin):
    """The worker of a name sees none of the files whose path holds a text."""

    def __init__(self, name, text):
        self.name, self.text = name, text

    def setup(self, worker):
        if str(worker.name) != self.name:
            return
        from goldwatch.cluster import file_probes

        look = file_probes._digest
        file_probes._digest = lambda path: "" if self.text in path else look(path)


class Forgets(WorkerPlugin):
    """The workers see GOLDEN when they are asked, and no more when they are to compare."""

    def setup(self, worker):
        from goldwatch.cluster import file_probes, worker_comparison

        def forgets(probes, address):
            raise file_probes.NotSeen("worker %s does not see GOLDEN" % address, address)

        worker_comparison.require_seen = forgets


class OtherVersion(WorkerPlugin):
    """The worker of this address has another goldwatch as soon as it is to compare."""

    def __init__(self, address):
        self.address = address

    def setup(self, worker):
        if worker.address == self.address:
            from goldwatch.cluster import worker_comparison

            worker_comparison.__version__ = "0.0.1"


class Leaves(WorkerPlugin):
    """The workers of these names leave for good as soon as they have compared something."""

    def __init__(self, *names):
        self.names = names

    def setup(self, worker):
        if str(worker.name) not in self.names:
            return
        from goldwatch.cluster import worker_comparison

        compare = worker_comparison.OpenRun._compare

        def leaves(itself, order):
            worker.loop.add_callback(worker.close)
            return compare(itself, order)

        worker_comparison.OpenRun._compare = leaves


@contextlib.contextmanager
def worker_fault(client, fault):
    """All workers, present and to come, have the fault."""
    register = getattr(client, "register_plugin", None) or client.register_worker_plugin
    register(fault, name="fault")
    yield


def version_of_another(version):
    """Say that the goldwatch of this process is of another version."""
    import goldwatch

    goldwatch.__version__ = version
    return os.getpid()


def version_after(gate):
    """Make this worker hang as soon as it is asked for goldwatch's version."""
    from goldwatch.cluster import checked_connection

    checked_connection.goldwatch_version = gate.wait


def shard_folders(dask_worker):
    """Return the folders that goldwatch has left on this worker's disk."""
    return [
        name for name in os.listdir(dask_worker.local_directory) if name.startswith("goldwatch-")
    ]
