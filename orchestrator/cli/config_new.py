"""``goldwatch config new``: writes a dump configuration, or lists what of a model can be dumped."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from typing import Iterable, Optional, Tuple

import click

from ..base.atomic_writing import atomic_text_writer
from ..base.errors import MissingPath, UsageError, require_file
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import read_input
from ..config.dump_plan import (
    DATA,
    DEBUG_MODES,
    LEVELS,
    MODES,
    POSITION,
    SCENES,
    DumpPlan,
    ModelDump,
    PlanError,
    Skip,
)
from ..config.dump_plan_formats import FORMS, left_out, read_plan
from ..config.layer_selection import Selection, list_ops
from ..config.make_configuration import Configuration, Request, make_configuration, softened
from ..config.merge_acl_json import merge_dump
from ..config.models import load_models, models_to_dump, require_models
from .command import PrintArguments, command, format_option, topic, verbosity_options
from .config_check import devices_option
from .output_file_checks import make_room, require_room
from .printing import columns_of, print_json, put, put_cells, put_file, put_wrapped, say
from .progress import ProgressBar
from .step_lists import written_steps

#: The option of config new that says a field, as the plan, the request or the consumer calls it.
_OPTIONS = {
    "dump_path": "--dump-path", "dump_mode": "--mode", "dump_op_switch": "--op-switch",
    "dump_step": "--step", "dump_data": "--data",
    "dump_stats": "--stats", "dump_level": "--level", "dump_debug": "--debug",
    "dump_scene": "--scene", "dump_kernel_data": "--kernel-data",
    "model_name": "--model", "layer": "--model", "watcher_nodes": "--watch-node",
    "optype_blacklist": "--skip-type",
    "opname_blacklist": "--skip-op", "opname_range": "--op-range", "enable_dump_debug": "--debug",
    "dump_debug_mode": "--debug-mode",
    "dump_layer": "--model", "mode": "--mode", "op_switch": "--op-switch", "step": "--step",
    "data": "--data", "stats": "--stats",
    "level": "--level", "debug": "--debug", "debug_mode": "--debug-mode", "scene": "--scene",
    "kernel_data": "--kernel-data",
    "watch_nodes": "--watch-node", "skip_types": "--skip-type", "skip_ops": "--skip-op",
    "op_ranges": "--op-range", "layers": "--layers",
    "types": "--type", "narrow": "--narrow",
}  # fmt: skip
_SHOWS_NAMES = "config new --om MODEL --list shows the names"


def parse_model(text: str) -> ModelDump:
    """Return the model entry of ``NAME[:LAYER,LAYER...]``, split at the first colon; an empty NAME
    stands for all models.

    Raises
    ------
    UsageError
        Both parts are empty, or a layer is.
    """
    name, colon, layers = text.partition(":")
    names = tuple(layers.split(",")) if colon else ()
    if any(not layer.strip() for layer in names):
        raise UsageError(
            "--model: an empty layer name in %r" % text,
            hint="write NAME:LAYER,LAYER, or NAME for all layers",
        )
    if not name and not names:
        raise UsageError("--model: the name is empty", hint="write NAME, or NAME:LAYER,LAYER")
    return ModelDump(name or None, tuple(dict.fromkeys(names)))


def parse_skip(option: str, text: str) -> Skip:
    """Return the blacklist entry of ``NAME[:POS,...]``, split at the last colon.

    Raises
    ------
    UsageError
        The name is empty, or what follows the last colon is no list of positions.
    """
    name, colon, tail = text.rpartition(":")
    if not colon:
        name, tail = text, ""
    positions = tuple(tail.split(",")) if tail else ()
    wrong = [position for position in positions if not POSITION.match(position)]
    if wrong:
        hint = "positions are inputN and outputN; end a name that holds a colon with one more colon"
        raise UsageError("%s: %r in %r is no position" % (option, wrong[0], text), hint=hint)
    if not name:
        raise UsageError(
            "%s: the name is empty in %r" % (option, text), hint="write NAME or NAME:input0,output0"
        )
    return Skip(name, positions)


def parse_range(text: str) -> Tuple[str, str]:
    """Return the ends of ``BEGIN..END``.

    Raises
    ------
    UsageError
        There is no ``..``, or an end is empty.
    """
    begin, dots, end = text.partition("..")
    if not dots or not begin or not end:
        raise UsageError(
            "--op-range: %r is no range" % text, hint="write BEGIN..END with two op names"
        )
    return begin, end


def parse_list(option: str, texts: Iterable[str]) -> Tuple[str, ...]:
    """Return the words of comma lists, each once.

    Raises
    ------
    UsageError
        A word is empty.
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    if any(not word for word in words):
        raise UsageError(
            "%s: an empty word in %r" % (option, ",".join(texts)), hint="write a comma list"
        )
    return tuple(dict.fromkeys(words))


def in_options(error: PlanError) -> UsageError:
    """Return the library's error in the words of the command line."""
    hint, option = error.hint, _OPTIONS.get(error.field)
    if error.field == "om":
        hint = "add --om MODEL.json (made by atc --mode=1)"
    elif error.field == "narrow":
        hint = "name the model that was compared with --om"
    elif hint is None and error.field == "layers":
        hint = _SHOWS_NAMES
    return UsageError(error.detail, hint, option)


_PLAN_LIMIT_BYTES = 10 * 1024 * 1024


_what = topic(
    "What is dumped",
    click.option("--dump-path", metavar="PATH", help="Existing folder that dumps go to."),
    click.option(
        "--model",
        "model",
        multiple=True,
        metavar="NAME[:LAYER,LAYER...]",
        help="Model and layers of it; repeatable.",
    ),
    click.option("--mode", type=click.Choice(MODES), help="Dump inputs, outputs or both."),
    click.option(
        "--op-switch",
        type=click.Choice(["on", "off"]),
        help="Dump ops that are called one by one (acl).",
    ),
    click.option("--step", metavar="0|5-9", help="Iterations to dump; all by default."),
    click.option("--data", type=click.Choice(DATA), help="Whole tensors or statistics."),
    click.option(
        "--stats",
        multiple=True,
        metavar="LIST",
        help="Which statistics, such as Max,Min,Nan (acl, with --data stats).",
    ),
    click.option(
        "--level", type=click.Choice(LEVELS), help="Ops of models, aclnn kernels, or both (acl)."
    ),
    click.option("--debug", is_flag=True, help="Dump ops that overflow, instead of models."),
    click.option(
        "--debug-mode",
        type=click.Choice(DEBUG_MODES),
        default="all",
        help="Which overflows (npu kinds).",
    ),
    click.option(
        "--scene",
        type=click.Choice(SCENES),
        metavar="SCENE",
        help="Exception dump, or the memory watcher (acl): %s." % ", ".join(SCENES),
    ),
    click.option(
        "--watch-node",
        multiple=True,
        metavar="OP",
        help="Op to watch, with --scene watcher; repeatable (acl).",
    ),
    click.option(
        "--skip-type",
        multiple=True,
        metavar="TYPE[:POS,...]",
        help="Leave out input0, output1 ... of a type; repeatable (acl).",
    ),
    click.option(
        "--skip-op",
        multiple=True,
        metavar="NAME[:POS,...]",
        help="The same for one op; repeatable (acl).",
    ),
    click.option(
        "--op-range",
        multiple=True,
        metavar="BEGIN..END",
        help="Only ops from BEGIN to END as they run; repeatable (acl).",
    ),
    click.option(
        "--kernel-data",
        multiple=True,
        metavar="LIST",
        help="Kernel debug data: all, printf, tensor, assert, timestamp (acl).",
    ),
)
_where = topic(
    "Which ops",
    click.option(
        "--om",
        multiple=True,
        metavar="MODEL.json",
        help="Model json or ge_proto_*_Build.txt that names come from; repeatable.",
    ),
    click.option(
        "--om-name",
        multiple=True,
        metavar="NAME",
        help="What the model's .om file is called; as often as --om, or once.",
    ),
    click.option(
        "--layers",
        multiple=True,
        metavar="GLOB",
        help="Layers by name, before or after fusion; repeatable.",
    ),
    click.option(
        "--type", "op_type", multiple=True, metavar="TYPE", help="Layers by op type; repeatable."
    ),
    click.option(
        "--around", multiple=True, metavar="OP", help="An op and its neighbours; repeatable."
    ),
    click.option(
        "--radius",
        type=click.IntRange(min=0),
        metavar="N",
        help="Edges that --around and --narrow go; 1 by default.",
    ),
    click.option(
        "--first",
        type=click.IntRange(min=1),
        metavar="N",
        help="The first N ops, of those chosen otherwise or of all.",
    ),
    click.option(
        "--last", type=click.IntRange(min=1), metavar="N", help="The last N ops, likewise."
    ),
    click.option(
        "--narrow",
        metavar="RESULT_STORE",
        help="Around the first divergence of an earlier comparison (its output folder).",
    ),
    click.option(
        "--plan",
        "plan_file",
        metavar="FILE",
        help="Take the plan from a file (any form that config new writes).",
    ),
)


@dataclass(frozen=True)
class _PlanArguments:
    """The options that a plan's file replaces."""

    dump_path: Optional[str]
    model: Tuple[str, ...]
    mode: Optional[str]
    op_switch: Optional[str]
    step: Optional[str]
    data: Optional[str]
    stats: Tuple[str, ...]
    level: Optional[str]
    debug: bool
    debug_mode: str
    scene: Optional[str]
    watch_node: Tuple[str, ...]
    skip_type: Tuple[str, ...]
    skip_op: Tuple[str, ...]
    op_range: Tuple[str, ...]
    kernel_data: Tuple[str, ...]
    layers: Tuple[str, ...]
    op_type: Tuple[str, ...]
    around: Tuple[str, ...]
    radius: Optional[int]
    first: Optional[int]
    last: Optional[int]
    narrow: Optional[str]


@dataclass(frozen=True)
class _Arguments(_PlanArguments, PrintArguments):
    """The arguments of ``goldwatch config new``."""

    form: str
    output: Optional[str]
    force: bool
    merge: bool
    om: Tuple[str, ...]
    om_name: Tuple[str, ...]
    plan_file: Optional[str]
    list_only: bool
    cann: Optional[str]
    elsewhere: bool
    devices: int


@command(
    epilog="Example: goldwatch config new --for acl -o acl.json --dump-path /data/dump --om "
    "model.json --layers 'conv*' --mode all",
    short_help="Write a dump configuration.",
    arguments=_Arguments,
    first=("form", "output", "dump_path", "om", "mode"),
)
@click.option(
    "--for",
    "form",
    type=click.Choice(FORMS),
    default="acl",
    show_default=True,
    help="What is written.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="The file to write, a new one; stdout by default."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--merge",
    is_flag=True,
    help="Replace the dump section of FILE, an acl.json; every other byte stays.",
)
@_what
@_where
@click.option(
    "--list",
    "list_only",
    is_flag=True,
    help="Only list the model's ops: op, type, original names, dumpable or why not.",
)
@click.option(
    "--cann",
    metavar="VERSION",
    help="The CANN in use: warn about fields first seen in a newer one.",
)
@click.option(
    "--elsewhere",
    is_flag=True,
    help="The configuration is for another machine: do not judge this file system.",
)
@devices_option
@format_option
@verbosity_options
def new(arguments: _Arguments) -> None:
    """Write a dump configuration: acl.json, code for Estimator, session or TensorFlow 2, or a JSON
    of the settings.
    """
    form, quiet = arguments.form, arguments.quiet
    output = None if arguments.output == "-" else arguments.output
    try:
        if arguments.list_only:
            _list(arguments, output)
            return
        _check_output(form, output, arguments.force, arguments.merge)
        with ProgressBar("reading", quiet) as bar:
            bar.update(0, 0)
            configuration = make_configuration(_request(arguments))
    except PlanError as error:
        raise in_options(error) from error
    for remark in configuration.remarks:
        say("note: " + remark, quiet)
    for finding in softened(configuration.report.findings):
        fix = "" if finding.severity == "note" else "; fix: " + finding.fix
        say(
            "%s: %s%s" % (finding.severity, finding.message, fix),
            quiet and finding.severity == "note",
        )
    if output is not None:
        make_room(output)
        if arguments.merge:
            # Follow links: the content of the file is replaced, not the link.
            output_file = os.path.realpath(output)
            _write(output_file, _merged(output_file, configuration))
        else:
            _write(output, configuration.text)
    _report(form, output, configuration, arguments.output_format)


def _request(arguments: _Arguments) -> Request:
    if arguments.plan_file is not None:
        for name in (field.name for field in dataclasses.fields(_PlanArguments)):
            value = getattr(arguments, name)
            if value not in (None, (), False) and not (name == "debug_mode" and value == "all"):
                raise UsageError(
                    "--plan already says everything: %s cannot be added" % name.replace("_", "-"),
                    hint="change the plan's file",
                )
        plan = _read_plan_file(arguments.plan_file)
        return Request(
            arguments.form,
            plan,
            complete=True,
            om=arguments.om,
            om_names=arguments.om_name,
            cann=arguments.cann,
            elsewhere=arguments.elsewhere,
            devices=arguments.devices,
        )
    plan = DumpPlan(
        dump_path=arguments.dump_path,
        models=tuple(parse_model(text) for text in arguments.model) or None,
        mode=arguments.mode,
        op_switch=None if arguments.op_switch is None else arguments.op_switch == "on",
        step=written_steps(arguments.step or "") or None,
        data=arguments.data,
        stats=parse_list("--stats", arguments.stats),
        level=arguments.level,
        debug=arguments.debug or None,
        debug_mode=arguments.debug_mode,
        scene=arguments.scene,
        kernel_data=parse_list("--kernel-data", arguments.kernel_data),
    )
    if arguments.radius is not None and not arguments.around and arguments.narrow is None:
        raise UsageError("--radius needs --around or --narrow")
    if arguments.debug_mode != "all" and not arguments.debug:
        raise UsageError("--debug-mode needs --debug")
    return Request(
        form=arguments.form,
        plan=plan,
        om=arguments.om,
        om_names=arguments.om_name,
        selection=_selection(arguments),
        skip_types=tuple(parse_skip("--skip-type", text) for text in arguments.skip_type),
        skip_ops=tuple(parse_skip("--skip-op", text) for text in arguments.skip_op),
        op_ranges=tuple(parse_range(text) for text in arguments.op_range),
        watch_nodes=arguments.watch_node,
        narrow=arguments.narrow,
        cann=arguments.cann,
        elsewhere=arguments.elsewhere,
        devices=arguments.devices,
    )


def _selection(arguments: _Arguments) -> Selection:
    radius = 1 if arguments.radius is None else arguments.radius
    return Selection(
        arguments.layers,
        arguments.op_type,
        arguments.around,
        radius,
        arguments.first,
        arguments.last,
    )


def _read_plan_file(path: str) -> DumpPlan:
    require_file(path, "--plan")
    data = read_input(path, _PLAN_LIMIT_BYTES)
    plan = read_plan(data, path)
    for finding in left_out(data, path):
        say("warning: --plan: %s: %s" % (finding.pointer, finding.message), False)
    return plan


def _list(arguments: _Arguments, output: Optional[str]) -> None:
    """Print the ops of the models, all or those that are chosen."""
    if output is not None:
        raise UsageError("--list prints on stdout; -o has no use")
    models = models_to_dump(load_models(arguments.om, arguments.om_name), arguments.om_name)
    require_models(models, "--list")
    ops = list_ops(models, _selection(arguments))
    if arguments.output_format == "json":
        print_json({"ops": [dataclasses.asdict(op) for op in ops]})
        return
    for op in ops:
        remark = op.reason or "dumpable"
        if op.dumpable and op.reason:
            remark = "dumpable, %s" % op.reason
        cells = (op.op, op.type, ",".join(op.original_names) or "*", remark)
        if columns_of(sys.stdout):
            put_wrapped("  ".join(cells), "    ")
        else:
            put_cells(cells)


def _check_output(form: str, path: Optional[str], force: bool, merge: bool) -> None:
    """Refuse to overwrite a file unless ``--force`` or ``--merge`` allows it."""
    if (force or merge) and path is None:
        raise UsageError("--force and --merge are about the file that -o names")
    if force and merge:
        raise UsageError(
            "--force replaces the whole file, --merge only its dump section",
            hint="choose one of them",
        )
    if merge and form != "acl":
        raise UsageError(
            "--merge: only acl.json has a dump section beside others, not --for %s" % form
        )
    if path is None:
        return
    if not os.path.isdir(os.path.dirname(path) or "."):
        require_room("-o %s" % path, path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise MissingPath(
            "-o: %s is not a regular file" % path,
            hint="name a file, or leave -o out to print on stdout",
        )
    if os.path.lexists(path) and not force and not merge:
        hint = (
            "--merge replaces only its dump section, --force the whole file"
            if form == "acl"
            else "--force replaces it"
        )
        raise UsageError("-o: %s exists and is left as it is" % path, hint=hint)


def _merged(path: str, configuration: Configuration) -> str:
    """Return the text of the file at ``path`` with the configuration's dump section."""
    data = b""
    if os.path.exists(path):
        require_file(path, "-o")
        data = read_input(path, _PLAN_LIMIT_BYTES)
    return merge_dump(data, configuration.text, path).decode("utf-8")


def _write(path: str, text: str) -> None:
    """Replace a file atomically; the new one keeps the mode of the old one."""
    mode = (
        stat.S_IMODE(os.stat(path).st_mode)
        if os.path.isfile(path) and not os.path.islink(path)
        else None
    )
    with atomic_text_writer(path) as stream:
        stream.write(text)
    if mode is not None:
        os.chmod(path, mode)


def _report(
    form: str, output: Optional[str], configuration: Configuration, output_format: str
) -> None:
    if output_format == "json":
        print_json(
            {
                "file": output,
                "for": form,
                "plan": configuration.plan.to_document(),
                "text": configuration.text,
                "remarks": list(configuration.remarks),
                "findings": [
                    finding.to_document() for finding in softened(configuration.report.findings)
                ],
            }
        )
    elif output is None:
        put_file(configuration.text)
    else:
        put("wrote %s" % output)
