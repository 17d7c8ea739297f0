"""The pages as a site: every page is in the navigation, none loads anything from elsewhere, and the
search works without a server.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

import pytest

from pages import PAGES, ROOT, TRANSLATIONS

SCRIPT = runpy.run_path(os.path.join(ROOT, "scripts", "docs"))
GROUPS = runpy.run_path(os.path.join(ROOT, "docs", "conf.py"))["GROUPS"]


def test_every_page_is_in_one_group_of_the_navigation():
    named = [os.path.normpath("docs/%s.md" % page) for pages in GROUPS.values() for page in pages]
    assert sorted(named) == sorted(set(named))
    assert {*PAGES, *TRANSLATIONS} - {"README.md"} <= set(named)


def test_a_page_that_no_link_leads_to_is_reported(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.html").write_text('<a class="x" href="docs/guide.html#part">guide</a>')
    (tmp_path / "docs" / "guide.html").write_text('<a href="../README.html">start</a>')
    (tmp_path / "search.html").write_text("")
    assert list(SCRIPT["faults"](tmp_path)) == []
    (tmp_path / "docs" / "guide.html").write_text("")
    assert list(SCRIPT["faults"](tmp_path)) == ["docs/guide.html: no link to README.html"]


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.invalid/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.invalid/x.css">',
    ],
)
def test_a_page_that_loads_from_elsewhere_is_reported(tmp_path, tag):
    (tmp_path / "README.html").write_text(tag)
    assert len(list(SCRIPT["faults"](tmp_path))) == 1


def test_a_folder_of_other_files_is_not_replaced_by_the_site(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    words = [sys.executable, os.path.join(ROOT, "scripts", "docs"), str(tmp_path)]
    done = subprocess.run(words, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 2 and "is no site" in done.stderr
    assert os.listdir(str(tmp_path)) == ["mine.txt"]


@pytest.mark.browser
@pytest.mark.docs
def test_the_search_of_the_site_works_without_a_server(tmp_path, driver, until):
    from selenium.webdriver.common.by import By

    out = tmp_path / "site"
    subprocess.check_call([sys.executable, os.path.join(ROOT, "scripts", "docs"), str(out)])
    for words, page in (("absent as expected", "Glossary"), ("标杆数据", "术语表")):
        driver.get("file://%s/index.html" % out)
        box = driver.find_element(By.CSS_SELECTOR, "input[name=q]")
        box.send_keys(words)
        box.submit()
        until(lambda: driver.find_elements(By.CSS_SELECTOR, "#search-results li a"))
        found = driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
        assert page in [link.text for link in found]
