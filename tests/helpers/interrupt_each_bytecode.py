"""Runs the command line once for each of its bytecodes, with a SIGINT at that bytecode.

    python interrupt_each_bytecode.py start|end CODE STEP

``end``: from where the command, a stand-in that returns CODE, has returned; ``start``: from where
the process calls the command line. STEP 1 is each bytecode of goldwatch's own files; a larger one
takes each so many-th, of what they call in the library too. Each run is a fork of this process, so
nothing is imported twice. Prints a JSON list of ``[exit status (negative for a signal), stderr]``.
"""

import contextlib
import enum
import json
import mmap
import os
import signal
import sys
import tempfile
import threading

import click

from goldwatch import __main__ as program
from goldwatch import cli
from goldwatch.base import interrupts
from goldwatch.cli import error_handling, printing

OWN = {module.__file__ for module in (program, cli, error_handling, printing, interrupts)}
LIBRARY = {module.__file__ for module in (contextlib, enum, signal, threading)}


class Steps:
    """Sends SIGINT at one bytecode of the traced files, counted from :meth:`begin` on."""

    def __init__(self, chosen, files):
        self.left = chosen
        self.files = files
        self.sent = mmap.mmap(-1, 1)

    def begin(self):
        frame = sys._getframe(1)
        sys.settrace(self.trace)
        while frame is not None:
            frame.f_trace = self.trace(frame, "call", None)
            frame = frame.f_back

    def trace(self, frame, event, _):
        if (
            frame.f_code.co_filename not in self.files
            or frame.f_code is interrupts._interrupt.__code__
        ):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, _):
        if event == "opcode":
            self.left -= 1
            if self.left == -1:
                self.sent[0] = 1
                # The handler's KeyboardInterrupt leaves this function in the place of the bytecode;
                # whatever it does, the tracing ends.
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGINT)
        return self.step


def run(phase, code, steps):
    @click.command()
    def stand_in():
        if phase == "end":
            steps.begin()
        return code

    sys.argv = ["goldwatch"]
    cli.goldwatch = stand_in
    if phase == "start":
        steps.begin()
    program.main()


def main(phase, code, step):
    ends = []
    while True:
        steps = Steps(len(ends) * step, OWN if step == 1 else OWN | LIBRARY)
        with tempfile.TemporaryFile() as log:
            child = os.fork()
            if not child:
                os.dup2(log.fileno(), 2)
                run(phase, code, steps)
            _, status = os.waitpid(child, 0)
            log.seek(0)
            told = log.read().decode()
        ends.append(
            [-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), told]
        )
        if not steps.sent[0]:
            break
    print(json.dumps(ends))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
