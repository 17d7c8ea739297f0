"""Failing rows that later rows may clear are provisional: hook, stop and live line wait for final
ones.
"""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from scene_networks import dense, detection, half, relu

from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions


class Watched:
    """A watch of a scene, fed file by file."""

    def __init__(self, scene, **options):
        self.scene, self.told, self.final = scene, [], {}
        self.held = os.path.join(scene.folder, "held")
        os.rename(scene.target, self.held)
        os.makedirs(scene.target)
        asked = ComparisonOptions(
            scene.target, scene.golden_dir, os.path.join(scene.folder, "watched"), scene.model
        )
        self.watch = Watch(
            asked,
            WatchOptions(until_idle_s=1e5, **options),
        )

    def _walk(self):
        for turn in self.watch.turns():
            for row, final in turn.rows:
                self.final.setdefault(row.tensor, final)
            if turn.progress is not None:
                self.told.append(turn.progress)
            yield

    def put(self, *ops):
        """Let the dumps of these ops come, and the watch compare them."""
        # The last dump of an op first: an earlier one, of other values, is none that counts.
        for name in sorted(os.listdir(self.held), reverse=True):
            if name.split(".")[1] in ops:
                shutil.move(os.path.join(self.held, name), os.path.join(self.scene.target, name))
        self.turn()

    def turn(self):
        wanted = {name.split(".")[1] for name in os.listdir(self.scene.target)}
        for _ in range(100):
            next(self.turns)
            known = {
                file.op_name
                for file in self.watch.catalogue.files.values()
                if not file.pending and file.has_rows
            }
            busy = self.watch._busy or self.watch.folders.monitor.listing
            if wanted <= known and not busy:
                break
        else:
            pytest.fail("not compared: %s, but %s" % (sorted(wanted), sorted(known)))
        self.watch.provisional.settled(at_once=True)
        self.watch._find_first_failing()

    def __enter__(self):
        self.watch.__enter__()
        self.turns = self._walk()
        return self

    def __exit__(self, *raised):
        self.turns.close()
        self.watch.__exit__(*raised)

    def end(self):
        self.watch.stop("test")
        for _ in self.turns:
            pass
        return self.watch.finish()

    @property
    def fired(self):
        return self.watch.hook.row


ALL = ("fc", "side", "wide", "boxes", "top")


@pytest.mark.parametrize(
    "order", [ALL, ("boxes", "wide", "side", "fc", "top"), ("top", "boxes", "wide", "fc", "side")]
)
def test_rows_that_a_later_dump_may_clear_are_no_final_divergence(scene, random, order):
    detection(scene, random)
    mark = os.path.join(scene.folder, "fired")
    with Watched(scene, on_divergence="touch %s" % mark, stop_on_divergence=True) as one:
        for op in order:
            one.put(op)
            assert one.fired is None and not one.watch.stopped_by, op
        result = one.end()
        assert one.watch.stopped_by == "test" and one.fired is None
        assert (result.summary.verdict, result.exit_code) == ("pass", 0)
    last = one.told[-1]
    assert (last.failed, last.provisional, last.rows) == (0, 0, result.summary.rows)
    assert not os.path.exists(mark)
    if order[-1] == "top":
        assert one.final["boxes:output:0"] is False and one.final["wide:input:0"] is False


@pytest.mark.parametrize("with_inputs", [True, False])
def test_a_wrong_operator_is_final_once_all_of_its_step_has_come(scene, random, with_inputs):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    dense(scene, random, "fc", "data", with_inputs=with_inputs)
    relu(scene, "relu", "fc", lambda made: 1.5 * made, with_inputs=with_inputs)
    dense(scene, random, "last", "relu", with_inputs=with_inputs)
    with Watched(scene) as one:
        one.put("relu")
        one.put("fc")
        assert one.fired is None
        one.put("last")
        assert one.fired is not None and one.fired.tensor == "relu:output:0"
        assert not len(one.watch.provisional)
        assert one.end().exit_code == 1


def test_a_failing_row_that_cannot_be_computed_again_is_final_at_once(scene, random):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    dense(scene, random, "fc", "data", lambda made: 1.5 * made)
    with Watched(scene) as one:
        one.put("fc")
        assert one.fired is not None and one.fired.op == "fc"
        assert one.end().exit_code == 1


def test_the_command_runs_at_the_end_of_the_step(scene, random):
    detection(scene, random, wrong_gather=True)
    mark = os.path.join(scene.folder, "fired")
    with Watched(scene, on_divergence="cat > %s" % mark) as one:
        one.put(*ALL[:-1])
        assert one.fired is None
        one.put(ALL[-1])
        assert one.fired.tensor == "boxes:output:0"
        assert one.end().exit_code == 1 and not len(one.watch.provisional)
    with open(mark, encoding="utf-8") as stream:
        row = json.load(stream)
    assert (row["tensor"], row["final"]) == ("boxes:output:0", True)


def test_progress_counts_like_the_verdict_after_a_file_is_repaired(scene, random):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    dense(scene, random, "fc", "data")
    relu(scene, "relu", "fc")
    path = scene.write(
        "dump", "", "relu", "Relu", [scene.made["fc"]], [half(3 * scene.made["relu"])]
    )
    good = next(
        name
        for name in os.listdir(scene.target)
        if ".relu." in name and name != os.path.basename(path)
    )
    with open(os.path.join(scene.target, good), "rb") as stream:
        right = stream.read()
    os.unlink(os.path.join(scene.target, good))
    with Watched(scene) as one:
        one.put("fc", "relu")
        assert one.watch.meter.measure(last=True).failed == 1
        with open(path + ".new", "wb") as stream:
            stream.write(right)
        os.replace(path + ".new", path)
        for _ in range(100):
            next(one.turns)
            if not one.watch.meter.measure(last=True).failed:
                break
        result = one.end()
    last = one.told[-1]
    assert (last.rows, last.failed) == (result.summary.rows, result.summary.failed) == (5, 0)


def test_dumps_are_deleted_only_when_their_rows_are_final(scene, random):
    detection(scene, random)
    with Watched(scene, keep="none") as one:
        one.put(*ALL)
        one.watch.keeper.tick()
        kept = {name.split(".")[1] for name in os.listdir(scene.target)}
        assert "top" in kept
        assert one.end().exit_code == 0
    assert not {"top", "wide", "boxes"} & {name.split(".")[1] for name in os.listdir(scene.target)}
