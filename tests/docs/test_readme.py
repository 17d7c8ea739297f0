"""README and docs/: links lead somewhere, README shows real output, the code runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.base.naming import compose_golden_name
from goldwatch.base.safe_reading import sha256_of_file
from goldwatch.cli import goldwatch
from pages import PAGES, ROOT, TRANSLATIONS, blocks_of, text_of

DEMO = os.path.join(ROOT, "scripts", "demo_network.py")
BROKEN = "res2a_branch2ares2a_branch2a_relu"


def call(words, **options):
    return subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=120,
        **options,
    )


def test_the_readme_starts_with_its_two_commands() -> None:
    first = (
        text_of("README.md").index("`scripts/demo`"),
        text_of("README.md").index("`scripts/test`"),
    )
    assert first == tuple(sorted(first)) and first[1] < text_of("README.md").index("```")


@pytest.mark.parametrize("page", [*PAGES, *TRANSLATIONS, "CHANGELOG.md"])
def test_links_of_every_page_lead_somewhere(page) -> None:
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = (
            os.path.normpath(os.path.join(ROOT, os.path.dirname(page), path))
            if path
            else os.path.join(ROOT, page)
        )
        assert os.path.exists(full), target
        if anchor:
            with open(full, encoding="utf-8") as stream:
                headings = re.findall(r"^#+ (.*)$", stream.read(), re.MULTILINE)
            assert anchor in [
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            ], target


def test_every_page_of_docs_is_named_in_the_readme() -> None:
    missing = [
        page
        for page in PAGES
        if page.startswith("docs/") and "](%s)" % page not in text_of("README.md")
    ]
    assert missing == [], "add them to the table at README's end"


def test_every_command_is_named_in_the_readmes_table() -> None:
    table = text_of("README.md").split("## Where to go on")[1]
    missing = [name for name in goldwatch.lazy if "`%s" % name not in table]
    assert missing == [], "say in the table at README's end which page is about them"


def test_the_demo_prints_what_the_readme_shows(tmp_path, on_terminal) -> None:
    """The demo's comparison, with the outputs of a real Caffe as golden data: the last bits of our
    own are those of a BLAS.
    """

    def run(*words):
        done = call([sys.executable] + list(words), cwd=str(tmp_path))
        assert done.returncode in (0, 1), done.stderr
        return done.stdout.splitlines()

    data = os.path.join(ROOT, "tests", "data", "caffe", "resblock")
    (tmp_path / "golden").mkdir()
    with np.load(os.path.join(data, "expected_layer_outputs.npz")) as outputs:
        for layer, index in (key.rsplit(":", 1) for key in outputs.files):
            name = compose_golden_name(layer, int(index), 1767323045000000)
            np.save(str(tmp_path / "golden" / name), outputs["%s:%s" % (layer, index)])
    original = {"framework": "caffe"}
    for key, name in (("model", "resblock.prototxt"), ("weights", "resblock.caffemodel")):
        path = os.path.join(data, name)
        original[key] = {"path": path, "sha256": sha256_of_file(path)}
    manifest = {"tensors": [], "original": original}
    (tmp_path / "golden" / "manifest.json").write_text(json.dumps(manifest))
    run(DEMO, "device", "broken", BROKEN + "=channels")
    words = ["compare", "broken/dump", "golden", "-f", "broken/model.json", "-o", "broken/result"]
    text, code = on_terminal([sys.executable, "-m", "goldwatch", *words], 100, cwd=str(tmp_path))
    assert code == 1
    printed = [line.split(" Results:")[0] for line in text.splitlines()]
    (block,) = (lines for _, needs, lines in blocks_of("README.md") if needs == "demo")
    shown = [line for line in block if line and not line.startswith("$ ")]
    assert [line for line in shown if line not in printed] == []
    assert run(DEMO, "verdict", "broken/result/result.json", BROKEN)[-1].startswith("found")
    assert [name for name in os.listdir(str(tmp_path / "golden")) if name.startswith("prob.")]


def test_the_python_example_of_the_testing_page_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((_, _, lines),) = blocks_of("docs/reference/testing.md", "python")
    exec(compile("\n".join(lines), "docs/reference/testing.md", "exec"), {})
