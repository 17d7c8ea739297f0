"""The host's atc: where it is found, how it is started, how its failures are reported."""

from __future__ import annotations

import os
import stat
import sys

import host_models
import pytest

from goldwatch.base.errors import EnvironmentProblem, InputError, MissingPath, ProgramFailed
from goldwatch.device.launch.atc import Atc, atc_error, find_atc, searched_places, toolkit_problem
from goldwatch.testing.host import make_host


def program(path, text):
    os.makedirs(os.path.dirname(str(path)), exist_ok=True)
    with open(str(path), "w") as stream:
        stream.write("#!%s\nimport os, sys\n%s\n" % (sys.executable, text))
    os.chmod(str(path), stat.S_IRWXU)
    return str(path)


@pytest.mark.parametrize("inside", ["bin", "compiler/bin", "atc/bin"])
@pytest.mark.parametrize("variable", ["ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"])
def test_atc_is_found_below_the_toolkit_of_the_environment(tmp_path, inside, variable):
    path = program(tmp_path / "latest" / inside / "atc", "")
    found = find_atc({variable: str(tmp_path / "latest"), "PATH": str(tmp_path)})
    assert found == Atc(path, variable, str(tmp_path / "latest"))


def test_atc_on_the_path_is_preferred(tmp_path):
    program(tmp_path / "toolkit" / "bin" / "atc", "")
    path = program(tmp_path / "mine" / "bin" / "atc", "")
    found = find_atc(
        {"PATH": os.path.dirname(path), "ASCEND_TOOLKIT_HOME": str(tmp_path / "toolkit")}
    )
    assert found is not None and (found.path, found.why, found.toolkit) == (
        path,
        "PATH",
        str(tmp_path / "mine"),
    )


def test_a_missing_atc_is_reported_with_the_places_searched(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"PATH": str(tmp_path), "ASCEND_TOOLKIT_HOME": str(tmp_path / "gone")}
    looked = [place.path for place in searched_places(environ)]
    assert (
        str(tmp_path / "atc") in looked
        and str(tmp_path / "gone" / "compiler" / "bin" / "atc") in looked
    )
    assert "/usr/local/Ascend/ascend-toolkit/latest/bin/atc" in looked
    assert find_atc(environ) is None
    text = toolkit_problem(environ)
    assert (
        "source the toolkit's set_env.sh" in text
        and "ASCEND_TOOLKIT_HOME is %s" % (tmp_path / "gone") in text
    )
    assert "ASCEND_TOOLKIT_HOME and ASCEND_HOME_PATH are not set" in toolkit_problem({})
    with pytest.raises(InputError, match="is not a program"):
        find_atc(environ, str(tmp_path))


def test_libraries_of_the_toolkit_come_first(tmp_path):
    for name in ("lib64", "compiler/lib64"):
        os.makedirs(str(tmp_path / name))
    found = Atc("atc", "PATH", str(tmp_path)).environment({"LD_LIBRARY_PATH": "/opt/lib"})
    assert found["LD_LIBRARY_PATH"] == "%s:%s:/opt/lib" % (
        tmp_path / "lib64",
        tmp_path / "compiler/lib64",
    )
    assert "LD_LIBRARY_PATH" not in Atc("atc", "PATH", None).environment({})


def test_atc_converts_a_model_and_reports_failures(tmp_path):
    host = make_host(str(tmp_path / "npu"))
    atc = find_atc(host.environment({"PATH": os.defpath}))
    assert atc is not None and atc.toolkit == host.folder
    options = {
        "framework": "5",
        "model": host_models.conv_net(tmp_path / "net.onnx"),
        "soc_version": "Ascend310P3",
    }
    om = atc.convert(options, str(tmp_path / "made.om"))
    assert om == str(tmp_path / "made.om")
    atc.to_json(om, str(tmp_path / "made.json"))
    assert os.path.getsize(str(tmp_path / "made.json")) > 1000
    with pytest.raises(ProgramFailed) as caught:
        atc.convert({**options, "precision_mode": "fast"}, str(tmp_path / "other.om"))
    assert (
        "atc failed with exit code 1: " in caught.value.message
        and "E10001: Value [fast]" in caught.value.message
    )
    assert caught.value.returncode == 1 and "--precision_mode=fast" in (caught.value.hint or "")
    with pytest.raises(MissingPath):
        atc.to_json(str(tmp_path / "none.om"), str(tmp_path / "none.json"))


def test_an_om_that_atc_names_after_the_host_is_found(tmp_path):
    text = (
        'out = [w for w in sys.argv if w.startswith("--output=")][0][9:]\nopen(out + '
        '"_linux_x86_64.om", "w").close()'
    )
    atc = Atc(program(tmp_path / "atc", text), "PATH")
    (tmp_path / "m_linux_aarch64.om").write_text("old")
    assert atc.convert({}, str(tmp_path / "m.om")) == str(tmp_path / "m_linux_x86_64.om")
    with pytest.raises(ProgramFailed, match="wrote no"):
        Atc(program(tmp_path / "idle", ""), "PATH").convert({}, str(tmp_path / "m.om"))


def test_relative_paths_work_though_atc_runs_elsewhere(tmp_path, monkeypatch):
    text = (
        "print(os.getcwd()); json = [w for w in sys.argv if "
        'w.startswith("--json=")][0][7:]\nopen(json, "w").write(" ".join(sys.argv))'
    )
    atc = Atc(program(tmp_path / "atc", text), "PATH")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.om").write_text("")
    atc.to_json("m.om", "m.json")
    assert "--om=%s" % (tmp_path / "m.om") in (tmp_path / "m.json").read_text()


def test_an_atc_that_cannot_start_or_is_killed_is_reported(tmp_path):
    (tmp_path / "m.om").write_text("")
    (tmp_path / "atc").write_text("no program")
    with pytest.raises(EnvironmentProblem, match="cannot be started"):
        Atc(str(tmp_path / "atc"), "PATH").to_json(str(tmp_path / "m.om"), str(tmp_path / "m.json"))
    killed = Atc(program(tmp_path / "dies", "os.kill(os.getpid(), 9)"), "PATH")
    with pytest.raises(ProgramFailed, match="atc failed with signal 9: it said nothing"):
        killed.to_json(str(tmp_path / "m.om"), str(tmp_path / "m.json"))


def test_the_error_lines_of_atc_are_shown():
    text = (
        "ATC start working now\nW11001: a warning\nATC run failed, Please check the detail "
        "log\nE10001: Value [x] is invalid\n  more\n"
    )
    assert (
        atc_error(text)
        == "ATC run failed, Please check the detail log / E10001: Value [x] is invalid"
    )
    assert atc_error("one\ntwo\n") == "one / two" and atc_error("") == "it said nothing"
    assert atc_error("EZ9999: Inner Error!\nsomething") == "EZ9999: Inner Error!"
