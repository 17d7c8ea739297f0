"""README and the pages in docs/: commands exist and their options parse, links lead somewhere, the output shown is what comes out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import click
import pytest

from goldwatch.cli import goldwatch
from goldwatch.testing.__main__ import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md", "CONTRIBUTING.md"] + sorted("docs/" + name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
DEMO = os.path.join(ROOT, "scripts", "demo_network.py")
BROKEN = "res2a_branch2ares2a_branch2a_relu"


def text_of(page):
    with open(os.path.join(ROOT, *page.split("/")), encoding="utf-8") as stream:
        return stream.read()


def call(words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120, **options)


def shown_commands(page):
    """Return the command lines of a page: those behind a $ in its blocks, and those in `...`."""
    text = text_of(page)
    blocks = re.findall(r"^```(?:console|text|sh|bash)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line[2:] for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`((?:goldwatch |scripts/|python -m goldwatch)[^`\n]*)`", prose)
    return [(line, True) for line in lines] + [(line, False) for line in inline]


def parse(group, words, whole):
    """Let click parse the words; with an incomplete example only the command and its options must exist."""
    context = click.Context(group, info_name="goldwatch")
    command = group
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0].isupper():
            return  # a placeholder such as COMMAND
        found = command.get_command(context, words[0])
        assert found is not None, "no command %s" % words[0]
        command, words = found, words[1:]
    if whole and not isinstance(command, click.Group) and not {"--help", "-h"} & set(words):
        command.make_context("goldwatch", list(words))
        return
    known = {"--help", "-h", "--version"}.union(*[option.opts + option.secondary_opts for option in command.params])
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            assert word.split("=")[0] in known, "no option %s" % word


ALL = [(page, line, whole) for page in PAGES for line, whole in shown_commands(page)]


@pytest.mark.parametrize("page, line, whole", ALL, ids=["%s: %s" % entry[:2] for entry in ALL])
def test_commands_exist_and_their_options_parse(page, line, whole) -> None:
    words = shlex.split(line.replace("…", "").replace("'…'", ""))
    if words[0] == "goldwatch":
        parse(goldwatch, words[1:], whole)
    elif words[:2] == ["python", "-m"] and words[2].startswith("goldwatch"):
        assert words[2] in ("goldwatch", "goldwatch.testing")
        parse(program if words[2] == "goldwatch.testing" else goldwatch, words[3:], whole)
    elif words[0].startswith("scripts/"):
        path = os.path.join(ROOT, words[0])
        assert os.path.isdir(path) or os.access(path, os.X_OK) or path.endswith((".py", ".sh")), "no script %s" % words[0]
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as stream:
                source = stream.read()
            for word in words[1:]:
                if word == "--":
                    break
                assert not word.startswith("-") or word in source, "no option %s" % word


def test_the_readme_starts_with_its_two_commands() -> None:
    commands = [line for line, _ in shown_commands("README.md") if line.startswith("scripts/")]
    first = text_of("README.md").index("`scripts/demo`"), text_of("README.md").index("`scripts/test`")
    assert first == tuple(sorted(first)) and first[1] < text_of("README.md").index("```")
    assert "scripts/demo" in commands and "scripts/test" in commands


@pytest.mark.parametrize("page", PAGES + ["CHANGELOG.md"])
def test_links_lead_somewhere(page) -> None:
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), path)) if path else os.path.join(ROOT, page)
        assert os.path.exists(full), target
        if anchor:
            with open(full, encoding="utf-8") as stream:
                headings = re.findall(r"^#+ (.*)$", stream.read(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], target


def test_every_page_of_docs_is_named_in_the_readme() -> None:
    missing = [page for page in PAGES if page.startswith("docs/") and "](%s)" % page not in text_of("README.md")]
    assert missing == [], "add them to the table at README's end"


def test_the_output_in_the_readme_is_what_comes_out(tmp_path, on_terminal) -> None:
    """The demo's comparison, with the outputs of a real Caffe as golden data."""

    def run(*words):
        done = call([sys.executable] + list(words), cwd=str(tmp_path))
        assert done.returncode in (0, 1), done.stderr
        return done.stdout.splitlines()

    run(DEMO, "golden", "golden")
    run(DEMO, "device", "broken", BROKEN + "=channels")
    words = ["compare", "broken/dump", "golden", "-f", "broken/model.json", "-o", "broken/result"]
    text, code = on_terminal([sys.executable, "-m", "goldwatch", *words], 100, cwd=str(tmp_path))
    assert code == 1
    printed = [line.split(" Results:")[0] for line in text.splitlines()]
    (block,) = re.findall(r"^```text\n(.*?)^```", text_of("README.md"), re.DOTALL | re.MULTILINE)
    shown = [line for line in block.splitlines() if line and not line.startswith("$ ")]
    assert [line for line in shown if line not in printed] == []
    assert run(DEMO, "verdict", "broken/result/result.json", BROKEN)[-1].startswith("found")
    assert [name for name in os.listdir(str(tmp_path / "golden")) if name.startswith("prob.")]


def test_the_python_example_of_the_testing_page_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = re.findall(r"^```python\n(.*?)^```", text_of("docs/testing.md"), re.DOTALL | re.MULTILINE)
    exec(compile(source, "docs/testing.md", "exec"), {})


def test_the_commands_of_the_testing_page_do_what_it_says(tmp_path) -> None:
    lines = [line for line, whole in shown_commands("docs/testing.md") if whole]
    codes = []
    for line in lines:
        words = shlex.split(line.replace("--size 1M", "--size 64K"))
        words = [sys.executable] + (words[1:] if words[0] == "python" else ["-m"] + words)
        done = call(words, cwd=str(tmp_path))
        codes.append(done.returncode)
    assert codes == [0, 0, 1] and "op_12 " in done.stdout.splitlines()[-2]
