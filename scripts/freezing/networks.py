"""Makes networks, trainings and damaged files with goldwatch.testing, and the cases over them.

python -m freezing.networks DIR        writes DIR/inputs/made/… and DIR/made.json
"""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "helpers"))
STAMP = 1767323045000000
TIME = "20260102030405"
COMPARE = "goldwatch compare dump golden -f model.json -o out --jobs 1"
OP_FAULTS = (
    "channels",
    "scale:1.05",
    "scale:1.002",
    "stale-filter",
    "epsilon",
    "pad",
    "no-bias",
    "saturation",
    "c0-slot",
    "coarse",
)
OPTIONS = {
    "plain": "",
    "recompute-none": "--recompute none",
    "recompute-all": "--recompute all",
    "two-processes": "--jobs 2",
    "vendor-limits": "--limits vendor",
    "own-limits": "--limit CosineSimilarity=0.9999 --limit dtype=float16:MaxAbsoluteError=0.01",
    "limit-of-an-op": "--limit op=op_1:RelativeEuclideanDistance=2",
    "limit-of-a-type": "--limit type=MatMul:CosineSimilarity=-1",
    "unknown-limit": "--limit Cosine=1",
    "strict": "--strict",
    "allow-missing": "--allow-missing",
    "metrics": "--metrics CosineSimilarity,MaxAbsoluteError",
    "unknown-metric": "--metrics Cosine",
    "range": "--range 2,5",
    "range-with-step": "--range 1,6,2",
    "select": "--select 2,4-5",
    "sample": "--max-elements 1024",
    "overflow": "--overflow",
    "addresses": "--check-addresses",
    "mapping": "--mapping",
    "table-all": "--table all",
    "table-none": "--table none",
    "json": "--format json",
    "files": "--csv rows.csv --json whole.json --junit unit.xml --markdown md.md",
    "time": "--time " + TIME,
    "no-such-time": "--time 20250102030405",
    "golden-steps-each": "--golden-steps each",
}


class Inputs:
    """The folders that are made, and the cases over them."""

    def __init__(self, out):
        self.out = out
        self.cases = []

    def folder(self, name):
        """A new folder of inputs."""
        path = os.path.join(self.out, "inputs", "made", name)
        os.makedirs(path)
        return path

    def case(self, name, folder, *steps):
        """Commands over a folder of inputs, each a line or a step."""
        made = [{"run": step.split()} if isinstance(step, str) else step for step in steps]
        made[0] = dict(made[0], files=os.path.join("inputs", "made", folder))
        self.cases.append({"name": name, "steps": made})

    def write(self):
        """Write the cases."""
        with open(os.path.join(self.out, "made.json"), "w", encoding="utf-8") as stream:
            json.dump(self.cases, stream, indent=1)


def tool(*words):
    """Run ``python -m goldwatch.testing`` here."""
    from goldwatch.testing.commands import program

    program.main([str(word) for word in words], standalone_mode=False)


def command(*words):
    """Run ``goldwatch`` here."""
    from goldwatch.cli import goldwatch

    goldwatch.main([str(word) for word in words], standalone_mode=False)


def network(inputs, name, *serving, ops=6, size=8192, broken=None, seed=0, tree="dump"):
    """model.json, golden/ and dump/ of a chain of ops."""
    folder = inputs.folder(name)
    more = [] if broken is None else ["--broken", broken]
    tool("make", folder, "--ops", ops, "--size", size, "--seed", seed, *more)
    tool("serve", folder, os.path.join(folder, tree), "--time", TIME, *serving)
    return folder


def chains(inputs):
    """A chain of ops: options, faults of files, forms of names, devices and steps."""
    network(inputs, "healthy")
    network(inputs, "broken", broken=2)
    for name, words in OPTIONS.items():
        for folder in ("healthy", "broken"):
            inputs.case("chain/%s-%s" % (folder, name), folder, COMPARE + " " + words)
    for folder in ("healthy", "broken"):
        inputs.case("chain/%s-no-model" % folder, folder, COMPARE.replace("-f model.json ", ""))
        inputs.case(
            "chain/%s-again" % folder,
            folder,
            COMPARE,
            COMPARE,
            COMPARE + " --mapping",
            COMPARE + " --force",
        )
    for number, fault in enumerate(
        (
            "drop_chunk=op_2@0",
            "write_error=op_3@0",
            "twin=op_1",
            "null_address=op_2",
            "null_address=op_4@input:0",
            "refuse_open=op_5",
        )
    ):
        name = "fault-%d-%s" % (number, fault.split("=")[0])
        network(inputs, name, "--fault", fault, "--chunk", "4K")
        inputs.case(
            "files/" + name,
            name,
            COMPARE,
            "goldwatch inspect dump",
            COMPARE + " --allow-missing --force",
        )
    for generation in ("task", "stream", "ffts+"):
        network(inputs, "names-" + generation, "--generation", generation)
        inputs.case(
            "files/names-" + generation,
            "names-" + generation,
            COMPARE,
            "goldwatch inspect dump --format json",
        )
    network(inputs, "devices", "--devices", 2, "--steps", 3, broken=3)
    for words in (
        "",
        "--recompute none",
        "--golden-steps one",
        "--table all --mapping",
        "--format json",
    ):
        inputs.case(
            "devices/" + (words.replace(" ", "_") or "plain"), "devices", COMPARE + " " + words
        )
    network(inputs, "odd-sizes", size=1002, ops=9, broken=4)
    inputs.case("chain/odd-sizes", "odd-sizes", COMPARE + " --table all")
    folder = network(inputs, "bits", broken=None)
    tool("serve", folder, os.path.join(folder, "other"), "--time", TIME, "--flip", "op_3=7:1")
    inputs.case(
        "exact/one-bit",
        "bits",
        "goldwatch compare dump other -f model.json -o out --exact --jobs 1",
    )
    inputs.case("exact/no-model", "bits", "goldwatch compare dump other -o out --exact --jobs 1")
    inputs.case(
        "exact/equal", "bits", "goldwatch compare dump dump -f model.json -o out --exact --jobs 1"
    )
    inputs.case(
        "exact/two-dumps",
        "bits",
        "goldwatch compare dump other -f model.json -o out --jobs 1 --table all",
    )
    inputs.case(
        "exact/repeat",
        "bits",
        "goldwatch repeat --folders dump other dump -f model.json -o out --jobs 1",
    )


def damaged(inputs):
    """Files that are short, empty, foreign or not there."""

    def of(name, change):
        folder = network(inputs, name, broken=4)
        dumps = sorted(files_below(os.path.join(folder, "dump")))
        golden = sorted(files_below(os.path.join(folder, "golden")))
        change(dumps, golden, folder)
        inputs.case(
            "damaged/" + name, name, COMPARE + " --table all", "goldwatch inspect dump golden"
        )

    of("short-dump", lambda dumps, golden, _: cut(dumps[2], -9))
    of("long-dump", lambda dumps, golden, _: put(dumps[1], read(dumps[1]) + b"12345"))
    of("no-header", lambda dumps, golden, _: put(dumps[1], read(dumps[1])[64:]))
    of("garbage", lambda dumps, golden, _: put(dumps[3], bytes(range(256)) * 9))
    of("empty-dump", lambda dumps, golden, _: put(dumps[0], b""))
    of("dump-missing", lambda dumps, golden, _: os.remove(dumps[3]))
    of("golden-missing", lambda dumps, golden, _: os.remove(golden[2]))
    of("golden-short", lambda dumps, golden, _: cut(golden[3], -100))
    of("golden-garbage", lambda dumps, golden, _: put(golden[3], b"no numpy file"))
    of(
        "golden-other-shape",
        lambda dumps, golden, _: np.save(golden[3], np.zeros((3, 5), np.float32)),
    )
    of(
        "golden-nan",
        lambda dumps, golden, _: np.save(golden[3], np.load(golden[3]) * np.float32(np.nan)),
    )
    of(
        "golden-integers",
        lambda dumps, golden, _: np.save(golden[3], np.load(golden[3]).astype(np.int32)),
    )
    of(
        "golden-twice",
        lambda dumps, golden, _: shutil.copy2(
            golden[3], golden[3].replace("%d" % STAMP, "%d" % (STAMP + 5))
        ),
    )
    of("no-golden", lambda dumps, golden, folder: [os.remove(path) for path in golden])
    of("no-dumps", lambda dumps, golden, folder: [os.remove(path) for path in dumps])
    of("json-cut", lambda dumps, golden, folder: cut(os.path.join(folder, "model.json"), -40))
    of(
        "json-of-another",
        lambda dumps, golden, folder: rename_ops(os.path.join(folder, "model.json")),
    )
    of("json-missing", lambda dumps, golden, folder: os.remove(os.path.join(folder, "model.json")))
    of(
        "foreign-file",
        lambda dumps, golden, folder: put(
            os.path.join(os.path.dirname(dumps[0]), "notes.txt"), b"hello\n"
        ),
    )


def files_below(folder):
    return [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def put(path, data):
    with open(path, "wb") as stream:
        stream.write(data)


def cut(path, end):
    put(path, read(path)[:end])


def rename_ops(path):
    put(path, read(path).replace(b"op_", b"layer_"))


def trainings(inputs):
    """Trainings of two models on two devices, and their hosts merged."""
    compare = "goldwatch compare dump golden -f graphs -o out --jobs 1"
    for name, words in {
        "healthy": [],
        "wrong": ["--wrong", "part0/MatMul"],
        "wrong-late": ["--wrong", "part1/Mul", "--from-step", 2],
        "wrong-on-one-device": ["--wrong", "part0/Relu", "--on-device", 1],
        "three-devices": [
            "--devices",
            3,
            "--steps",
            "1,2",
            "--wrong",
            "part1/MatMul",
            "--on-device",
            2,
        ],
    }.items():
        folder = inputs.folder("training-" + name)
        tool("train", folder, "--seed", 3, *words)
        for extra in ("", "--golden-steps one", "--recompute none --table all", "--format json"):
            inputs.case(
                "training/%s%s" % (name, extra.replace(" ", "_")),
                "training-" + name,
                compare + " " + extra,
            )
        model = "goldwatch compare dump golden/1 -f graphs -o out --jobs 1"
        inputs.case("training/%s-one-golden" % name, "training-" + name, model)
        inputs.case(
            "training/%s-no-model" % name, "training-" + name, compare.replace("-f graphs ", "")
        )
    folder = inputs.folder("training-golden-missing")
    tool("train", folder, "--seed", 3)
    shutil.rmtree(os.path.join(folder, "golden", "2"))
    for extra in ("", "--allow-missing"):
        inputs.case(
            "training/step-without-golden" + extra, "training-golden-missing", compare + " " + extra
        )
    for name in ("wrong", "wrong-late", "wrong-on-one-device", "healthy"):
        hosts = []
        for host, device in (("a", 0), ("b", 1)):
            hosts.append(
                "goldwatch compare dump/%s/%d golden -f graphs -o %s --jobs 1"
                % (TIME, device, host)
            )
        merge = "goldwatch watch --merge a b -o all --until-idle 1"
        inputs.case(
            "merged/" + name,
            "training-" + name,
            *hosts,
            merge,
            "goldwatch report all --csv all.csv --json all.json",
        )
    inputs.case(
        "merged/few-rows",
        "training-wrong",
        *hosts,
        merge + " --max-rows 3",
        "goldwatch diff a b",
        "goldwatch diff a all",
    )


def statistics(inputs):
    """Statistics in place of tensors."""
    from goldwatch.testing.statistics_files import FORMS

    for broken in (None, 3):
        name = "statistics-%s" % ("healthy" if broken is None else "broken")
        folder = network(inputs, name, broken=broken)
        for form in FORMS:
            tree = os.path.join(folder, "stats-" + form)
            tool("statistics", os.path.join(folder, "dump"), tree, "--form", form)
            words = (
                "goldwatch compare stats-%s golden -f model.json -o out --jobs 1 --table all" % form
            )
            inputs.case("statistics/%s-%s" % (name[11:], form), name, words)
            words = "goldwatch compare stats-%s dump -f model.json -o out --jobs 1" % form
            inputs.case("statistics/%s-%s-two-dumps" % (name[11:], form), name, words)
        words = "goldwatch compare stats-default golden -o out --jobs 1"
        inputs.case("statistics/%s-no-model" % name[11:], name, words)


def caffe(inputs):  # noqa: PLR0915 - one network after another
    """The demo's ResNet block with each fault of an op: compared, replayed, cured, cut."""
    data = os.path.join(inputs.out, "data", "caffe", "resblock")
    files = [os.path.join(data, "resblock." + end) for end in ("prototxt", "caffemodel")]
    image = "data=" + os.path.join(data, "input_data.npy")
    conv = "res2a_branch2ares2a_branch2a_relu"
    first = inputs.folder("caffe-healthy")
    for path in files:
        shutil.copy2(path, first)
    os.chdir(first)
    near = ["resblock.prototxt", "resblock.caffemodel"]
    tool("caffe", *near, ".", "-i", image)
    command(
        "golden", "caffe", "dump", *near, "-i", image, "-o", "golden", "--backend", "numpy", "-q"
    )
    wrong = {fault.replace(":", "-"): ["%s=%s" % (conv, fault)] for fault in OP_FAULTS}
    wrong.update(
        {"fc-" + fault: ["fc=" + fault] for fault in ("no-bias", "coarse", "stale-filter")}
    )
    wrong["two-ops"] = [conv + "=channels", "fc=no-bias"]
    names = ["healthy"]
    for name, faults in wrong.items():
        folder = inputs.folder("caffe-" + name)
        words = [word for fault in faults for word in ("--op-fault", fault)]
        try:
            tool("caffe", *near, folder, "-i", image, *words)
        except Exception as error:
            print("left out: %s (%s)" % (name, error))
            shutil.rmtree(folder)
            continue
        for path in near:
            shutil.copy2(path, folder)
        shutil.copytree("golden", os.path.join(folder, "golden"))
        relocate(folder, first, os.path.join(inputs.out, "data"))
        names.append(name)
    relocate(first, first, os.path.join(inputs.out, "data"))
    replay = (
        "goldwatch replay dump resblock.prototxt -f model.json -o replay --jobs 1 --backend numpy"
    )
    for name in names:
        inputs.case(
            "caffe/compare-" + name, "caffe-" + name, COMPARE + " --original resblock.prototxt"
        )
        inputs.case(
            "caffe/by-golden-" + name, "caffe-" + name, COMPARE + " --table all --recompute none"
        )
        inputs.case(
            "caffe/chain-" + name,
            "caffe-" + name,
            COMPARE + " --recompute all --original resblock.prototxt",
            replay + " --result out",
            "goldwatch cure out -f model.json -o cure --original resblock.prototxt",
            "goldwatch compare-op dump golden fc -f model.json -o detail --jobs 1 --rows bad",
            "goldwatch report out --csv rows.csv --json run.json --junit u.xml --markdown run.md",
            "goldwatch diff out replay",
        )
    inputs.case("caffe/no-model", "caffe-channels", COMPARE.replace("-f model.json ", ""))
    inputs.case("caffe/replay-json", "caffe-channels", replay + " --format json")
    inputs.case("caffe/replay-some", "caffe-two-ops", replay + " --op fc --op 'res*'")
    inputs.case(
        "caffe/budget",
        "caffe-coarse",
        COMPARE,
        "goldwatch cure out -f model.json -o cure --budget 2 --format json",
    )
    cutting = "goldwatch submodel resblock.prototxt --om model.json --dump dump --golden golden"
    inputs.case("caffe/list", "caffe-channels", cutting + " --list")
    inputs.case("caffe/cut", "caffe-channels", COMPARE, cutting + " --from-result out -o cuts")
    inputs.case(
        "caffe/ladder", "caffe-channels", COMPARE, cutting + " --from-result out --ladder -o cuts"
    )
    for layout in ("original", "NHWC", "ND"):
        words = "goldwatch convert dump -o arrays --jobs 1 --layout " + layout
        inputs.case("caffe/convert-" + layout, "caffe-healthy", words)
    for form in ("bin", "txt", "pb", "quant"):
        inputs.case(
            "caffe/convert-" + form,
            "caffe-healthy",
            "goldwatch convert dump -o arrays --jobs 1 --to " + form,
        )
    inputs.case(
        "caffe/inspect",
        "caffe-healthy",
        "goldwatch inspect dump golden model.json resblock.prototxt --stats",
    )
    inputs.case(
        "caffe/inspect-json",
        "caffe-healthy",
        "goldwatch inspect dump golden model.json --format json",
    )
    inputs.case(
        "caffe/limits", "caffe-healthy", "goldwatch limits", "goldwatch limits --format json"
    )
    worse = {
        "run": COMPARE.replace("-o out", "-o after").split(),
        "files": "inputs/made/caffe-channels",
    }
    diff = "goldwatch diff out after --markdown diff.md"
    inputs.case("diff/worse", "caffe-healthy", COMPARE, worse, diff, diff + " --format json")
    better = {
        "run": COMPARE.replace("-o out", "-o after").split(),
        "files": "inputs/made/caffe-healthy",
    }
    inputs.case("diff/better", "caffe-channels", COMPARE, better, diff, diff + " --tolerance 0")


def relocate(folder, made_in, data):
    """Make the places in a manifest those of the case."""
    path = os.path.join(folder, "golden", "manifest.json")
    text = read(path).replace(os.fsencode(made_in), b"{root}")
    put(path, text.replace(os.fsencode(data), b"{data}"))


def onnx(inputs):
    """A CNN and a block of a transformer, right and with one node wrong."""
    import onnx as package
    import onnx_networks
    from onnx_device import on_device, write_model

    from goldwatch.testing import write_files

    state = np.random.RandomState(4)
    faults = {
        "healthy": lambda array: array,
        "scaled": lambda array: array * np.float32(1.1),
        "reversed": lambda array: array[..., ::-1],
        "zeroed": lambda array: array * (np.arange(array.shape[-1]) % 4 != 0),
        "noise": lambda array: array
        + 0.02 * np.random.RandomState(1).standard_normal(array.shape).astype(array.dtype),
        "nan": lambda array: np.where(np.arange(array.shape[-1]) == 1, np.float32(np.nan), array),
        "overflow": lambda array: array * np.float32(1e6),
        "constant": lambda array: array + np.float32(0.5),
    }
    nets = {
        "cnn": (
            onnx_networks.cnn(2),
            (2, 3, 16, 16),
            {"bn": "/bn/BatchNormalization", "conv": "/conv2/Conv"},
        ),
        "transformer": (
            onnx_networks.transformer(),
            (1, 8, 32),
            {"softmax": "/attn/Softmax", "ff": "/ff/0/MatMul"},
        ),
    }
    for net, (proto, shape, places) in nets.items():
        feeds = {"x": state.standard_normal(shape).astype(np.float16).astype(np.float32)}
        golden = None
        for fault, function in faults.items():
            for place, node in places.items():
                name = "onnx-%s-%s-%s" % (net, place, fault)
                folder = inputs.folder(name)
                os.chdir(folder)
                package.save(proto, "m.onnx")
                np.save("x.npy", feeds["x"])
                if golden is None:
                    command(
                        "golden", "onnx", "dump", "m.onnx", "-i", "x=x.npy", "-o", "golden", "-q"
                    )
                    golden = os.path.join(folder, "golden")
                else:
                    shutil.copytree(golden, "golden")
                relocate(folder, os.path.dirname(golden), os.path.join(inputs.out, "data"))
                made = on_device("m.onnx", feeds, fault=(node, function))
                write_files("dump", made.dumps())
                sizes = ",".join(str(size) for size in shape)
                write_model(
                    made,
                    "model.json",
                    "atc --model=m.onnx --framework=5 --input_shape=x:%s" % sizes,
                )
                inputs.case("onnx/%s-%s-%s" % (net, place, fault), name, COMPARE)
                inputs.case(
                    "onnx/%s-%s-%s-by-golden" % (net, place, fault),
                    name,
                    COMPARE + " --recompute none",
                )
                if fault in ("healthy", "noise", "scaled"):
                    replay = (
                        "goldwatch replay dump m.onnx -f model.json -o replay --jobs 1 --result out"
                    )
                    cure = "goldwatch cure out -f model.json -o cure"
                    words = COMPARE + " --recompute all --table all"
                    inputs.case(
                        "onnx/%s-%s-%s-chain" % (net, place, fault), name, words, replay, cure
                    )


def watched(inputs):
    """Watches of files that arrive in a shuffled order; some are killed and started again."""
    watch = "goldwatch watch dump golden -f model.json -o out --jobs 2"

    def step(words, tree, seed, **more):
        return dict(run=words.split(), arrive=tree, into="dump", seed=seed, **more)

    network(inputs, "arriving", tree="there", broken=2, ops=12)
    network(inputs, "arriving-healthy", tree="there", ops=12)
    network(inputs, "arriving-devices", "--devices", 2, "--steps", 2, tree="there", broken=3, ops=5)
    for name, fault in (
        ("short", "drop_chunk=op_4@0"),
        ("twin", "twin=op_3"),
        ("headless", "write_error=op_5@0"),
    ):
        network(inputs, "arriving-" + name, "--fault", fault, "--chunk", "4K", tree="there", ops=8)
    for name in (
        "arriving",
        "arriving-healthy",
        "arriving-devices",
        "arriving-short",
        "arriving-twin",
        "arriving-headless",
    ):
        for seed in range(3):
            inputs.case("watch/%s-%d" % (name, seed), name, step(watch, "there", seed))
        for seed in range(2):
            inputs.case("killed/%s-%d" % (name, seed), name, step(watch, "there", seed, kill=True))
    for name in ("arriving", "arriving-healthy"):
        inputs.case("watch/%s-expect-all" % name, name, step(watch + " --expect-all", "there", 5))
        inputs.case(
            "watch/%s-keep-failed" % name,
            name,
            step(watch + " --keep failed --recompute none", "there", 6),
        )
        inputs.case(
            "watch/%s-keep-none" % name,
            name,
            step(watch + " --keep none --recompute none", "there", 7),
        )
        inputs.case("watch/%s-poll" % name, name, step(watch + " --poll 0.2", "there", 8))
        plain = watch.replace("-f model.json ", "")
        inputs.case("watch/%s-no-model" % name, name, step(plain, "there", 9))
    training = watch.replace("-f model.json", "-f graphs")
    for name in ("wrong", "wrong-on-one-device", "healthy"):
        folder = inputs.folder("arriving-training-" + name)
        shutil.rmtree(folder)
        shutil.copytree(os.path.join(os.path.dirname(folder), "training-" + name), folder)
        os.rename(os.path.join(folder, "dump"), os.path.join(folder, "there"))
        inputs.case(
            "watch/training-" + name, "arriving-training-" + name, step(training, "there", 1)
        )
        inputs.case(
            "killed/training-" + name,
            "arriving-training-" + name,
            step(training, "there", 2, kill=True),
        )
    network(inputs, "many", ops=150, size=65536, broken=60)
    for rows in (1, 30, 150):
        killed = {"run": COMPARE.replace("--jobs 1", "--jobs 2").split(), "kill": rows}
        inputs.case(
            "killed/compare-%d" % rows,
            "many",
            killed,
            COMPARE,
            "goldwatch report out --json run.json",
        )
    inputs.case("chain/many-two-processes", "many", COMPARE.replace("--jobs 1", "--jobs 2"))


def main():
    inputs = Inputs(sys.argv[1])
    for make in (chains, damaged, trainings, statistics, caffe, onnx, watched):
        make(inputs)
    inputs.write()
    print("made %d cases" % len(inputs.cases))


if __name__ == "__main__":
    main()
