"""Short constructors for acl.json files and their expected findings."""

from __future__ import annotations

E, W, N = "error", "warning", "note"
EVERYTHING = [{}]
MANY = [{"name": "op%d" % i, "pos": ["input0"]} for i in range(101)]


def dump(*drop, **fields):
    section = {"dump_path": "@DIR@", "dump_list": EVERYTHING}
    section.update(fields)
    return {"dump": {key: value for key, value in section.items() if key not in drop}}


def item(**fields):
    return dump(dump_list=[fields])


def d(severity, rule, field):
    return (severity, rule, "/dump/" + field)


def at(severity, rule, field):
    return (severity, rule, "/dump/dump_list/0/" + field)
