"""Job schema and API describe each command's options and arguments."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import jsonschema
from in_process import run_here

from goldwatch.cli import goldwatch
from goldwatch.schemas import load_schema
from goldwatch.service.job_request import COMMANDS, REFUSED

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_job_schema_is_up_to_date():
    script = os.path.join(ROOT, "scripts", "job_schema")
    assert (
        subprocess.run([sys.executable, script, "--check"]).returncode == 0
    ), "run scripts/job_schema"
    jsonschema.Draft7Validator.check_schema(load_schema("job"))


OUT = {"out": "o"}
NEEDED = {
    "compare": OUT,
    "watch": OUT,
    "replay": {**OUT, "model": "m"},
    "diff": {},
    "merge": {**OUT, "merge": True},
}


def options_of(kind):
    """Return the options that the command line of one kind of job has, each with a value that it
    takes.
    """
    command = goldwatch.get_command(None, "watch" if kind == "merge" else kind)
    found = {}
    for parameter in command.params:
        long = next((text[2:] for text in parameter.opts if text.startswith("--")), None)
        if long is None or long in REFUSED or long in ("help", "format", "merge"):
            continue
        if kind == "merge" and not merges(parameter, long):
            continue
        number = isinstance(parameter.type, (click.types.FloatParamType, click.types.IntParamType))
        value = 1024 if number else list(getattr(parameter.type, "choices", ["text"]))[0]
        found[long] = (
            True
            if parameter.is_flag or parameter.count
            else [value]
            if parameter.multiple
            else value
        )
    return (
        found
        if kind != "watch"
        else {name: value for name, value in found.items() if name != "max-rows"}
    )


def merges(parameter, option):
    """Tell whether the command line of a merge takes an option, as it says itself."""
    value = list(getattr(parameter.type, "choices", ["1024"]))[-1]
    words = ["--" + option] + ([] if parameter.is_flag or parameter.count else [value])
    done = run_here(
        ["goldwatch", "watch", "--merge", "nothing", "-o", "nothing", "--until-idle", "0", *words]
    )
    return "does not go with --merge" not in done.stderr


def test_the_api_describes_the_options_of_each_command(serving, lab):
    document = serving(lab).json("/api/v1/openapi.json")
    body = document["paths"]["/api/v1/runs"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    of_api = jsonschema.Draft202012Validator({**body, "components": document["components"]})
    taken = {kind: options_of(kind) for kind in NEEDED}
    every = {name: value for options in taken.values() for name, value in options.items()}
    assert len(every) > 30 and {*COMMANDS, "merge"} == set(NEEDED)
    for validator in (jsonschema.Draft7Validator(load_schema("job")), of_api):
        for kind, needed in NEEDED.items():
            job = {"command": "watch" if kind == "merge" else kind, "args": ["a", "b"]}
            for name, value in {**every, "bogus": 1}.items():
                good = {**job, "options": {**needed, name: taken[kind].get(name, value)}}
                assert validator.is_valid(good) == (name in taken[kind]), (kind, name)
                assert not validator.is_valid(
                    {**job, "options": {**needed, name: {"of": "another type"}}}
                )
            for count in (1, 2, 3, 8):
                right = count >= 2 if kind == "merge" else count == 2
                assert (
                    validator.is_valid({**job, "args": ["a"] * count, "options": needed}) == right
                )
