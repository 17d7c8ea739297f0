"""A failing row of a training whose dumps hold outputs only is final in its own step, so that the
command and the stop of ``--on-divergence`` and ``--stop-on-divergence`` act then.
"""

from __future__ import annotations

import os

import pytest

from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions
from goldwatch.testing.training import Training, Wrong

MODELS = ("ge_default_20260102030405_11",)


class WatchedTraining:
    """A watch of a training, fed step by step with what a device writes in ``dump_mode``
    ``output``.
    """

    def __init__(self, folder, training, without=(), **options):
        self.training, self.without = training, without
        self.target = os.path.join(folder, "dump")
        os.makedirs(self.target)
        graphs, golden = os.path.join(folder, "graphs"), os.path.join(folder, "golden")
        training.write_graphs(graphs)
        training.write_golden(golden)
        compared = ComparisonOptions(self.target, golden, os.path.join(folder, "out"), graphs)
        self.watch = Watch(compared, WatchOptions(until_idle_s=1e5, **options))

    def __enter__(self):
        self.watch.__enter__()
        self.turns = self.watch.turns()
        return self

    def __exit__(self, *raised):
        self.turns.close()
        self.watch.__exit__(*raised)

    def put(self, step, *ops):
        """Let the dumps of a step come, of all ops or of some; return the failing row that is
        final by then.
        """
        for device in range(self.training.devices):
            for dump in self.training.dumps(device, steps=[step]):
                name = dump.op_name.rpartition("/")[2]
                if name not in self.without and (not ops or name in ops):
                    path = os.path.join(self.target, dump.only("output").path())
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as stream:
                        stream.write(dump.only("output").content())
        for _ in range(200):
            next(self.turns)
            files = list(self.watch.catalogue.files.values())
            come = sum(len(names) for _, _, names in os.walk(self.target))
            compared = all(file.has_rows and not file.pending for file in files)
            busy = self.watch._busy or self.watch.folders.monitor.listing
            if len(files) == come and compared and not busy:
                break
        else:
            pytest.fail("not compared")
        self.watch.provisional.settled(at_once=True)
        self.watch._find_first_failing()
        return self.watch.hook.row

    def end(self):
        self.watch.stop("test")
        for _ in self.turns:
            pass
        return self.watch.finish()


def training(wrong, **more):
    return Training(MODELS, devices=2, steps=(1, 2, 3), wrong=(Wrong(wrong, 1, 2),), **more)


@pytest.mark.parametrize("wrong", ["part0/MatMul", "part0/Relu", "part0/Mul"])
def test_the_command_need_not_wait_for_the_end_where_names_have_slashes(tmp_path, wrong):
    with WatchedTraining(str(tmp_path), training(wrong)) as one:
        assert one.put(1) is None
        row = one.put(2)
        assert row is not None and (row.op, row.place.step, row.place.device) == (wrong, "2", "1")
        one.put(3)
        assert not len(one.watch.provisional)
        result = one.end()
    first = result.summary.first
    assert (first.op, first.place.step, first.place.device) == (wrong, "2", "1")


def test_a_producer_that_is_not_dumped_is_waited_for_until_the_next_step(tmp_path):
    with WatchedTraining(str(tmp_path), training("part0/Relu"), without=("MatMul",)) as one:
        assert one.put(1) is None
        assert one.put(2) is None, "MatMul may still come"
        row = one.put(3, "IteratorGetNext")
        assert row is not None and (row.op, row.place.step) == ("part0/Relu", "2")
        assert one.end().exit_code == 1


def test_a_row_behind_a_wrong_one_is_final_with_it(tmp_path):
    with WatchedTraining(str(tmp_path), training("part0/Mul")) as one:
        one.put(1)
        one.put(2, "IteratorGetNext", "Relu")
        assert one.watch.hook.row is None and len(one.watch.provisional) == 1
        one.put(2, "Mul", "MatMul")
        assert one.watch.hook.row is not None and not len(one.watch.provisional)
        assert one.end().exit_code == 1


def test_the_command_gets_the_first_output_in_order_of_execution_not_the_first_to_arrive(tmp_path):
    taken = []
    with WatchedTraining(str(tmp_path), training("part0/Mul"), on_divergence="true") as one:
        one.watch.hook._start = lambda command, row: taken.append(row.op)
        one.put(1)
        # All of a step at once: whichever is compared first.
        one.put(2)
        one.end()
    assert taken == ["part0/Mul"]
