"""The Chinese pages have the commands, outputs, sections, tables, options, files and links of the
English ones.
"""

from __future__ import annotations

import os
import posixpath
import re

import pytest

from pages import ROOT, TRANSLATIONS, WRITE, text_of

BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CHINESE = {original: page for page, original in TRANSLATIONS.items()}


def numbered_blocks(text):
    """Return the (line number, text) of each block of a page, its fences included."""
    return [
        (text.count("\n", 0, found.start()) + 1, found.group()) for found in BLOCK.finditer(text)
    ]


def difference(page, text, original, original_text):
    """Return which block of a page is not that of its original, or ''."""
    blocks, originals = numbered_blocks(text), numbered_blocks(original_text)
    for number, ((line, block), (there, wanted)) in enumerate(zip(blocks, originals), 1):
        if block != wanted:
            return "%s, line %d: block %d is not that of %s, line %d:\n%s\n\nwhere there is\n%s" % (
                page, line, number, original, there, block, wanted,
            )  # fmt: skip
    if len(blocks) != len(originals):
        return "%s has %d blocks, %s %d" % (page, len(blocks), original, len(originals))
    return ""


def sections(page):
    """Return (level, prose) of a page's sections: what stands below each heading but blocks."""
    parts = re.split(r"^(#+) .*$", BLOCK.sub("", text_of(page)), flags=re.MULTILINE)
    return [(len(marks), prose) for marks, prose in zip(parts[1::2], parts[2::2])]


def code_of(prose):
    return set(re.findall(r"`([^`\n]+)`", prose))


def rows_of(prose):
    return len(re.findall(r"^\|", prose, re.MULTILINE))


def targets_of(page, prose):
    """Return the pages that a section links, where there is a Chinese one that; anchors apart."""
    targets = set()
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, mark, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        chinese = full in CHINESE or full in TRANSLATIONS
        targets.add(CHINESE.get(full, full) + ("" if chinese else mark + anchor))
    return targets


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_a_translation_has_the_commands_and_outputs_of_the_english_page(page):
    original = TRANSLATIONS[page]
    text, original_text = text_of(page), text_of(original)
    blocks = iter(BLOCK.findall(original_text))
    if os.environ.get(WRITE) and len(BLOCK.findall(text)) == len(BLOCK.findall(original_text)):
        text = BLOCK.sub(lambda _: next(blocks), text)
        with open(os.path.join(ROOT, *page.split("/")), "w", encoding="utf-8") as stream:
            stream.write(text)
    assert not difference(page, text, original, original_text)


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_sections_of_a_translation_name_the_same_code_and_links(page):
    original = TRANSLATIONS[page]
    here, there = sections(page), sections(original)
    assert [level for level, _ in here] == [level for level, _ in there]
    for number, ((_, prose), (_, english)) in enumerate(zip(here, there), 1):
        place = "%s: section %d of %s" % (page, number, original)
        assert rows_of(prose) == rows_of(english), place
        assert not code_of(english) - code_of(prose), place
        assert not targets_of(original, english) - targets_of(page, prose), place


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_each_page_links_its_translation_at_the_top(page):
    original = TRANSLATIONS[page]
    to_english = posixpath.relpath(original, posixpath.dirname(page) or ".")
    to_chinese = posixpath.relpath(page, posixpath.dirname(original) or ".")
    assert text_of(page).splitlines()[2] == "[English](%s) | 简体中文" % to_english
    assert text_of(original).splitlines()[2] == "English | [简体中文](%s)" % to_chinese


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_a_translation_has_no_unclosed_emphasis_and_no_missing_blanks(page):
    """Markdown does not close emphasis between Chinese punctuation and a letter."""
    prose = re.sub(r"\([^)\s]*\)|`[^`\n]*`", "", BLOCK.sub("", text_of(page)))
    for before, words, after in re.findall(r"(.?)\*\*([^*\n]+)\*\*(.?)", prose):
        for outside, inside in ((before, words[0]), (after, words[-1])):
            assert not re.match(r"\w\W", outside + inside), words
    assert re.findall(r"[a-z][\u4e00-\u9fff]|[\u4e00-\u9fff][a-z]", prose) == []


@pytest.mark.parametrize(
    "text, message",
    [
        ("```console\n$ a\n```\n\nmore\n\n```\nb\n```\n", ""),
        (
            "```console\n$ a\n```\n\n中文\n\n```\nc\n```\n",
            "zh.md, line 7: block 2 is not that of en.md, line 7",
        ),
        ("```console\n$ a\n```\n", "zh.md has 1 blocks, en.md 2"),
    ],
)
def test_a_code_block_that_differs_is_named(text, message):
    original = "```console\n$ a\n```\n\ntext\n\n```\nb\n```\n"
    assert difference("zh.md", text, "en.md", original).split(":\n")[0] == message
