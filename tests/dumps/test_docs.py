from __future__ import annotations

import os
import re
from typing import Any

PAGE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "dump-files.md"
)


def test_the_example_of_the_page_runs(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    with open(PAGE, encoding="utf-8") as stream:
        (code,) = re.findall(r"```python\n(.*?)```", stream.read(), re.S)
    monkeypatch.chdir(str(tmp_path))
    exec(compile(code, PAGE, "exec"), {})
    assert "bfloat16" in capsys.readouterr().out
