"""Steps are done once, and repeated when something they depend on has changed."""

from __future__ import annotations

import json

import pytest

from goldwatch.base.errors import FormatError, UsageError
from goldwatch.device.locate.resumable_steps import Step, Steps


class Folder:
    """A folder with a step that copies a file, and counts."""

    def __init__(self, path) -> None:
        self.path, self.times, self.said = path, 0, []
        (path / "in").write_text("1")

    def steps(self, force=False):
        return Steps(
            str(self.path), lambda command, done: self.said.append((command[0], done)), force
        )

    def step(self, code=0, fails=False, **settings):
        def does(began):
            self.times += 1
            assert not (self.path / "made").exists(), "what an earlier one left is removed"
            (self.path / "made").write_text("begun")
            if fails:
                raise KeyboardInterrupt
            return code

        files = {"the file": str(self.path / "in")}
        return Step(
            "copy",
            does,
            ["cp"],
            settings,
            files,
            [str(self.path / "made")],
            lambda code: code in (0, 1),
        )


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_a_finished_step_is_not_repeated(folder) -> None:
    assert folder.steps().run(folder.step(code=1)) == 1
    assert folder.steps().run(folder.step(code=1)) == 1
    assert folder.times == 1 and folder.said == [("cp", False), ("cp", True)]
    assert folder.steps().outcome("copy") == 1


@pytest.mark.parametrize("how", ["interrupted", "failed", "gone"])
def test_an_unfinished_step_is_started_again(folder, how) -> None:
    if how == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            folder.steps().run(folder.step(fails=True))
    else:
        folder.steps().run(folder.step(code=5 if how == "failed" else 0))
    if how == "gone":
        (folder.path / "made").unlink()
    assert folder.steps().run(folder.step()) == 0 and folder.times == 2


def test_a_touched_but_equal_file_repeats_no_step(folder) -> None:
    folder.steps().run(folder.step())
    (folder.path / "in").write_text("1")
    folder.steps().refuse_others([folder.step()])
    folder.steps().run(folder.step())
    assert folder.times == 1


@pytest.mark.parametrize("what", ["the file", "device"])
def test_changed_files_and_settings_are_refused_or_repeated_by_force(folder, what) -> None:
    folder.steps().run(folder.step(device=0))
    if what == "the file":
        (folder.path / "in").write_text("2")
    step = folder.step(device=1 if what == "device" else 0)
    with pytest.raises(UsageError, match="%s changed since its step copy" % what):
        folder.steps().refuse_others([step])
    forced = folder.steps(force=True)
    forced.refuse_others([step])
    assert forced.run(step) == 0 and folder.times == 2


def test_a_damaged_state_file_is_refused(folder) -> None:
    (folder.path / "locate.json").write_text(json.dumps({"form": 1}))
    with pytest.raises(FormatError, match="not the state of a search"):
        folder.steps()
