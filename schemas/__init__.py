"""JSON Schemas of goldwatch's inputs and outputs, and the SQL of its store."""

from __future__ import annotations

import json
import pkgutil
from typing import Any


def load_schema(name: str) -> Any:
    """Return the JSON Schema document ``schemas/{name}.schema.json``.

    Raises
    ------
    FileNotFoundError
        When no such schema is shipped.
    """
    return json.loads(load_text(name + ".schema.json"))


def load_text(name: str) -> str:
    """Return the text of the shipped file ``schemas/{name}``.

    Raises
    ------
    FileNotFoundError
        When no such file is shipped.
    """
    data = pkgutil.get_data(__name__, name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode("utf-8")
