"""Damage: bytes, texts and JSON documents changed at random, always the same way for the same
random.Random.
"""

from __future__ import annotations

import copy
import json
import struct

_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
)
_WORDS = (
    b"\0", b"\xff\xfe", b"\n", b'"', b"'", b"{", b"}", b"[", b"]", b"(", b",", b":", b"\\", b"..",
    b"/", b"nan", b"inf", b"-1", b"1e999",
    b"0x" + b"f" * 300,
    b"9" * 5000, b"True", b"None", b"6L", b"\xed\xa0\x80", b"\xe2\x81\xa6", b"<f4", b"|O", b">f8",
    b"<V7",
)  # fmt: skip
_VALUES = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**70, 1.5, 1e308, "", "on", "off", "all", "\0",
    "\u2066", "../x", "/", "a" * 300, [], {},
    [[]],
    {"dump": {}}, ["a", 1], "0|5-9", "5-", "NaN", "Infinity",
)  # fmt: skip


def damaged(random, data, most=4):
    """Return other bytes: bits, numbers, words, cuts, repetitions."""
    data = bytearray(data)
    for _ in range(random.randint(1, most)):
        way = random.randrange(9)
        at = random.randrange(len(data) + 1)
        if way == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << random.randrange(8)
        elif way == 1 and data:
            data[min(at, len(data) - 1)] = random.randrange(256)
        elif way == 2:
            value = struct.pack("<Q", random.choice(_NUMBERS))[: random.choice((1, 2, 4, 8))]
            data[at : at + len(value)] = value
        elif way == 3:
            data[at:at] = random.choice(_WORDS)
        elif way == 4:
            del data[at:]
        elif way == 5:
            del data[at : at + random.randint(1, 40)]
        elif way == 6:
            begin = random.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + random.randint(1, 60)]
        elif way == 7:
            data += bytes(random.randrange(256) for _ in range(random.randint(1, 40)))
        else:
            begin = random.randrange(len(data) + 1)
            piece = data[begin : begin + random.randint(1, 16)]
            data[at : at + len(piece)] = piece
    return bytes(data)


def damaged_head(random, data, head=300):
    """Return bytes of which only the first ``head`` are damaged: most of the meaning stands
    there.
    """
    return damaged(random, data[:head], 2) + data[head:]


def changed(random, document, most=3):
    """Return a JSON document with some of its values, keys or items changed."""
    document = json.loads(json.dumps(document))
    for _ in range(random.randint(1, most)):
        holders = list(_holders(document))
        if not holders:
            return _value(random)
        holder, key = random.choice(holders)
        way = random.randrange(5)
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[_misspelt(random, key)] = holder.pop(key)
        elif way == 2 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * random.randint(1, 5)
        elif way == 3 and isinstance(holder[key], str):
            holder[key] = _misspelt(random, holder[key])
        else:
            holder[key] = _value(random)
    return document


def _value(random):
    # A copy: what is put into a document is changed with it.
    return copy.deepcopy(random.choice(_VALUES))


def _holders(node):
    pairs = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, inner in list(pairs):
        yield node, key
        yield from _holders(inner)


def _misspelt(random, word):
    at = random.randrange(len(word) + 1)
    return random.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + random.choice("xA_*,\u00e9\u202e ") + word[at:],
            word.upper(),
            word + "s",
            word[::-1],
        )
    )


def text_of(random, document):
    """Return a document as JSON bytes, now and then damaged as text too."""
    data = json.dumps(
        document, indent=random.choice((None, 1)), ensure_ascii=random.random() < 0.5
    ).encode("utf-8", "surrogatepass")
    return damaged(random, data) if random.random() < 0.3 else data
