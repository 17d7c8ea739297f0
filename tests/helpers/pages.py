"""The commands of README and docs/: read from the pages' blocks, run, and what they print compared
with what is shown.

A block ``console`` holds lines ``$ command``, each with what it prints behind it, if that is shown,
line for line: ``…`` for any text in a line, alone in a line for any lines. A second word behind
``console`` is what its commands need and a test has not (see NEEDS): they are only parsed. A
command may end with 0 or 1 (a verdict); where ``$ echo $?`` follows, with what is shown.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List, NamedTuple

from in_process import run_here

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRANSLATIONS = {
    "README.zh.md": "README.md",
    **{
        "docs/zh/" + path.name: "docs/" + path.name
        for path in sorted(Path(ROOT, "docs", "zh").glob("*.md"))
    },
}
"""The Chinese pages, each with its English one. Their blocks are those of the English pages, whose
commands are run.
"""
PAGES = ["README.md", "CONTRIBUTING.md"] + sorted(
    {path.relative_to(ROOT).as_posix() for path in Path(ROOT, "docs").rglob("*.md")}
    - set(TRANSLATIONS)
)
NEEDS = {
    "demo": "the demo's network (tests/docs/test_readme.py compares what is shown)",
    "device": "CANN, an NPU, or what only its tools write",
    "install": "a network, and an environment to change",
    "slurm": "a cluster that Slurm runs",
    "serving": "somebody who ends it",
    "tensorflow": "TensorFlow 1.15 (tests/adapters/tensorflow runs them)",
    "tensorflow2": "TensorFlow 2",
}
WRITE = "GOLDWATCH_WRITE_DOCS"
"""Environment variable: what is printed is written into the pages, but where a line ``…`` stands
for lines.
"""

_SHELL = {"&", "|", ">", "<", "&&", "||", ";", "2>&1"}
_QUERY = (
    "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1], uri=True).execute(sys.argv[2]): "
    "print(*row)"
)
_SHIMS = {
    "goldwatch": 'exec %s -m goldwatch "$@"',
    "python": 'exec %s "$@"',
    "python3": 'exec %s "$@"',
    "sqlite3": "exec %s -c '" + _QUERY + '\' "$@"',
}


class Step(NamedTuple):
    """A command of a page: what it needs, the line that it is in, its text, and what is shown
    behind it.
    """

    needs: str
    line: int
    command: str
    shown: List[str]


def text_of(page):
    with open(os.path.join(ROOT, *page.split("/")), encoding="utf-8") as stream:
        return stream.read()


def blocks_of(page, language="console"):
    """Yield (line number, second word, lines) of a page's blocks of a language."""
    for match in re.finditer(
        r"^```(\w*) *(\w*)\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE
    ):
        if match.group(1) == language:
            yield (
                match.string.count("\n", 0, match.start()) + 2,
                match.group(2),
                match.group(3).splitlines(),
            )


def steps_of(page) -> List[Step]:
    """Return the commands of a page's blocks, in order."""
    found: List[Step] = []
    for first, needs, lines in blocks_of(page):
        open_line = False
        for number, line in enumerate(lines, first):
            if open_line:
                found[-1] = found[-1]._replace(
                    command=found[-1].command + " " + line.strip().rstrip("\\").rstrip()
                )
            elif line.startswith("$ "):
                found.append(Step(needs, number, line[2:].rstrip("\\").rstrip(), []))
            else:
                found[-1].shown.append(line)
            open_line = line.endswith("\\") and (open_line or line.startswith("$ "))
    return found


def run_steps(page, folder, on_terminal: Callable[..., Any]) -> None:
    """Run the commands of a page that need nothing, in a folder; each must end and print as the
    page says.
    """
    steps = [step for step in steps_of(page) if not step.needs]
    environment = with_shims(str(folder))
    codes, waiting, written = [0], [], []
    for step, following in zip(steps, [*steps[1:], None]):
        place = "%s, line %d: %s" % (page, step.line, step.command)
        if step.command == "echo $?":
            assert step.shown == [str(codes[-1])], place
            continue
        told = following is not None and following.command == "echo $?"
        if step.command.endswith(" &"):
            words, pipes = (
                ["bash", "-c", step.command[:-2]],
                {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
            )
            waiting.append(
                subprocess.Popen(
                    words, cwd=str(folder), env=environment, universal_newlines=True, **pipes
                )
            )
            continue
        if step.command == "wait":
            said = "".join(process.communicate(timeout=300)[0] for process in waiting)
            code = max(process.returncode for process in waiting)
            printed = said if code not in (0, 1) else ""
        elif step.shown:
            printed, code = on_terminal(
                ["bash", "-c", step.command], 80, cwd=str(folder), environment=environment
            )
        else:
            code, printed = _run(step.command, str(folder), environment)
        assert code in (0, 1) or told, "%s\nends with %d: %s" % (place, code, printed)
        codes.append(code)
        if os.environ.get(WRITE) and step.shown and "…" not in step.shown:
            written.append((step, [_lasting(line) for line in _trimmed(printed.splitlines())]))
            continue
        assert matches(step.shown, printed.splitlines()), "%s\nprints\n%s" % (place, printed)
    write_shown(page, written)


def _lasting(line):
    """Return a line with an ellipsis for what is another at each run."""
    return re.sub(r"(?<!\d)20\d{12}(?=\.)|(?<=took )[0-9.]+(?= s)", "…", line.rstrip())


def write_shown(page, written) -> None:
    """Write what was printed into a page, in place of what it shows."""
    lines = text_of(page).splitlines()
    for step, printed in reversed(written):
        start = step.line
        while lines[start - 1].endswith("\\"):
            start += 1
        lines[start : start + len(step.shown)] = printed
    if written:
        with open(os.path.join(ROOT, *page.split("/")), "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")


def _run(command, folder, environment):
    words = shlex.split(command)
    # A program that goldwatch runs writes to a real stdout.
    ours = words[0] == "goldwatch" and words[1] != "run" or words[:2] == ["python", "-m"]
    if ours and not _SHELL & set(words):
        done = run_here([sys.executable, *words[1:]] if words[0] == "python" else words, folder)
    else:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, timeout=300,
        )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def with_shims(folder):
    """Return an environment whose commands are those of this Python, and fewer than 80 columns are
    never assumed.
    """
    shims = os.path.join(folder, ".bin")
    os.makedirs(shims, exist_ok=True)
    for name, body in _SHIMS.items():
        path = os.path.join(shims, name)
        with open(path, "w") as stream:
            stream.write("#!/bin/sh\n" + body.replace("%s", shlex.quote(sys.executable)) + "\n")
        os.chmod(path, 0o755)
    return dict(os.environ, PATH=shims + os.pathsep + os.environ.get("PATH", ""))


def matches(shown, printed) -> bool:
    """Tell whether what is shown is what was printed; nothing shown is always right, blank lines at
    the end do not count.
    """
    while shown and not shown[-1].strip():
        shown = shown[:-1]
    if not shown:
        return True
    lines = (".*?".join(map(re.escape, line.rstrip().split("…"))) + "\n" for line in shown)
    pattern = "".join("(?:.*\n)*?" if line == ".*?\n" else line for line in lines)
    return (
        re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in _trimmed(printed)))
        is not None
    )


def _trimmed(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
