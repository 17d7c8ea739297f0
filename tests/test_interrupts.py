"""Signals in a callback of the import system are not lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time, weakref
from goldwatch.interrupts import heed_interrupts, heed_termination
number = getattr(signal, sys.argv[2])
if sys.argv[1] == "heeded":
    heed_interrupts()
    heed_termination()
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

def callback(file_name):
    # As importlib/_bootstrap.py's own: a function of this name in a file of that name, called at the end of an object's life.
    space = {"os": os, "number": number}
    exec(compile("def cb(_):\\n    os.kill(os.getpid(), number)\\n    sum(range(9))\\n", file_name, "exec"), space)
    return space["cb"]

class Lock:
    pass

lock = Lock()
reference = weakref.ref(lock, callback("<frozen importlib._bootstrap>"))
try:
    del lock
    for _ in range(1000):
        time.sleep(0.005)
    print("lost")
except (KeyboardInterrupt, SystemExit):
    print("heeded")
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("how", ["heeded", "lost"])
def test_a_signal_in_the_import_systems_callback(how, number):
    """Python itself loses it: that is why."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how, number], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    assert done.stdout.decode().split() == [how]


def test_elsewhere_it_is_raised_at_once():
    code = "import os, signal\nfrom goldwatch.interrupts import heed_interrupts\nheed_interrupts()\n"
    code += "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(9))\nexcept KeyboardInterrupt:\n    print('raised')\n"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.decode().split() == ["raised"]


def test_another_handler_stays():
    code = "import signal\nfrom goldwatch.interrupts import heed_interrupts\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "heed_interrupts()\nprint(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.decode().split() == ["True"]
