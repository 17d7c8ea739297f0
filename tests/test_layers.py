"""Folders are layers: each module imports only what stands above it in CONTRIBUTING.md's table."""

from __future__ import annotations

import ast
import functools
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = {
    "goldwatch": "orchestrator",
    "goldwatch.adapters": "adapters",
    "goldwatch.schemas": "schemas",
    "goldwatch.proto": "proto",
}
LAYERS = (
    ("goldwatch", "goldwatch.base"),
    ("goldwatch.proto",),
    ("goldwatch.schemas",),
    ("goldwatch.kinds",),
    ("goldwatch.netfiles",),
    ("goldwatch.tensors",),
    ("goldwatch.operators",),
    ("goldwatch.dumps",),
    ("goldwatch.model",),
    ("goldwatch.metrics",),
    ("goldwatch.config.dump_plan", "goldwatch.config.dump_steps"),
    ("goldwatch.adapters",),
    ("goldwatch.recomputing.submodel",),
    ("goldwatch.recomputing",),
    ("goldwatch.judging",),
    ("goldwatch.judging.diagnosis",),
    ("goldwatch.store",),
    ("goldwatch.reports",),
    ("goldwatch.tools.inspect",),
    ("goldwatch.tools.convert",),
    ("goldwatch.config",),
    ("goldwatch.run",),
    ("goldwatch.cluster",),
    ("goldwatch.tools.detail",),
    # Beside each other: neither imports the other.
    ("goldwatch.device.launch",),
    ("goldwatch.run",),
    ("goldwatch.run.merging",),
    ("goldwatch.run.replay",),
    ("goldwatch.device.cure",),
    ("goldwatch.tools.doctor",),
    ("goldwatch.reports.pages",),
    ("goldwatch.testing",),
    ("goldwatch.device.locate",),
    ("goldwatch.service",),
    ("goldwatch.api",),
    (
        "goldwatch.cli",
        "goldwatch.__main__",
        "goldwatch.testing.commands",
        "goldwatch.testing.__main__",
    ),
)
ADAPTERS_MAY_IMPORT = (
    "goldwatch.base.errors",
    "goldwatch.base.atomic_writing",
    "goldwatch.base.mounts",
    "goldwatch.base.safe_reading",
    "goldwatch.base.interrupts",
    "goldwatch.base.lazy_imports",
    "goldwatch.base.manifest",
    "goldwatch.base.system",
    "goldwatch.base.naming",
    "goldwatch.base.protowire",
    "goldwatch.base.element_types",
    "goldwatch.base.fast_dataclasses",
    "goldwatch.base.notes",
    "goldwatch.base.shortening",
    "goldwatch.base.wording",
    "goldwatch.kinds",
    "goldwatch.netfiles",
    "goldwatch.operators",
    "goldwatch.base.user_code",
    "goldwatch.config.dump_plan",
    "goldwatch.adapters",
)


@functools.lru_cache(maxsize=None)
def modules():
    found = []
    for package, folder in FOLDERS.items():
        for base, _, files in os.walk(os.path.join(ROOT, folder)):
            for name in files:
                if name.endswith(".py"):
                    inside = os.path.relpath(os.path.join(base, name), os.path.join(ROOT, folder))[
                        :-3
                    ].replace(os.sep, ".")
                    module = package if inside == "__init__" else package + "." + inside
                    found.append(
                        (
                            module[: -len(".__init__")] if module.endswith(".__init__") else module,
                            os.path.join(base, name),
                        )
                    )
    return sorted(found)


def imports(module, path):
    with open(path, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join(parents + ([base] if base else []))
            # "from ..base import naming" names a module, not the package.
            known = dict(modules())
            yield from (
                base + "." + alias.name
                if base == "goldwatch" or base + "." + alias.name in known
                else base
                for alias in node.names
            )


def layer(module):
    best = max(
        (
            name
            for names in LAYERS
            for name in names
            if module == name or module.startswith(name + ".")
        ),
        key=len,
    )
    return next(number for number, names in enumerate(LAYERS) if best in names)


@pytest.mark.parametrize(("module", "path"), modules(), ids=[module for module, _ in modules()])
def test_a_module_imports_only_layers_above_it(module, path) -> None:
    if module == "goldwatch":
        return  # Its public names are imported when first used; tests/test_api.py sees to it.
    for name in imports(module, path):
        if name == "goldwatch" or name.startswith("goldwatch."):
            assert layer(name) <= layer(module), "%s imports %s, which stands below it" % (
                module,
                name,
            )
            if module.startswith("goldwatch.adapters"):
                allowed = name == "goldwatch.__version__"
                allowed = allowed or any(
                    name == other or name.startswith(other + ".") for other in ADAPTERS_MAY_IMPORT
                )
                assert allowed, (
                    "%s imports %s: adapters run inside the framework's own environment"
                    % (module, name)
                )


ASKS = re.compile(
    r"os\.path\.(isdir|isfile|exists|lexists|getsize|getmtime|samefile)\b"
    r"|os\.(listdir|scandir|walk|l?stat)\b|glob\.glob\b"
)
OF_TARGET = (
    *("base.manifest", "dumps", "model", "metrics", "judging", "run"),
    *("tools.detail", "tools.inspect"),
)
MAY_ASK = {
    "base.manifest": "a golden folder's manifest",
    "dumps.folder_listing": "TARGET and GOLDEN, for all others",
    "dumps.dump_index": "whether they are files",
    "dumps.place": "a table whose rows are taken as files",
    "dumps.statistics_csv": "a table whose rows are taken as files",
    "metrics.compiled.choice": "the kernel",
    "model.graphs_of_run": "graphs that TorchAir writes into the dump folder",
    "model.read_model": "the model's file",
    "metrics.user_metrics": "the user's code",
    "run.arriving_files": "links that arrive",
    "run.compare_final_outputs": "the model",
    "run.comparison_options": "the model, and a TARGET that is to come",
    "run.dump_deletion": "what is deleted",
    "run.golden_files": "links to golden data, and the ranks beside TARGET",
    "run.inotify": "folders that are watched",
    "run.merging.host_run_reader": "stores of other hosts",
    "run.output_files": "files that the user names one by one",
    "run.output_plan": "files that the user names one by one",
    "run.replay.model_pieces": "OUT",
    "run.replay.run": "OUT",
    "run.result": "OUT",
    "run.watch": "links that arrive",
    "run.watched_folders": "folders that are watched",
    "run.whole_run": "the model",
    "tools.detail.tensor_detail": "OUT",
}


def test_one_module_asks_the_file_system_about_target_and_golden():
    """So that files can come from another place: CONTRIBUTING tells how."""
    asking = set()
    for module, path in modules():
        name = module.partition(".")[2]
        if any(name == one or name.startswith(one + ".") for one in OF_TARGET):
            with open(path, encoding="utf-8") as stream:
                asking |= {name} if ASKS.search(stream.read()) else set()
    assert asking == set(MAY_ASK), "dumps/folder_listing.py tells how a file looks, and lists"


def runtime_imports(module, path):
    """Yield the modules that a module imports, on its top or in a function, but not those that only
    its annotations need.
    """
    with open(path, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            node.body = []
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    known = dict(modules())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join(parents + ([node.module] if node.module else []))
            yield from (
                base + "." + alias.name if base + "." + alias.name in known else base
                for alias in node.names
            )


def test_modules_do_not_import_each_other_in_circles():
    """By way of others neither."""
    waiting = {
        module: set(runtime_imports(module, path)) - {"goldwatch"}
        for module, path in modules()
        if module != "goldwatch"
    }
    assert len(waiting) > 200 and waiting["goldwatch.adapters.tensorflow.child"]
    free = True
    while free:
        free = {module for module, needed in waiting.items() if not needed & set(waiting)}
        waiting = {module: needed for module, needed in waiting.items() if module not in free}
    assert waiting == {}


def test_contributings_table_lists_the_folders_there_are():
    with open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8") as stream:
        named = set(
            re.findall(r"`((?:orchestrator|adapters|schemas|proto)/[\w./]*)`", stream.read())
        )
    top = os.path.join(ROOT, "orchestrator")
    there = {
        name + "/"
        for name in os.listdir(top)
        if os.path.isfile(os.path.join(top, name, "__init__.py"))
    }
    there |= {name for name in os.listdir(top) if name.endswith(".py")}
    assert {"orchestrator/" + name for name in there} - named == set()
    assert [name for name in named if not os.path.exists(os.path.join(ROOT, name))] == []
