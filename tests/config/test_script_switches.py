"""Findings about a script's switches, against running the script in every choice of branches."""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldwatch.config.check import Checker
from goldwatch.config.models import Models

NAMES = ("enable_dump", "enable_dump_debug")
SET = st.builds('o.parameter_map["{}"].b = {}'.format, st.sampled_from(NAMES), st.booleans())
LEAVES = st.sampled_from(["return", "pass"])
IN_LOOP = st.sampled_from(["return", "break", "continue"])


def block(lines):
    return ["    " + line for part in lines for line in part]


def blocks(inner):
    """Statements, each a list of lines, that hold blocks of others."""
    body = st.lists(inner, min_size=1, max_size=3)
    looped = st.lists(st.one_of(inner, IN_LOOP.map(lambda word: [word])), min_size=1, max_size=3)
    return st.one_of(
        st.tuples(body, body).map(lambda two: ["if c():", *block(two[0]), "else:", *block(two[1])]),
        st.tuples(body, body).map(
            lambda two: ["if c():", *block(two[0]), "elif c():", *block(two[1])]
        ),
        body.map(lambda one: ["if 1:", *block(one)]),
        st.tuples(looped, body).map(
            lambda two: ["for _ in range(c()):", *block(two[0]), "else:", *block(two[1])]
        ),
        body.map(lambda one: ["try:", *block(one), "finally:", "    pass"]),
    )


STATEMENT = st.recursive(
    st.one_of(SET, SET, LEAVES).map(lambda line: [line]), blocks, max_leaves=12
)


class Entry:
    """One entry of a parameter_map; tells the program's recorder what is set, and where."""

    def __init__(self, name, seen, state):
        self.__dict__.update(name=name, seen=seen, state=state)

    def __setattr__(self, _, value):
        self.state[self.name] = value
        line = sys._getframe(1).f_lineno
        self.seen.setdefault(line, []).append(all(self.state.get(name) is True for name in NAMES))


def runs(code, seen):
    """Run a program with every choice of its conditions."""
    choices = []
    while True:
        taken, state = [], {}

        def choose(taken=taken, choices=tuple(choices)):
            taken.append(choices[len(taken)] if len(taken) < len(choices) else False)
            return taken[-1]

        o = type(
            "Optimizer", (), {"parameter_map": {name: Entry(name, seen, state) for name in NAMES}}
        )
        space = {"c": choose}
        exec(code, space)
        space["f"](o)
        while taken and taken[-1]:
            taken.pop()
        if not taken:
            return
        choices = taken[:-1] + [True]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STATEMENT, min_size=2, max_size=5))
def test_what_is_said_of_two_switches_holds_in_every_run_of_the_script(statements):
    text = "\n".join(["def f(o):", *block(statements)]) + "\n"
    seen = {}
    runs(compile(text, "program", "exec"), seen)
    certain = any(all(visits) for visits in seen.values())
    possible = any(any(visits) for visits in seen.values())
    lines = [number for number, line in enumerate(text.split("\n"), 1) if "parameter_map" in line]
    report = Checker(Models([]), elsewhere=True).check("train.py", text.encode())
    said = [finding.severity for finding in report.findings if finding.rule == "dump-with-debug"]
    if said == ["error"]:
        # Of a statement that no run reaches, nothing is asked.
        assert certain or not all(line in seen for line in lines), text
    elif not said:
        assert not possible, text
    else:
        assert said == ["note"], text
