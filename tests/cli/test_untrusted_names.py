"""Names come from untrusted files: one module prints, and it escapes control characters."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import unicodedata

import pytest
from terminals import run_on_terminal

from goldwatch.base.naming import printable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRINTS_HERE = (
    "orchestrator/cli/printing.py",
    "orchestrator/cli/error_handling.py",
    "orchestrator/__main__.py",
    "adapters/acl/runner.py",
)
#: Programs of their own, which print as those that they stand in for.
STAND_INS = "orchestrator/testing/host/"
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
HOSTILE = "x\x1b[31m\x07\u2066\u202e\u200ey"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def modules():
    for top in ("orchestrator", "adapters"):
        for base, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith(".py"):
                    yield os.path.relpath(os.path.join(base, name), ROOT)


def printing(path):
    """Yield the line numbers of what prints on this process's own streams, or gives them away to be
    printed on.
    """
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        parts = (
            part for part in ast.walk(node.func) if isinstance(part, (ast.Attribute, ast.Name))
        )
        names = [part.attr if isinstance(part, ast.Attribute) else part.id for part in parts]
        on_a_stream = bool(STREAMS & set(names)) and names[0] in ("write", "writelines")
        on_a_number = names[:2] == ["write", "os"] and type(node.args[0]).__name__ in (
            "Constant",
            "Num",
        )
        if names[0] in ("echo", "secho", "print", "echo_via_pager") or on_a_stream or on_a_number:
            yield node.lineno
    for node in ast.walk(tree):
        # A stream under another name would print unseen.
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr in STREAMS
            and is_sys(node.value)
        ):
            yield node.lineno


def is_sys(attribute):
    return isinstance(attribute.value, ast.Name) and attribute.value.id == "sys"


@pytest.mark.parametrize("path", sorted(modules()))
def test_only_the_printing_module_prints(path):
    if path not in PRINTS_HERE and not path.startswith(STAND_INS):
        assert list(printing(path)) == []


def test_the_search_for_print_calls_finds_each_form(tmp_path):
    assert len(list(printing(PRINTS_HERE[0]))) > 5
    lines = [
        "print(name)",
        "click.echo(name)",
        "sys.stderr.buffer.write(name)",
        "os.write(2, name)",
        "out = sys.stdout",
    ]
    (tmp_path / "m.py").write_text(
        "\n".join(lines + ["os.write(descriptor, name)", "stream.write(name)"])
    )
    assert sorted(printing(str(tmp_path / "m.py"))) == [1, 2, 3, 4, 5]


def on_a_terminal(*arguments, **options):
    """Return what a command shows on a terminal, line ends as in a file, and its exit code."""
    shown, code = run_on_terminal([sys.executable, "-m", "goldwatch", *arguments], **options)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n"), code


def stripped(text):
    """Return the text without goldwatch's own colours and cleared lines."""
    return re.sub("\x1b\\[[0-9;]*m|\r?\x1b\\[K|\r", "", text)


def test_op_names_are_printed_without_control_characters(tmp_path, make_network):
    make_network(str(tmp_path), op_name=HOSTILE.replace("\x07", ""))
    names = [os.path.join(str(tmp_path), name) for name in ("dump", "golden", "net.json")]
    out = str(tmp_path / ("out" + HOSTILE))
    text, code = on_a_terminal(
        "compare", *names[:2], "-f", names[2], "-o", out, "--limit", "CosineSimilarity=0.9"
    )
    assert code == 1 and "FAIL" in text and "\\u2066" in text
    assert not RAW.search(stripped(text)), ascii(stripped(text))
    assert "\x1b[31mx" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", HOSTILE, HOSTILE, "-o", "out"],
        ["compare", "a", "b", HOSTILE, "-o", "out"],
        ["--" + HOSTILE],
        [HOSTILE],
        ["inspect", HOSTILE],
        ["config", "check", HOSTILE],
        ["config", "new", "--model", HOSTILE, "--dump-path", HOSTILE],
        ["golden", "caffe", "deinplace", HOSTILE],
    ],
)
def test_typed_arguments_are_printed_without_control_characters(arguments, tmp_path):
    text, code = on_a_terminal(*arguments, cwd=str(tmp_path))
    assert code in (0, 2, 4) and not RAW.search(stripped(text)), ascii(text)


def test_tensor_names_of_a_listing_are_printed_without_control_characters(tmp_path):
    row = "[0.000]     100      Relu        a\x1b[2Jb\u202e:0"
    lines = ["1 dumped tensor(s):", "", "t (ms)      Size (B) Op type     Tensor name", row, ""]
    (tmp_path / "listing").write_text("\n".join(lines), encoding="utf-8")
    text, _ = on_a_terminal("golden", "tf", "commands", "listing", cwd=str(tmp_path))
    assert not RAW.search(stripped(text)), ascii(text)


def test_printable_escapes_control_characters_only():
    assert printable(HOSTILE) == "x\\x1b[31m\\x07\\u2066\\u202e\\u200ey"
    assert printable("ä漢 ok") == "ä漢 ok"


def test_invisible_characters_in_names_are_shown_escaped():
    found = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cf", "Cc", "Cs")
    ]
    # Default-ignorable ones of other categories.
    found += list(
        "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2065\u3164\ufe00\ufe0f\uffa0\ufff0\U000e0fff"
    )
    assert [letter for letter in found if printable("a%sb" % letter) == "a%sb" % letter] == []
    assert (
        len(set(map(printable, found))) >= len(found) - 128
    ), "a lone surrogate of U+DC80 to U+DCFF is a byte"
    assert [printable("relu" + letter) for letter in "\u200b\u00ad\U000e0041"] == [
        "relu\\u200b",
        "relu\\xad",
        "relu\\U000e0041",
    ]


def test_pyacl_shows_names_with_escapes():
    words = [
        sys.executable,
        "-m",
        "goldwatch.adapters.acl",
        "--python",
        "/" + HOSTILE,
        "--model",
        "net.om",
        "--output",
        "out",
    ]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = done.stderr.decode("utf-8")
    assert (
        done.returncode == 4
        and printable("/" + HOSTILE) in said
        and not RAW.search(said.replace("\n", ""))
    )
