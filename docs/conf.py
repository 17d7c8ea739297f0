"""The pages as a site: scripts/docs builds it with Sphinx, from the Markdown that is read here too.

README is its first page; the source folder is the checkout, so that links lead to the same files.
"""

import os

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

GROUPS = {
    "Start": ["guide", "locate", "migrating", "glossary", "install", "doctor"],
    "Tasks": [
        "configuration", "caffe", "tensorflow", "onnx", "torchair", "watch", "outputs",
        "statistics", "exact", "two-builds", "replay", "submodel", "compare-op", "cure",
        "diff", "graph", "report", "service", "scale", "inspect", "convert",
    ],
    "Reference": [
        "reference/" + name for name in (
            "cli", "python", "results", "verdict", "metrics", "pairing", "layouts", "dump-files",
            "testing", "interrupts",
        )
    ],
    "Design": [
        "design/performance", "design/verdict", "design/trials", "design/cure", "design/scale",
        "../CONTRIBUTING", "../CHANGELOG", "../SECURITY",
    ],
    "简体中文": ["../README.zh", "zh/guide", "zh/locate", "zh/cure", "zh/migrating", "zh/glossary"],
}  # fmt: skip
"""The navigation beside every page. A page that is in no group is an error."""

project = "goldwatch"
html_title = project
html_theme = "furo"
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [
    name
    for name in os.listdir(CHECKOUT)
    if name != "docs" and os.path.isdir(os.path.join(CHECKOUT, name))
]
# Links to headings as GitHub has them.
myst_heading_anchors = 4
# Blocks with `…` for what is left out are no whole JSON or YAML.
suppress_warnings = ["misc.highlighting_failure"]


def add_navigation(_, name, source):
    """Append the groups to the first page, where Sphinx looks for them."""
    if name == root_doc:
        for caption, pages in GROUPS.items():
            paths = [os.path.normpath(os.path.join("docs", page)) for page in pages]
            source[0] += "\n```{toctree}\n:hidden:\n:caption: %s\n%s\n```\n" % (
                caption,
                "\n".join(paths),
            )


def setup(app):
    """Have Sphinx call what this file adds."""
    app.connect("source-read", add_navigation)
