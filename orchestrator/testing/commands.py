"""The commands of ``python -m goldwatch.testing``: they make networks and trainings, serve dumps as
a device writes them, and set up a stand-in host.
"""

from __future__ import annotations

import calendar
import json
import os
import time
from typing import Any, Iterable, List, NoReturn, Optional, Tuple

import click
import numpy as np

from ..base.errors import FormatError, UsageError, require_file
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import open_input, read_input
from ..cli.command import CONTEXT, HelpfulGroup
from ..cli.error_handling import run_command
from ..cli.printing import print_json, put
from ..netfiles.caffemodel import read_weights
from .caffe_device import CaffeNetwork
from .device_dump import GENERATIONS, DeviceDump, recorded
from .dump_server import CHUNK_BYTES, DumpServer
from .host.host_config import KINDS as HOST_FAULTS
from .host.host_config import HostConfig
from .host.host_folder import make_host
from .op_faults import KINDS as OP_FAULTS
from .runner_outputs import FORMS, RUNNERS, write_outputs
from .statistics_files import FORMS as STATISTICS
from .statistics_files import as_statistics
from .synthetic_chain import MODEL_FILE, NETWORK_FILE, Network
from .training import Training, Wrong
from .write_faults import KINDS, Fault, quota

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ACL_BYTES = 10 << 20


def size_of(text: Any) -> int:
    """Return the bytes of 4096, 64K, 1M, 2G."""
    if isinstance(text, int):
        return text
    unit = text[-1:].upper() if text[-1:].upper() in _UNITS else ""
    digits = text[: len(text) - len(unit)]
    if not digits.isdigit():
        raise click.BadParameter("%r is no size; examples: 4096, 64K, 1M, 2G" % text)
    return int(digits) * _UNITS[unit]


@click.group(cls=HelpfulGroup, context_settings=CONTEXT)
def program() -> None:
    """Write dumps as an Ascend device does, without a device.

    Example: python -m goldwatch.testing make net --ops 20 && python -m goldwatch.testing serve net
    dump --rate 50M
    """


@program.command()
@click.argument("folder")
@click.option(
    "--ops",
    type=click.IntRange(1),
    metavar="N",
    default=10,
    show_default=True,
    help="How many ops.",
)
@click.option(
    "--size",
    type=size_of,
    metavar="BYTES",
    default="1M",
    show_default=True,
    help="Bytes of each op's output.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    metavar="N",
    default=0,
    show_default=True,
    help="Decides the values.",
)
@click.option(
    "--broken",
    type=int,
    metavar="N",
    help="Op number N (from 0) is computed wrong, and with it all behind it.",
)
@click.option(
    "--inputs/--no-inputs",
    default=True,
    show_default=True,
    help="Whether dumps hold the ops' inputs too.",
)
@click.option("--name", default="net", show_default=True, help="The model's name.")
def make(
    folder: str, ops: int, size: int, seed: int, broken: Optional[int], inputs: bool, name: str
) -> None:
    """Make a network in FOLDER: model.json (the om json), golden/ (npy) and network.json, from
    which serve makes the dumps.
    """
    Network(ops, size, seed, broken, inputs, name).write(folder)
    put("%s: %d ops of %d bytes" % (folder, ops, size))


@program.command()
@click.argument("network")
@click.argument("folder")
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default=RUNNERS[0],
    show_default=True,
    help="Whose names the files have.",
)
@click.option(
    "--outfmt",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="Raw, npy or text.",
)
def outputs(network: str, folder: str, runner: str, outfmt: str) -> None:
    """Write the output of a NETWORK that make made below FOLDER, as a program does that runs an
    om.
    """
    for path in write_outputs(folder, [Network.read(network).output()], runner, outfmt):
        put(path)


@program.command()
@click.argument("folder")
@click.option(
    "--devices",
    type=click.IntRange(1, 64),
    metavar="N",
    default=2,
    show_default=True,
    help="How many.",
)
@click.option(
    "--steps", default="1,2,10", show_default=True, metavar="N,N,…", help="The dump steps."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    metavar="N",
    default=0,
    show_default=True,
    help="Decides the values.",
)
@click.option(
    "--wrong",
    metavar="OP",
    help="This op is computed wrong, such as part0/MatMul, and with it all behind it …",
)
@click.option("--on-device", type=int, metavar="N", help="… on this device only …")
@click.option("--from-step", type=int, metavar="N", help="… from this step on.")
@click.option("--in-step", type=int, metavar="N", help="… in this step only.")
@click.option(
    "--mode",
    type=click.Choice(["all", "input", "output"]),
    default="all",
    show_default=True,
    help="What the dumps hold.",
)
def train(
    folder: str,
    devices: int,
    steps: str,
    seed: int,
    wrong: Optional[str],
    on_device: Optional[int],
    from_step: Optional[int],
    in_step: Optional[int],
    mode: str,
) -> None:
    """Write a training of two models: FOLDER/dump, FOLDER/golden/{step} and FOLDER/graphs (GE's
    text graphs).

    Example: python -m goldwatch.testing train run && goldwatch compare run/dump run/golden -f
    run/graphs -o out
    """
    numbers = steps.split(",")
    if not all(number.isdigit() for number in numbers):
        raise UsageError(
            "--steps %s: expected whole numbers with commas" % steps, hint="for example 1,2,10"
        )
    if os.path.exists(os.path.join(folder, "dump")):
        raise UsageError("%s already holds dumps" % folder, hint="take another folder")
    options = {"--on-device": on_device, "--from-step": from_step, "--in-step": in_step}
    given = [name for name, value in options.items() if value is not None]
    if given and wrong is None:
        raise UsageError("%s needs --wrong, the op that is computed wrong" % given[0])
    if from_step is not None and in_step is not None:
        raise UsageError("--from-step and --in-step do not go together")
    steps_at = tuple(int(number) for number in numbers)
    if in_step is not None and in_step not in steps_at:
        raise UsageError("--in-step %d: --steps has %s" % (in_step, steps))
    if from_step is not None and from_step > max(steps_at):
        raise UsageError("--from-step %d: the last of --steps is %d" % (from_step, max(steps_at)))
    if on_device is not None and on_device not in range(devices):
        raise UsageError(
            "--on-device %d: there %s"
            % (
                on_device,
                "is device 0 only" if devices == 1 else "are devices 0 to %d" % (devices - 1),
            )
        )
    first = in_step if in_step is not None else from_step or 0
    broken = () if wrong is None else (Wrong(wrong, on_device, first, in_step),)
    training = Training(devices=devices, steps=steps_at, seed=seed, wrong=broken, mode=mode)
    training.write(folder)
    put("%s: %d models, %d devices, steps %s" % (folder, len(training.models), devices, steps))


@program.command(
    epilog="Faults: " + "; ".join("%s - %s" % item for item in OP_FAULTS.items()) + "."
)
@click.argument("prototxt")
@click.argument("weights")
@click.argument("folder")
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="BLOB=FILE.npy",
    help="The network's input; repeatable.",
)
@click.option(
    "--op-fault",
    "op_faults",
    multiple=True,
    metavar="OP=KIND[:N]",
    help="What an op computes wrong; see below; repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice(["all", "input", "output"]),
    default="all",
    show_default=True,
    help="What the dumps hold.",
)
@click.option("--name", help="The model's name.  [default: the prototxt's]")
def caffe(
    prototxt: str,
    weights: str,
    folder: str,
    inputs: Tuple[str, ...],
    op_faults: Tuple[str, ...],
    mode: str,
    name: str,
) -> None:
    """Run a small Caffe network as a device would: FOLDER/model.json (the om json) and FOLDER/dump.

    Values are float16, layers fused; the ops behind an op with a fault are computed from its
    wrong values.

    Example: python -m goldwatch.testing caffe net.prototxt net.caffemodel run -i data=input.npy
    --op-fault conv1=scale:1.05
    """
    if os.path.exists(os.path.join(folder, "dump")):
        raise UsageError("%s already holds dumps" % folder, hint="take another folder")
    arrays = {blob: _array(path) for blob, path in _pairs(inputs, "--input")}
    title = name or os.path.splitext(os.path.basename(prototxt))[0]
    model = CaffeNetwork(
        prototxt, read_weights(weights), arrays, title, dict(_pairs(op_faults, "--op-fault"))
    ).model()
    os.makedirs(folder, exist_ok=True)
    model.write_json(os.path.join(folder, MODEL_FILE))
    report = DumpServer(
        os.path.join(folder, "dump"), [dump.only(mode) for dump in model.dumps()]
    ).run()
    put(
        "%s: %d dump files of %s%s"
        % (folder, report.files, title, "; wrong: " + ", ".join(op_faults) if op_faults else "")
    )


@program.command(
    epilog="Faults: %s; op:OP=KIND[:N] - an op of an om is computed wrong, kinds as of caffe; "
    "KIND=PATTERN[@N] - of dump files, as of serve."
    % "; ".join("%s - %s" % item for item in HOST_FAULTS.items())
)
@click.argument("folder")
@click.option("--soc", default="Ascend310P3", show_default=True, help="The chip.")
@click.option(
    "--devices",
    type=click.IntRange(1, 64),
    metavar="N",
    default=1,
    show_default=True,
    help="How many.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Something that goes wrong; see below; repeatable.",
)
@click.option(
    "--delay",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Pause after every dump file.",
)
def host(folder: str, soc: str, devices: int, faults: Tuple[str, ...], delay: float) -> None:
    """Make a stand-in for an Ascend host in FOLDER: atc, ais_bench, msame and the Python module
    acl; set_env.sh brings them into a shell.

    A folder that is such a host already gets the new faults.

    Example: python -m goldwatch.testing host npu --fault op:conv1=scale:1.05 && . npu/set_env.sh
    """
    made = make_host(folder, HostConfig(soc, devices, faults, delay))
    put(
        "%s: %s, %d device%s%s"
        % (
            made.folder,
            soc,
            devices,
            "s" * (devices > 1),
            "; faults: " + ", ".join(faults) if faults else "",
        )
    )


def _pairs(texts: Tuple[str, ...], option: str) -> List[Tuple[str, str]]:
    """Return the two sides of ``NAME=VALUE`` texts; a name may hold a ``=``, what follows none."""
    pairs = [text.rpartition("=") for text in texts]
    for text, (left, _, right) in zip(texts, pairs):
        if not left or not right:
            raise UsageError("%s %s: expected NAME=VALUE" % (option, text))
    return [(left, right) for left, _, right in pairs]


def _array(path: str) -> Any:
    require_file(path, "the input")
    try:
        with open_input(path) as stream:
            return np.load(stream, allow_pickle=False)
    except ValueError as error:
        raise FormatError("no .npy file: %s" % error, path) from None


@program.command()
@click.argument("tree")
@click.argument("root")
@click.option(
    "--form",
    type=click.Choice(STATISTICS),
    default=STATISTICS[0],
    show_default=True,
    help="Whose files, and which columns.",
)
def statistics(tree: str, root: str, form: str) -> None:
    """Write below ROOT what a device writes in place of TREE's dumps where dump_data is stats: a
    CSV of statistics.

    Example: python -m goldwatch.testing statistics run/dump run/stats && goldwatch compare
    run/stats run/golden -f run/model.json -o out
    """
    if os.path.isdir(root) and os.listdir(root):
        raise UsageError("%s is not empty" % root, hint="take another folder")
    put("%s: %d files of statistics" % (root, len(as_statistics(tree, root, form))))


@dataclass(frozen=True)
class _ServeArguments:
    """What ``serve`` is given."""

    source: str
    root: Optional[str]
    acl: Optional[str]
    devices: int
    steps: int
    start: Optional[str]
    generation: str
    rate: Optional[int]
    delay: float
    chunk: int
    seed: int
    open_files: int
    faults: Tuple[str, ...]
    flips: Tuple[str, ...]
    late_mapping: bool
    limit: Optional[int]
    exit_code: int
    output_format: str


@program.command(
    arguments=_ServeArguments,
    epilog="Faults: " + "; ".join("%s - %s" % item for item in KINDS.items()) + ".",
)
@click.argument("source")
@click.argument("root", required=False)
@click.option(
    "--acl",
    metavar="ACL.json",
    help="Take ROOT (dump_path) and, for a folder that make made, dump_mode from this file; "
    "nothing else of it.",
)
@click.option(
    "--devices",
    type=click.IntRange(1, 64),
    metavar="N",
    default=1,
    show_default=True,
    help="Devices that run it.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Steps of each device.",
)
@click.option(
    "--time",
    "start",
    metavar="YYYYMMDDhhmmss",
    help="The time folder and the timestamps.  [default: now]",
)
@click.option(
    "--generation",
    type=click.Choice(GENERATIONS),
    default="stream",
    show_default=True,
    help="Form of the file names.",
)
@click.option(
    "--rate", type=size_of, metavar="BYTES/S", help="Average rate.  [default: as fast as the disk]"
)
@click.option(
    "--delay",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Pause after every chunk.",
)
@click.option(
    "--chunk",
    type=size_of,
    metavar="BYTES",
    default=CHUNK_BYTES,
    help="Largest chunk.  [default: 128M]",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    default=0,
    show_default=True,
    help="Decides how files interleave.",
)
@click.option(
    "--open-files",
    type=click.IntRange(1),
    metavar="N",
    default=2,
    show_default=True,
    help="Files that a device writes at the same time.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND=PATTERN[@N]",
    help="Something that goes wrong; see below; repeatable.",
)
@click.option(
    "--flip",
    "flips",
    multiple=True,
    metavar="OP=ELEMENT[:BITS]",
    help="Bits that an element of an op's output has otherwise.",
)
@click.option("--late-mapping", is_flag=True, help="mapping.csv comes after all files.")
@click.option(
    "--quota",
    "limit",
    type=size_of,
    metavar="BYTES",
    help="The disk holds no more than this below ROOT.",
)
@click.option(
    "--exit-code",
    type=click.IntRange(0, 255),
    metavar="N",
    default=0,
    help="End with this code, as a program that fails.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Of the report on stdout.",
)
def serve(arguments: _ServeArguments) -> int:
    """Write dumps below ROOT. SOURCE is a folder that make made, or a dump tree that is to be
    written once more, byte for byte.

    Example: python -m goldwatch.testing serve net dump --devices 2 --steps 3 --rate 50M --fault
    drop_chunk=op_3@0
    """
    root, acl = arguments.root, arguments.acl
    root, mode = (root, "all") if acl is None else _from_acl(acl, root)
    if root is None:
        raise UsageError("ROOT or --acl is needed: where do the dumps go?")
    faults = [Fault.parse(text) for text in arguments.faults]
    for fault, text in zip(faults, arguments.faults):
        if not any(fault.concerns(dump) for stream in _devices(arguments, mode) for dump in stream):
            raise UsageError(
                "--fault %s: no file's name matches" % text,
                hint="a pattern is of file names, or an op's name",
            )
    server = DumpServer(
        root,
        *_devices(arguments, mode),
        chunk_bytes=arguments.chunk,
        seed=arguments.seed,
        open_files=arguments.open_files,
        bytes_per_s=arguments.rate,
        delay_s=arguments.delay,
        faults=faults,
        late_mapping=arguments.late_mapping,
        free_bytes=quota(root, arguments.limit) if arguments.limit is not None else None,
    )
    report = server.run()
    counts = report.counts()
    if arguments.output_format == "json":
        print_json(
            {"files": report.files, "bytes": report.bytes_written, "chunks": counts}, indent=None
        )
    else:
        fates = ", ".join("%d %s" % (count, what) for what, count in sorted(counts.items()))
        put(
            "%s: %d files, %d bytes; chunks: %s"
            % (root, report.files, report.bytes_written, fates or "none")
        )
    return int(arguments.exit_code)


def _from_acl(path: str, root: Optional[str]) -> Tuple[str, str]:
    """Return dump_path and dump_mode of an acl.json."""
    if root is not None:
        raise UsageError("ROOT and --acl exclude one another")
    data = read_input(path, _ACL_BYTES)
    try:
        dump = json.loads(data.decode("utf-8"))["dump"]
        return str(dump["dump_path"]), str(dump.get("dump_mode", "output"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError("no dump configuration with a dump_path: %r" % error, path) from None


def _devices(arguments: _ServeArguments, mode: str) -> List[Iterable[DeviceDump]]:
    source = arguments.source
    if not os.path.exists(os.path.join(source, NETWORK_FILE)):
        return [recorded(source)]
    network = Network.read(source)
    flips = [_flip(text) for text in arguments.flips]
    start = arguments.start or time.strftime("%Y%m%d%H%M%S")
    try:
        first_us = calendar.timegm(time.strptime(start, "%Y%m%d%H%M%S")) * 1000000
    except ValueError:
        raise UsageError("--time %r has not the form YYYYMMDDhhmmss" % start) from None

    def of(device: int) -> Iterable[DeviceDump]:
        for step in range(arguments.steps):
            for dump in network.dumps(
                start,
                device,
                step=step,
                first_timestamp_us=first_us,
                generation=arguments.generation,
            ):
                for op, element, bits in flips:
                    if dump.op_name == op and dump.outputs:
                        dump = dump.flipped("output:0", {element: bits})
                yield dump.only(mode)

    return [of(device) for device in range(arguments.devices)]


def _flip(text: str) -> Tuple[str, int, int]:
    """Return op, element and bits of ``OP=ELEMENT[:BITS]``."""
    op, _, place = text.rpartition("=")
    element, sign, bits = place.partition(":")
    if not op or not element.isdigit() or (sign and not bits.isdigit()):
        raise UsageError(
            "--flip %s: expected OP=ELEMENT or OP=ELEMENT:BITS" % text, hint="for example op_1=5:1"
        )
    return op, int(element), int(bits or 1)


def main() -> NoReturn:
    """Run the program and exit: 0, or the documented code of the error."""
    run_command(program, name="python -m goldwatch.testing")
