"""What the output of a runner that failed means."""

from __future__ import annotations

import pytest

from goldwatch.device.launch.runners import failure_of

# As ais_bench, msame, pyACL and programs on AscendCL say it.
SAID = {
    "[ERROR] acl open device 0 failed": "the device cannot be opened",
    "pyacl: acl.rt.set_device failed with 507033 "
    "(ACL_ERROR_RT_DEV_SETUP_ERROR)": "the device cannot be opened",
    "RuntimeError: acl open device 3 failed (SetDevice "
    "failed.ret=107001)": "the device cannot be opened",
    "EL0004: Failed to allocate memory. Possible Cause: "
    "Available memory is insufficient.": "memory on the device ran out",
    "[ERROR] malloc device buffer fail": "memory on the device ran out",
    "pyacl: acl.rt.malloc failed with 207001": "memory on the device ran out",
    "[ERROR] arg0 tensorsize: 6176 filesize: 6144 "
    "not match": "the om takes an input of another size",
    "[ERROR] input size 6144 does not match the "
    "model's 6176": "the om takes an input of another size",
    "ModelCheckCompatibility failed, supported socVersion=Ascend910B2, but the model "
    "socVersion=Ascend910B": "made for another chip",
    "rtModelCheckCompatibility execute failed, reason=[soc version error]": "made for another chip",
    "ModuleNotFoundError: No module named 'aclruntime'": "the toolkit is not in this shell's "
    "environment",
    "ImportError: libascendcl.so: cannot open shared object file": "the toolkit is not in this "
    "shell's environment",
}


@pytest.mark.parametrize("line", SAID)
def test_known_runner_failures_are_explained(tmp_path, line) -> None:
    (tmp_path / "program.log").write_text(
        "[INFO] acl init success\n%s\nTraceback (most recent call last):\n" % line
    )
    failure = failure_of(str(tmp_path / "program.log"))
    assert SAID[line] in failure.message and line[:60] in failure.message and failure.hint


def test_unknown_runner_failures_are_not_explained(tmp_path) -> None:
    (tmp_path / "program.log").write_text("[INFO] acl init success\nsomething else\n")
    assert failure_of(str(tmp_path / "program.log")) is None
    assert failure_of(str(tmp_path / "none")) is None


def test_only_the_end_of_a_long_log_is_read(tmp_path) -> None:
    (tmp_path / "program.log").write_bytes(
        b"x" * 100 + b"\n" + b"y" * (1 << 20) + b"\n\xff open device 0 failed\n"
    )
    assert "cannot be opened" in failure_of(str(tmp_path / "program.log")).message


def test_an_om_that_does_not_load_is_reported_with_the_runners_error_line(tmp_path) -> None:
    (tmp_path / "program.log").write_text(
        "[INFO] open device 0 success\n"
        "EE4001: The model file is damaged. Reason: the checksum differs.\n"
        "[ERROR] load model from file failed, model file is net.om\n"
        "RuntimeError: load model from file failed (ret=100012)\n"
    )
    failure = failure_of(str(tmp_path / "program.log"))
    assert failure.message.startswith("the om cannot be loaded (EE4001: The model file is damaged")
    assert failure.message.endswith("/ RuntimeError: load model from file failed (ret=100012))")


def test_unexplained_errors_are_shown_as_the_program_printed_them(tmp_path) -> None:
    (tmp_path / "program.log").write_text(
        "starting\nEZ9999: Inner Error!\nsome more\nValueError: nothing came back\nbye\n"
    )
    failure = failure_of(str(tmp_path / "program.log"))
    assert failure.message == (
        "its output ends so: EZ9999: Inner Error! / ValueError: nothing came back"
    )
