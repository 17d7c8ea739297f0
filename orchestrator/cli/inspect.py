"""``goldwatch inspect``."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

import click

from ..base.errors import EXIT_INCOMPLETE, EXIT_PASS, UsageError
from ..base.wording import plural, size_text
from ..dumps.folder_listing import is_folder
from ..tools.inspect.inspect_file import inspect_file
from ..tools.inspect.inspect_tree import inspect_tree
from .command import command, format_option, verbosity_options
from .printing import print_json, put_line
from .progress import ProgressBar

Document = Dict[str, Any]

_MOST = 20
_BAR = 30
_NOT_FINITE = "ops whose outputs hold NaN, Inf or values at the type's limit, by time"


@command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--stats",
    is_flag=True,
    help="Read the tensors too: range, moments, special values, a histogram.",
)
@click.option("--op", metavar="GLOB", help="In a folder: only ops whose name matches.")
@format_option
@verbosity_options
def inspect(paths: Tuple[str, ...], stats: bool, op: Any, output_format: str, quiet: bool) -> int:
    """Show what is in files and folders: dumps, golden files, models, statistics, manifests,
    stores, or what else a file is.

    Exit code: 0 all is whole, 3 some file is damaged, 4 a PATH cannot be read.

    Example: goldwatch inspect dump/20260102030405 --op 'conv*' --stats
    """
    documents = []
    for path in paths:
        if is_folder(path):
            with ProgressBar("looking", quiet) as bar:
                documents.append(inspect_tree(path, stats, op, lambda count: bar.update(count, 0)))
        elif op is not None:
            raise UsageError("--op chooses among the ops of a folder; %s is none" % path)
        else:
            with ProgressBar("reading %s" % path, quiet) as bar:
                bar.update(0, 0)
                documents.append(inspect_file(path, stats))
    if output_format == "json":
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        for document in documents:
            for line in lines_of(document):
                put_line(line)
    return EXIT_INCOMPLETE if any(damaged(document) for document in documents) else EXIT_PASS


def damaged(document: Document) -> bool:
    """Tell whether a file is damaged, or a tree contains a damaged one."""
    parts = (*document.get("tensors", ()), *document.get("overflow", ()))
    return bool(
        document.get("problem")
        or document.get("broken")
        or any(entry.get("problem") for entry in parts)
    )


def lines_of(document: Document) -> Iterator[str]:
    """Yield the lines that show a document on a terminal."""
    if document["kind"] == "tree":
        yield from _tree_lines(document)
        return
    yield "%s: %s%s" % (
        document["path"],
        document.get("what") or _KINDS[document["kind"]],
        _facts(document),
    )
    if document.get("problem"):
        yield "  PROBLEM: %s" % document["problem"]
    for entry in document.get("tensors", ()):
        yield from _tensor_lines(entry)
    for name in ("buffers", "spaces"):
        for region in document.get(name, ()):
            yield "  %s %d: %d bytes at %d" % (
                name[:-1],
                region["index"],
                region["bytes"],
                region["offset"],
            )
    for entry in document.get("remarkable", ())[:_MOST]:
        yield "  remarkable: " + _remarkable_line(entry)
    for row in document.get("rows", ()):
        yield "  " + _statistics_row(row)
    for record in document.get("records", ()):
        yield "  record: " + _words(record)


_KINDS = {
    "dump": "dump file",
    "overflow": "overflow record",
    "npy": "npy",
    "model": "model",
    "manifest": "manifest of golden data",
    "store": "store of a run",
    "mapping": "mapping of over-long names",
}
# Of statistics the columns that tell what is wrong or how large values are, in this order; which
# there are differs between versions.
_LEADING = ("Max Value", "Min Value", "Avg Value", "l2norm", "L2Norm Value", "Count",
"Nan Count", "NaN Count", "Negative Inf Count",
               "Positive Inf Count")  # fmt: skip


def _facts(document: Document) -> str:
    shown = (
        *(
            "version",
            "blobs",
            "inputs",
            "outputs",
            "op_name",
            "header_bytes",
            "bytes",
            "name",
            "graphs",
            "ops",
            "originals",
            "fused",
        ),
        *(
            "inserted",
            "types",
            "layouts",
            "backend",
            "backend_version",
            "files",
            "skipped",
            "complete",
            "verdicts",
            "names",
        ),
    )
    parts = [
        "%s %s" % (name.replace("_", " "), _words(document[name]))
        for name in shown
        if document.get(name) not in (None, "", [], {})
    ]
    generation = str(document.get("header_version", ""))
    if generation.startswith("nano"):
        parts.insert(0, "of a nano device (%s)" % generation)
    return ", " + ", ".join(parts) if parts else ""


def _statistics_row(row: Document) -> str:
    """Return one tensor's statistics as a line: its name and form, then the most telling numbers,
    then the others in the order of the file.
    """
    leading = [name for name in _LEADING if row.get(name)]
    named = [
        name
        for name in ("Op Name", "Input/Output", "Index", "Data Type", "Format", "Shape")
        if row.get(name)
    ]
    others = [
        name
        for name in row
        if name not in (*leading, *named, "Data Size", "Op Type", "Model Name") and row[name]
    ]
    return "%s: %s" % (
        " ".join(row[name] for name in named),
        ", ".join("%s %s" % (name, row[name]) for name in (*leading, *others)),
    )


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(
            "%s %s" % (name, _words(entry)) for name, entry in list(value.items())[:_MOST]
        )
    return " ".join(str(entry) for entry in value) if isinstance(value, list) else str(value)


def _shape(dims: Any) -> str:
    return "-" if dims is None else "[%s]" % ",".join(str(dim) for dim in dims)


def _tensor_lines(entry: Document) -> Iterator[str]:
    place = "%s %d" % (entry["kind"], entry["index"])
    facts = [entry["dtype"], entry["layout"] or "", _shape(entry["shape"])]
    if entry["original_shape"] is not None:
        facts.append("original %s" % _shape(entry["original_shape"]))
    facts.append("%d bytes at %d" % (entry["bytes"], entry["offset"]))
    if entry["address"] is not None:
        facts.append("address 0x%x" % entry["address"])
    if entry.get("original_name"):
        facts.append("of %s:%d" % (entry["original_name"], entry["original_index"]))
    yield "  %-9s %s" % (place, "  ".join(fact for fact in facts if fact))
    if entry.get("problem"):
        yield "    PROBLEM: %s" % entry["problem"]
    if "stats" in entry:
        yield from _statistics_lines(entry["stats"])


def _statistics_lines(stats: Document) -> Iterator[str]:
    def number(name: str) -> str:
        value = stats[name]
        return "%.9g" % value if isinstance(value, float) else str(value)

    yield "    %d elements: min %s, max %s, mean %s, std %s" % (
        stats["count"],
        number("min"),
        number("max"),
        number("mean"),
        number("std"),
    )
    padding = stats.get("padding", {})
    counts = (
        (name, stats[name], padding.get(name))
        for name in ("nan", "inf", "zeros", "subnormals", "saturated")
    )
    yield "    " + ", ".join(
        "%s %d%s" % (name, count, " (%d in the padding)" % hid if hid else "")
        for name, count, hid in counts
    )
    yield "    first: " + " ".join(
        "%.6g" % value if isinstance(value, float) else str(value) for value in stats["first"]
    )
    histogram = stats["histogram"]
    if histogram is not None:
        most = max(histogram["counts"])
        for edge, count in zip(histogram["edges"], histogram["counts"]):
            yield (
                "    %12.5g %s %d" % (edge, ("#" * round(_BAR * count / most)).ljust(_BAR), count)
            ).rstrip()


def _tree_lines(document: Document) -> Iterator[str]:
    summary = "%s: %d files, %s" % (
        document["path"],
        document["files"],
        size_text(document["bytes"]),
    )
    summary += ", %d of them golden files" % document["golden"] if document["golden"] else ""
    yield summary + (
        ", %d of them statistics (dump_data is stats)" % document["statistics_files"]
        if document["statistics_files"]
        else ""
    )
    for place in document["places"]:
        words = [
            "%s %s" % (name, place[name])
            for name in ("device", "model", "model_id", "step", "time")
            if place[name] is not None
        ]
        yield "  %s: %d ops, %d files, %s" % (
            ", ".join(words) or "no place",
            place["ops"],
            place["files"],
            size_text(place["bytes"]),
        )
    for title, entries in _lists_of_tree(document):
        if entries:
            yield "  %s: %d" % (title, len(entries))
            yield from ("    " + line for line in entries[:_MOST])
            if len(entries) > _MOST:
                yield "    … and %d more" % (len(entries) - _MOST)
    for content in document.get("contents", ()):
        yield from lines_of(content)


def _lists_of_tree(document: Document) -> Tuple[Tuple[str, List[str]], ...]:
    return (
        (
            "damaged files",
            ["%s: %s" % (entry["file"], entry["reason"]) for entry in document["broken"]],
        ),
        (
            "ops with several dumps",
            [
                "%s %s: %d files" % (entry["op_type"], entry["op"], entry["files"])
                for entry in document["repeated"]
            ],
        ),
        (
            "hash names",
            [
                "%s: %s" % (entry["file"], entry["op"] or "not in mapping.csv")
                for entry in document["hashed"]
            ],
        ),
        ("overflow records", [_overflow_line(entry) for entry in document["overflow"]]),
        (
            "remarkable statistics",
            [_remarkable_line(entry) for entry in document.get("remarkable", ())],
        ),
        (_NOT_FINITE, [_not_finite_line(entry) for entry in document.get("not_finite", ())]),
        ("files that are no dumps", document["foreign"]),
        ("notes", document["notes"]),
    )


def _remarkable_line(entry: Document) -> str:
    where = (
        ""
        if entry.get("step") is None
        else " in step %s on device %s" % (entry["step"], entry["device"])
    )
    return "%s %s%s: %s" % (
        " ".join(filter(None, (entry["op_type"], entry["op"]))),
        entry["tensor"],
        where,
        entry["what"],
    )


def _not_finite_line(entry: Document) -> str:
    counts = ", ".join(
        "%s %d" % (name, entry[name]) for name in ("nan", "inf", "saturated") if entry[name]
    )
    where = (
        ""
        if entry["step"] is None
        else " in step %s on device %s" % (entry["step"], entry["device"])
    )
    began = "; its inputs hold none: it begins here" if entry["began"] else ""
    return "%s %s%s: %s%s" % (entry["op_type"], entry["op"], where, counts, began)


def _overflow_line(entry: Document) -> str:
    ops = "of %s" % ", ".join(entry["ops"]) if entry["ops"] else "of no op here"
    count = plural(len(entry["records"]), "record")
    return "%s: %s, %s%s" % (
        entry["file"],
        count,
        ops,
        "; " + entry["problem"] if entry.get("problem") else "",
    )
