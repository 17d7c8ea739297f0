"""What all tests share: the ``--shared`` option for checks against real files that are not part of the project."""

from __future__ import annotations

import contextlib
import os
import signal

import hypothesis
import pytest

# Started in the background of a script, these tests inherit that Ctrl-C is ignored, and with them every program that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# In CI a test draws the same examples at every run; elsewhere others each time.
hypothesis.settings.register_profile("goldwatch-ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("goldwatch-ci")


def pytest_addoption(parser):
    parser.addoption("--shared", default=None, metavar="DIR", help="folder with real files (without it: those tests are deselected)")


def pytest_configure(config):
    config.addinivalue_line("markers", "shared: reads real files from the folder given with --shared")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--shared"):
        return
    unwanted = [item for item in items if item.get_closest_marker("shared")]
    if unwanted:
        items[:] = [item for item in items if not item.get_closest_marker("shared")]
        config.hook.pytest_deselected(items=unwanted)


@pytest.fixture
def cpu_seconds():
    """Bounds the processor's time of a block, ``with cpu_seconds(60): …``, and so tells minutes from seconds on any machine."""

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
def shared_dir(request):
    """The folder given with --shared."""
    return request.config.getoption("--shared")
