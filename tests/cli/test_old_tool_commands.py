"""Command lines of the vendor's older tools, mistyped commands, and groups without a command."""

from __future__ import annotations

import json
import os
import shlex

import pytest
from in_process import run_here

from goldwatch.cli.old_tool_commands import new_spelling
from goldwatch.metrics.row import METRICS


@pytest.mark.parametrize(
    "old, new",
    [
        ("compare -m my -g gold -f f.json -out o", "compare my gold -f f.json -o o"),
        (
            "compare -g gold -m my -q q.json -cf c.json",
            "compare my gold --quant-json q.json --unfused-om c.json -o OUT",
        ),
        ("compare -l my -r gold -o o", "compare my gold -o o"),
        ("compare -m my -g gold -r 1,5,2", "compare my gold --range 1,5,2 -o OUT"),
        ("compare -tp my -gp gold -o o -q", "compare my gold -o o -q"),
        (
            "compare -m 'a b' -g gold -csv -map -alg A,B -- x",
            "compare 'a b' gold --mapping --metrics A,B -o OUT -- x; -csv: always written",
        ),
        (
            "compare -m offline_data -tp my -gp gold -fr f.json -o o",
            "compare my gold -f f.json -o o",
        ),
        (
            "compare --mode torchair --target_path my --golden_path gold --output_path o",
            "compare my gold -o o",
        ),
        (
            "compare -m torchair -tp ge -gp fx --rank 0 -o o",
            "compare ge fx -o o; --rank 0: the folder of one rank, or of all, is the first "
            "argument",
        ),
        (
            "compare -tp my -gp gold -cfr u.json -qfr q.json",
            "compare my gold --unfused-om u.json --quant-json q.json -o OUT",
        ),
        (
            "compare -m my -g gold -f f.json -op conv -o 0 -out o",
            "compare-op my gold conv -f f.json --output 0 -o o",
        ),
        (
            "compare my gold -op conv -i 1 -n 20 -ml 9 -ai",
            "compare-op my gold --input 1 --top 20 --max-rows 9 --rows none -o OUT conv",
        ),
        (
            "compare -m my -g gold -alg 0,Own,3 -a Own:k=1 -v 2",
            "compare my gold --metrics %s,Own,%s --metric-args Own:k=1 -o OUT; -v 2: seen in the "
            "file itself" % METRICS[:4:3],
        ),
        ("overflow -d my -out o", "inspect my --stats; -out o: printed"),
        (
            "overflow_check -i my -o o",
            "inspect my --stats; -o o: printed",
        ),
        ("file_compare -m a.npy -g b.npy -out o", "compare-op a.npy b.npy -o o"),
        (
            "shape_conversion.py -i my -format NCHW -o o",
            "convert my --layout NCHW -o o",
        ),
        ("compare my gold -r 1,5,2 -o o", "compare my gold --range 1,5,2 -o o"),
        ("watch -m my -g gold -o o", "watch my gold -o o"),
        ("convert -d my -out o -v 2", "convert my -o o; -v 2: seen in the file itself"),
        (
            "compare -m d.npy -g g.npy -t pt -v 1",
            "compare d.npy g.npy -o OUT; -t pt: a file's kind is seen in the file itself; "
            "-v 1: seen in the file itself",
        ),
        ("convert -d my -out o -t pt", "convert my -o o --to npy; -t pt: here npy"),
        (
            "convert dump -f net.json -o o",
            "convert dump -o o; -f net.json: no model is needed, a dump's header tells types, "
            "layouts and shapes",
        ),
        ("convert -d my -o 1 -out o", "convert my --output 1 -o o"),
        (
            "convert -i my -format NCHW -o o -tensor input -index 1 -shape 1,2 -custom d",
            "convert my --layout NCHW -o o --input 1 --shape 1,2 --custom d",
        ),
        (
            "convert -i my -format NCHW -o o -tensor input",
            "convert my --layout NCHW -o o --input 0",
        ),
        (
            "compare -m my -g gold --output o -ffts -max 9 -p 0 -advisor -r 1,-1,2",
            "compare my gold -o o --range 1,-1,2; -ffts: slices of two dumps are compared one by "
            "one; -max 9: all elements are compared; --max-elements N takes a sample; -p 0: of "
            "PyTorch's dumps alone; -advisor: suspects are always named",
        ),
        (
            "compare --my_dump_path my --golden_dump_path gold --op_name x --topn 3 "
            "--ignore_single_op_result",
            "compare-op my gold x --top 3 --rows none -o OUT",
        ),
        (
            "compare -m my -g gold -alg 0 3 -out o",
            "compare my gold --metrics %s,%s -o o" % METRICS[:4:3],
        ),
        ("convert -d my -out o -t npy -f NCHW", "convert my -o o --to npy --layout NCHW"),
        (
            "compare -l my -r gold -f f.json -d conv -t input -i 1 -o o",
            "compare-op my gold conv -f f.json --input 1 -o o",
        ),
        (
            "compare -m my -g gold --op_name c --output_tensor 0",
            "compare-op my gold c --output 0 -o OUT",
        ),
        ("msaccucmp.py compare -m my -g gold -out o", "compare my gold -o o"),
        ("parse -d my -out o", "convert my -o o"),
        (
            "offline_dump --model_path m.om --input_data a.bin -o o",
            "locate MODEL m.om -o o -i NAME=a.bin (NAME is the input's name in the model)",
        ),
        ("offline_dump --model_path m.onnx", "golden onnx dump m.onnx -o OUT"),
        ("debug dump -m m.onnx -is x:1,3 -o o", "golden onnx dump m.onnx -o o --shape x=1,3"),
        ("msit debug dump --model m.om -o o", "locate MODEL m.om -o o"),
        (
            "msprobe offline_dump --model_path m.onnx --input_data a.bin --input_shape 'x:1,3;y:2' "
            "--output_path o --rank 1",
            "golden onnx dump m.onnx -o o --shape x=1,3 --shape y=2 -i NAME=a.bin (NAME is the "
            "input's name in the model); --rank 1: not needed, no device runs it",
        ),
        ("msprobe parse -d my -t npy", "convert my --to npy -o OUT"),
        (
            "compare -m my -g gold -n 3 --ignore_single_op_result -out o",
            "compare my gold -o o; -n 3: of one operator, goldwatch compare-op; "
            "--ignore_single_op_result: of one operator, goldwatch compare-op",
        ),
        (
            "convert -type offline -target numpy -i my -o o",
            "convert my --to npy -o o; -type offline: seen in the file itself",
        ),
    ],
)
def test_a_command_of_the_vendors_older_tools_is_translated(old, new):
    assert new_spelling(shlex.split(old)) == "goldwatch " + new


@pytest.mark.parametrize(
    "line", ["compare a b -f f.json -o o -q", "inspect -m x", "", "run --acl a -- ./x -m y -g z"]
)
def test_other_command_lines_are_not_translated(line):
    assert new_spelling(line.split()) is None


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "-m", "a", "-g", "b", "-o", "o"],
        ["compare", "-l", "a", "-r", "b", "-o", "o"],
        ["compare", "-tp", "a", "-gp", "b", "-o", "o"],
        ["compare", "-mp", "a", "-gp", "b", "-o", "o"],
        ["compare", "--my_dump_path", "a", "--golden_dump_path", "b", "--output_path", "o"],
        ["compare", "a", "b", "-o", "o", "-q", "q.json"],
        ["convert", "a", "-out", "o"],
    ],
)
def test_the_translated_command_is_shown_and_nothing_is_written(words, tmp_path):
    done = run_here(["goldwatch"] + words, tmp_path)
    assert done.returncode == 2 and "hint: here this is: goldwatch %s " % words[0] in " ".join(
        done.stderr.split()
    ), done.stderr
    done = run_here(["goldwatch"] + words + ["--format", "json"], tmp_path)
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["hint"].startswith(
        "here this is: goldwatch"
    )
    assert os.listdir(str(tmp_path)) == []


def test_options_of_one_operator_are_those_of_its_command(tmp_path):
    words = "compare -m dump -g golden -op conv -o 0 -n 20 -ml 5 -ai".split()
    done = run_here(["goldwatch", *words], tmp_path)
    assert (
        "here this is: goldwatch compare-op dump golden conv --output 0 --top 20 --max-rows 5 "
        "--rows none -o OUT\n"
    ) in done.stderr


@pytest.mark.parametrize(
    "line, command",
    [
        (
            "compare -gm m.onnx -om m.om -i in.bin -c /cann -o out",
            "goldwatch locate m.onnx m.om -o out -i NAME=in.bin (NAME is the input's name in the "
            "model); -c /cann: not needed, CANN is found",
        ),
        ("compare my gold -om m.om", "goldwatch locate MODEL m.om"),
        (
            "compare -gm m.onnx -om m.om -q --vvv x",
            "goldwatch locate m.onnx m.om; -q: left out; --vvv x: left out",
        ),
        ("compare --golden-model m.onnx -om m.om -d 1", "goldwatch locate m.onnx m.om --device 1"),
        ("compare -gm m.pb my", "goldwatch locate m.pb OM"),
        (
            "debug compare -gm m.onnx -om m.om -i a.bin,b.bin --input-shape x:1,3",
            "goldwatch locate m.onnx m.om --shapes x:1,3 -i NAME=a.bin -i NAME=b.bin",
        ),
        ("-m m.onnx -om m.om -o out", "goldwatch locate m.onnx m.om -o out"),
        ("msit debug compare -gm m.onnx -om m.om", "goldwatch locate m.onnx m.om"),
        ("msquickcmp.py -gm m.onnx -om m.om -o out", "goldwatch locate m.onnx m.om -o out"),
        (
            "msprobe compare -m offline_model -tp m.om -gp m.onnx -o out",
            "goldwatch locate m.onnx m.om -o out",
        ),
        (
            "compare -m offline_model -tp m.om -gp m.onnx --input_shape x:1,3 --rank 2 -o out",
            "goldwatch locate m.onnx m.om --shapes x:1,3 --device 2 -o out",
        ),
        (
            "compare -gm m.onnx -om m.om -is x:4,32 -single True --output-size 9",
            "goldwatch locate m.onnx m.om --shapes x:4,32; -single True: goldwatch replay computes "
            "each operator alone with the device's own inputs; --output-size 9: left out",
        ),
        (
            "compare -gm m.onnx -om m.om --fusion-switch-file f.cfg",
            "goldwatch locate m.onnx m.om; --fusion-switch-file f.cfg: convert the om again with "
            "atc --fusion_switch_file=FILE",
        ),
    ],
)
def test_a_command_that_ran_both_models_is_answered_with_the_one_that_does(
    line, command, tmp_path
) -> None:
    done = run_here(["goldwatch", *line.split()], tmp_path)
    tool = "msprobe" if "offline_model" in line else "msquickcmp, msit debug compare"
    assert done.returncode == 2
    assert "the tools that ran both models themselves (%s)" % tool in done.stderr
    assert "hint: here one command does this: " + command in done.stderr
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "line, option, command",
    [
        ("-i compare.json -o out -s", "-i compare.json", "goldwatch compare TARGET GOLDEN -o out"),
        ("-tp a -gp b -fm", "-fm", "goldwatch compare a b -o OUT"),
        ("-m atb -tp a -gp b", "-m atb", "goldwatch compare a b -o OUT"),
        ("-m auto -gp 'g d' -tp a -o ./o", "-m auto", "goldwatch compare a 'g d' -o ./o"),
    ],
)
def test_a_comparison_of_pytorchs_functions_is_told_what_is_compared_here(
    line, option, command, tmp_path
) -> None:
    done = run_here(["goldwatch", "compare", *shlex.split(line)], tmp_path)
    assert done.returncode == 2 and option + " is an option of ptdbg" in done.stderr
    assert command in done.stderr


@pytest.mark.parametrize(
    "words, meant",
    [
        (["comparre"], "goldwatch compare"),
        (["config", "chekc"], "goldwatch config check"),
        (["golden", "tf", "dmup"], "goldwatch golden tf dump"),
        (["golden", "caffe", "deinplase"], "goldwatch golden caffe deinplace"),
        (["check", "acl.json"], "goldwatch config check"),
        (["overflow"], "goldwatch inspect --stats"),
        (["compare_vector.pyc"], "goldwatch compare"),
        (["msaccucmp.py"], "goldwatch compare"),
        (["golden", "tensorflow"], "goldwatch golden tf"),
    ],
)
def test_a_mistyped_command_is_refused_with_the_likely_one(words, meant, tmp_path):
    done = run_here(["goldwatch"] + words, tmp_path)
    assert done.returncode == 2 and "did you mean '%s'?" % meant in " ".join(
        done.stderr.split()
    ), done.stderr


def test_a_command_like_no_other_is_refused_without_a_suggestion(tmp_path):
    done = run_here(["goldwatch", "qqqqqqqq"], tmp_path)
    assert (
        done.returncode == 2
        and "there is no command 'qqqqqqqq'" in done.stderr
        and "did you mean" not in done.stderr
    )


@pytest.mark.parametrize(
    "words", [[], ["config"], ["golden"], ["golden", "tf"], ["golden", "caffe"], ["golden", "onnx"]]
)
def test_a_group_by_itself_prints_its_help_once(words, tmp_path):
    done = run_here(["goldwatch"] + words, tmp_path)
    assert (
        done.returncode == 0
        and done.stdout.count("Usage:") == 1
        and "Commands:" in done.stdout
        and done.stderr == ""
    )
    assert done.stdout == run_here(["goldwatch"] + words + ["--help"], tmp_path).stdout


@pytest.mark.parametrize(
    "line, new",
    [
        ("compare -gp g -mp m --log-level info", "compare m g -o OUT; --log-level info"),
        ("convert -d my -out o --dump_version=2", "convert my -o o; --dump_version=2"),
    ],
)
def test_an_option_that_has_no_counterpart_is_left_out_and_named(line, new, tmp_path):
    done = run_here(["goldwatch", *line.split()], tmp_path)
    text = " ".join(done.stderr.split())
    assert (
        done.returncode == 2
        and "hint: here this is: goldwatch %s: has no counterpart" % new in text
    )
