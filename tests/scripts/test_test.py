"""``scripts/test`` runs every part, lists all failures, and ends with pytest's last line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "test")

# Stands for scripts/environment.sh: environments whose programs only say that they ran, and fail
# when FAIL names them.
ENVIRONMENT = r"""
any_python() { echo python3; }
python_between() { echo python_between; }
provide_python() { [ "$1" = 3.7 ] && [ -z "${NO_PYTHON37:-}" ] && echo python3; }
make_environment() {
    case " ${FAIL:-} " in *" make:$2 "*) return 1 ;; esac
    mkdir -p "$2/bin"
    for program in python ruff mypy; do
        {
            printf '#!/bin/sh\ncase " $FAIL " in *" %s "*) code=1 ;; *) code=0 ;; esac\n' "$2/$program"
            printf 'echo "ran %s $*"\necho "$((3 - code)) passed, $code failed in 1.00s"\nexit $code\n' "$2/$program"
        } >"$2/bin/$program"
        chmod +x "$2/bin/$program"
    done
}
build_wheel() { case " ${FAIL:-} " in *" build_wheel "*) return 1 ;; esac; }
released() { true; }
provide_axe() { [ -z "${NO_AXE:-}" ]; }
have_chromium() { [ -z "${NO_CHROMIUM:-}" ] || [ -e installed ]; }
install_chromium() { [ -n "${NO_APT:-}" ] || touch installed; }
"""  # noqa: E501


@pytest.fixture
def run(tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(SCRIPT, str(scripts / "test"))
    (scripts / "environment.sh").write_text(ENVIRONMENT)
    (scripts / "demo").write_text('#!/bin/sh\necho "ran demo $*"\nexit "${DEMO:-0}"\n')
    (scripts / "demo").chmod(0o755)

    def call(*words, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "CI"}
        environment.update(dict({"FAIL": ""}, **variables))
        command = ["bash", str(scripts / "test"), *words]
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        return done.returncode, done.stdout

    return call


PARTS = ("ran .envs/project/ruff", "ran .envs/project/mypy", "scripts/page_types")
PARTS += ("-m codespell_lib README.md", "scripts/docs .envs/site")
PARTS += ("ran .envs/project/python -m pytest",)
MORE = (
    "-m browser",
    "ran .envs/tensorflow/python -m pytest",
    "ran .envs/py37/python -m pytest",
    "check_protobuf_versions",
    "scripts/fuzz --cases",
    "scripts/interrupt_test",
    "scripts/crash_test",
    "ran demo --python python_between",
)


def test_without_failures_the_script_ends_with_pytests_last_line(run):
    code, text = run("--everything")
    assert code == 0 and all(part in text for part in PARTS + MORE)
    assert "FAILED" not in text and text.splitlines()[-1] == "3 passed, 0 failed in 1.00s"


def test_the_short_form_runs_some_parameter_sets_and_says_what_it_leaves_out(run):
    code, text = run()
    assert code == 0 and all(part in text for part in PARTS)
    assert not any(part in text for part in MORE)
    assert (
        "--few-cases 4" in text
        and "tests/replay/test_replay.py::" in text
        and "not run      what --everything adds: " in text
    )


def test_tests_left_out_on_the_oldest_python_exist_and_run_on_the_projects(run):
    lines = run("--everything")[1].splitlines()
    whole = [line for line in lines if line.startswith("ran .envs/project/python -m pytest")]
    assert any(not any(word in line for word in ("--ignore", "tests/", "--few")) for line in whole)
    oldest, numpy = (line for line in lines if line.startswith("ran .envs/py37/python -m pytest"))
    left_out = re.findall(r"--(?:ignore|deselect)=(\S+)", oldest)
    alone = re.findall(r" (tests/\S+)", numpy)
    assert left_out and "--ignore" not in numpy
    for place in left_out + alone:
        path, _, test = place.partition("::")
        assert os.path.exists(os.path.join(ROOT, path)), place
        if test:
            with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
                assert "\ndef %s(" % test in stream.read(), place
    # What runs there with numpy alone, or as one test of many, is left out of the others.
    files = {place.partition("::")[0] for place in alone}
    assert all(any((file + "/").startswith(path + "/") for path in left_out) for file in files)


def test_a_failing_part_run_in_parallel_fails_the_script(run):
    code, text = run("--everything", DEMO="3")
    assert (
        code == 1
        and "FAILED (3)   README's demo, beside others" in text
        and "\nfailed: README's demo" in text
    )


@pytest.mark.parametrize(
    "failing",
    [
        ".envs/project/ruff",
        ".envs/project/mypy",
        ".envs/tensorflow/python",
        ".envs/py37/python",
        "make:.envs/py37",
    ],
)
def test_other_parts_run_when_one_fails(run, failing):
    code, text = run("--everything", FAIL=failing)
    assert code == 1
    for part in PARTS + MORE:
        assert part in text or failing.replace("make:", "") in part
    assert "FAILED (1)" in text and text.count("\nfailed: ") >= 1
    assert text.splitlines()[-1] == "3 passed, 0 failed in 1.00s"


def test_a_failure_of_the_last_part_is_listed(run):
    code, text = run(FAIL=".envs/project/python")
    assert (
        code == 1
        and "\nfailed: tests on Python" in text
        and text.splitlines()[-1] == "2 passed, 1 failed in 1.00s"
    )


def test_every_failure_is_listed(run):
    failing = ".envs/project/ruff .envs/project/mypy .envs/tensorflow/python"
    code, text = run("--everything", FAIL=failing)
    assert code == 1
    assert [line for line in text.splitlines() if line.startswith("failed: ")] == [
        "failed: lint", "failed: format", "failed: types", "failed: tests with TensorFlow 1.15",
    ]  # fmt: skip


def test_a_missing_python_is_reported_and_fails_in_ci(run):
    code, text = run("--everything", NO_PYTHON37="1")
    assert code == 0 and "not run" in text and "TensorFlow 1.15" in text
    code, text = run("--everything", NO_PYTHON37="1", CI="true")
    assert code == 1 and "failed: TensorFlow 1.15" in text


def test_a_missing_browser_is_reported_and_installed_in_ci(run):
    code, text = run("--everything", NO_CHROMIUM="1")
    assert (
        code == 0
        and "no chromium or no chromedriver; Debian: apt-get install chromium chromium-driver): "
        "its tests do NOT run"
        in text
    )
    assert run("--everything", NO_CHROMIUM="1", NO_APT="1", CI="true")[0] == 0
    code, text = run("--everything", NO_CHROMIUM="1", CI="true")
    assert code == 0 and "NOT run" not in text and "-m browser" in text


def test_a_missing_axe_core_is_reported_and_fails_in_ci(run):
    code, text = run("--everything", NO_AXE="1")
    assert (
        code == 0
        and "accessibility of pages (axe-core of npm could not be had): its tests do NOT run"
        in text
        and "-m browser" in text
    )
    assert run("--everything", NO_AXE="1", CI="true")[0] == 1


def test_without_the_projects_environment_nothing_is_tested(run):
    for failing in ("make:.envs/project", "build_wheel"):
        code, text = run(FAIL=failing)
        assert code == 1 and "nothing can be tested" in text and "-m pytest" not in text


def test_arguments_are_passed_to_the_last_part(run):
    code, text = run("--", "tests/config", "-x")
    assert code == 0 and text.count("tests/config -x") == 1 and "--few-cases" not in text
    assert run("--nonsense")[0] == 2
