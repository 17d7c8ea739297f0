"""What all tests share: the ``--shared`` option for checks against real files that are not part of
the project.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import time

import hypothesis
import pytest
from browser import axe_file, browser, missing_browser_parts
from terminals import run_on_terminal

from goldwatch.base.system import importing_unthreaded

# Several tests run at a time, so OpenBLAS's threads only stand in their way. And up to Python 3.9 a
# process that starts another while one of its threads multiplies can stand still for good: fork()
# ends OpenBLAS's threads first, and those at work then do not hear of it.
with importing_unthreaded():
    import numpy  # noqa: F401

# Started in the background of a script, these tests inherit that Ctrl-C is ignored, and with them
# every program that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# In CI a test draws the same examples at every run, elsewhere others each time; on a busy machine
# it may take as long as it likes.
patient = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "goldwatch",
    deadline=None,
    suppress_health_check=patient,
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("goldwatch")


def pytest_addoption(parser):
    parser.addoption(
        "--shared",
        default=None,
        metavar="DIR",
        help="folder with real files (without it: those tests are deselected)",
    )
    parser.addoption(
        "--few-cases",
        type=int,
        default=None,
        metavar="N",
        help="of a test with many parameter sets run N, from the first to the last",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "shared: reads real files from the folder given with --shared"
    )


def pytest_collection_modifyitems(config, items):
    unwanted = (
        set()
        if config.getoption("--shared")
        else {item for item in items if item.get_closest_marker("shared")}
    )
    if missing_browser_parts():
        unwanted |= {item for item in items if item.get_closest_marker("browser")}
    if importlib.util.find_spec("furo") is None:
        unwanted |= {item for item in items if item.get_closest_marker("docs")}
    if axe_file() is None:
        unwanted |= {item for item in items if item.get_closest_marker("axe")}
    if config.getoption("--few-cases"):
        cases = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        for of_test in cases.values():
            unwanted |= set(of_test) - set(_spread(of_test, config.getoption("--few-cases")))
    if unwanted:
        items[:] = [item for item in items if item not in unwanted]
        config.hook.pytest_deselected(items=list(unwanted))


def _spread(items, count):
    """Return ``count`` items at equal distances, the first and the last among them."""
    if len(items) <= count:
        return items
    return [items[number * (len(items) - 1) // max(1, count - 1)] for number in range(count)]


def pytest_report_header():
    said = [
        "the pages are NOT tested in a browser: %s" % problem
        for problem in [missing_browser_parts()]
        if problem
    ]
    if importlib.util.find_spec("furo") is None:
        said.append("the site of the pages is NOT tested: no furo (extra docs)")
    return said + ["the pages are NOT tested with axe-core: scripts/test gets it from npm"] * (
        axe_file() is None
    )


@pytest.fixture(scope="module")
def driver():
    """A real browser, for the tests of a module."""
    with browser() as found:
        yield found


@pytest.fixture
def cpu_seconds():
    """Bounds the processor's time of a block, ``with cpu_seconds(60): …``, and so tells minutes
    from seconds on any machine.
    """

    @contextlib.contextmanager
    def bounded(seconds):
        def give_up(*_):
            raise AssertionError("more than %d seconds of the processor's time" % seconds)

        before = signal.signal(signal.SIGVTALRM, give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return bounded


@pytest.fixture
def until():
    """Waits for a condition, ``until(lambda: …)``, and returns what it gave; the test fails when
    that never comes.
    """

    def wait(condition, patience_s=60.0):
        end = time.monotonic() + patience_s
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.01)

    return wait


@pytest.fixture
def shared_dir(request):
    """The folder given with --shared."""
    return request.config.getoption("--shared")


@pytest.fixture
def on_terminal():
    """Runs a command on a terminal of so many columns, ``on_terminal(words, 80)``: what it shows,
    without colours, and its exit code.
    """

    def run(words, columns=80, environment=os.environ, **options):
        # A parent that uses readline hands on the columns of its own terminal.
        own = {name: value for name, value in environment.items() if name != "COLUMNS"}
        shown, code = run_on_terminal(words, columns, env=own, **options)
        text = shown.decode("utf-8").replace("\r\n", "\n")
        lines = [
            line.rsplit("\r", 1)[-1] for line in re.sub("\x1b\\[[0-9;]*[mK]", "", text).split("\n")
        ]
        return "\n".join(lines), code

    return run
