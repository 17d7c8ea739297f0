"""``goldwatch config new``: writes a dump configuration, or lists what of a model can be dumped."""

from __future__ import annotations

import dataclasses
import os
import stat
from typing import Any, Dict, Optional

import click

from ..config.make import Configuration, Request, make_configuration, softened
from ..config.merge_acl_json import merge_dump
from ..config.models import load_for_writing, require_models
from ..config.op_list import list_ops
from ..config.plan import DATA, DEBUG_MODES, LEVELS, MODES, SCENES, DumpPlan, PlanError
from ..config.select import Selection
from ..config.written_forms import FORMS, left_out, read_plan
from ..errors import MissingPath, UsageError, require_file
from ..filesystem.inputs import read_input
from ..filesystem.outputs import replacing
from .common import (
    format_option,
    option_group,
    print_json,
    put,
    put_cells,
    put_file,
    say,
    verbosity_options,
)
from .option_syntax import in_options, parse_list, parse_model, parse_range, parse_skip
from .steps import written_steps

_PLAN_LIMIT_BYTES = 10 * 1024 * 1024


_what = option_group(
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
_where = option_group(
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


@click.command(
    epilog="Example: goldwatch config new --for acl -o acl.json --dump-path /data/dump --om "
    "model.json --layers 'conv*' --mode all",
    short_help="Write a dump configuration.",
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
@format_option
@verbosity_options
def new(
    form: str,
    output: Optional[str],
    force: bool,
    merge: bool,
    list_only: bool,
    cann: Optional[str],
    elsewhere: bool,
    output_format: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Write a dump configuration: acl.json, code for Estimator, session or TensorFlow 2, or a JSON
    of the settings.
    """
    if output == "-":
        output = None
    try:
        if list_only:
            _list(given, output, output_format)
            return
        _check_output(form, output, force, merge)
        configuration = make_configuration(_request(form, cann, elsewhere, given))
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
        if merge:
            # Through a link: it is the file's content that is wanted.
            output_file = os.path.realpath(output)
            _write(output_file, _merged(output_file, configuration))
        else:
            _write(output, configuration.text)
    _report(form, output, configuration, output_format)


def _request(form: str, cann: Optional[str], elsewhere: bool, given: Dict[str, Any]) -> Request:
    """Return the library's request for the given options."""
    if given["plan_file"] is not None:
        _only_with_plan(given)
        plan = _read_plan_file(given["plan_file"])
        return Request(
            form,
            plan,
            complete=True,
            om=given["om"],
            om_names=given["om_name"],
            cann=cann,
            elsewhere=elsewhere,
        )
    plan = DumpPlan(
        dump_path=given["dump_path"],
        models=tuple(parse_model(text) for text in given["model"]) or None,
        mode=given["mode"],
        op_switch=None if given["op_switch"] is None else given["op_switch"] == "on",
        step=written_steps(given["step"] or "") or None,
        data=given["data"],
        stats=parse_list("--stats", given["stats"]),
        level=given["level"],
        debug=given["debug"] or None,
        debug_mode=given["debug_mode"],
        scene=given["scene"],
        kernel_data=parse_list("--kernel-data", given["kernel_data"]),
    )
    if given["radius"] is not None and not given["around"] and given["narrow"] is None:
        raise UsageError("--radius needs --around or --narrow")
    if given["debug_mode"] != "all" and not given["debug"]:
        raise UsageError("--debug-mode needs --debug")
    return Request(
        form=form,
        plan=plan,
        om=given["om"],
        om_names=given["om_name"],
        selection=_selection(given),
        skip_types=tuple(parse_skip("--skip-type", text) for text in given["skip_type"]),
        skip_ops=tuple(parse_skip("--skip-op", text) for text in given["skip_op"]),
        op_ranges=tuple(parse_range(text) for text in given["op_range"]),
        watch_nodes=given["watch_node"],
        narrow=given["narrow"],
        cann=cann,
        elsewhere=elsewhere,
    )


def _selection(given: Dict[str, Any]) -> Selection:
    radius = 1 if given["radius"] is None else given["radius"]
    return Selection(
        given["layers"], given["op_type"], given["around"], radius, given["first"], given["last"]
    )


def _only_with_plan(given: Dict[str, Any]) -> None:
    free = ("plan_file", "om", "om_name")
    for name, value in given.items():
        if (
            name not in free
            and value not in (None, (), False)
            and not (name == "debug_mode" and value == "all")
        ):
            raise UsageError(
                "--plan already says everything: %s cannot be added" % name.replace("_", "-"),
                hint="change the plan's file",
            )


def _read_plan_file(path: str) -> DumpPlan:
    require_file(path, "--plan")
    data = read_input(path, _PLAN_LIMIT_BYTES)
    plan = read_plan(data, path)
    for finding in left_out(data, path):
        say("warning: --plan: %s: %s" % (finding.pointer, finding.message), False)
    return plan


def _list(given: Dict[str, Any], output: Optional[str], output_format: str) -> None:
    """Print the ops of the models, all or those that are chosen."""
    if output is not None:
        raise UsageError("--list prints on stdout; -o has no use")
    models = load_for_writing(given["om"], given["om_name"])
    require_models(models, "--list")
    ops = list_ops(models, _selection(given))
    if output_format == "json":
        print_json({"ops": [dataclasses.asdict(op) for op in ops]})
        return
    for op in ops:
        told = op.reason or "dumpable"
        if op.dumpable and op.reason:
            told = "dumpable, %s" % op.reason
        cells = (op.op, op.type, ",".join(op.original_names) or "*", told)
        put_cells(cells)


def _check_output(form: str, path: Optional[str], force: bool, merge: bool) -> None:
    """Refuse what would overwrite a file that the user did not give up."""
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
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise MissingPath("-o: the folder %s does not exist" % folder, hint="make it first")
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
    """Write the file whole or not at all, with the mode of the one that it replaces."""
    mode = (
        stat.S_IMODE(os.stat(path).st_mode)
        if os.path.isfile(path) and not os.path.islink(path)
        else None
    )
    with replacing(path) as stream:
        stream.write(text)
    if mode is not None:
        os.chmod(path, mode)


def _report(
    form: str, output: Optional[str], configuration: Configuration, output_format: str
) -> None:
    """Print the configuration, or what was written."""
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
