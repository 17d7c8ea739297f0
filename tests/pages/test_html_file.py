"""One offline file: content policy, escaped names, packed data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re

import pytest

from goldwatch.reports.pages.html_file import (
    PACKED_BYTES,
    asset,
    attribute,
    data_block,
    page,
    script,
    text,
)

HOSTILE = (
    "a</script><script>document.title='ran'</script>\u2028\"'&<img src=x onerror=1>\u202egnp.\udc80"
)


def hashed(content):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def test_the_content_policy_allows_exactly_the_script_and_the_style():
    built = page("title", "<p>body</p>", {"data": {"a": 1}}, ["base.css"], ["common.js"])
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', built)
    (css,) = re.findall(r"<style>(.*?)</style>", built, re.S)
    (code,) = re.findall(r"<script>(.*?)</script>", built, re.S)
    assert "script-src %s;" % hashed(code) in policy and "style-src %s;" % hashed(css) in policy
    assert (
        policy.startswith("default-src 'none';") and "unsafe" not in policy and "http" not in policy
    )
    assert not re.search(r"(src|href)=\"(?!data:,)", built)


def test_names_in_a_page_are_escaped():
    built = page(
        HOSTILE,
        '<p title="%s">%s</p>' % (attribute(HOSTILE), text(HOSTILE)),
        {"data": [HOSTILE]},
        [],
        ["common.js"],
    )
    assert built.count("<script") == 2 and built.count("</script") == 2 and "<img" not in built
    assert "\u202e" not in text(HOSTILE) and "\\u202e" in text(HOSTILE)
    built.encode("utf-8")
    (data,) = re.findall(r'id="data">(.*?)</script>', built)
    assert json.loads(data) == [HOSTILE] and "\u2028" not in data


def test_attributes_hold_no_control_characters():
    """A browser makes the characters of the references again (test_report_browser.py)."""
    name = "a\x1b[31m\x7f\r\n\u202eb"
    found = attribute(name)
    assert (
        found.isprintable()
        and re.sub("&#([0-9]+);", lambda match: chr(int(match.group(1))), found) == name
    )


def test_large_data_is_packed_and_unpacks_unchanged():
    document = {"x": list(range(PACKED_BYTES // 2))}
    block = data_block("data", document)
    assert 'data-packed="gzip"' in block and len(block) < PACKED_BYTES * 2
    packed = json.loads(block[block.index(">") + 1 : block.rindex("<")])
    assert json.loads(gzip.decompress(base64.b64decode(packed)).decode()) == document
    assert "data-packed" not in data_block("data", {"x": [1]})


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_block("data", [float("nan")])


@pytest.mark.parametrize("name", ["common.js", "base.css"])
def test_an_asset_cannot_close_its_own_element(name):
    assert not re.search(r"</(script|style)", asset(name), re.I)


def test_scripts_are_wrapped_in_one_strict_function():
    built = script(["common.js"])
    assert built.startswith("(function () {\n'use strict';") and built.endswith("})();\n")
