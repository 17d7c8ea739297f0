from __future__ import annotations

import os
import re
import sqlite3

import pytest

from goldwatch.store.store import RunStore

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reference", "results.md")

with open(PAGE, encoding="utf-8") as page:
    QUERIES = re.findall(r"```sql\n(.*?)```", page.read(), re.DOTALL)


def test_the_page_shows_three_queries():
    assert len(QUERIES) == 3


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_the_page_run_on_a_store(tmp_path, make_row, query):
    with RunStore.begin(str(tmp_path), {}) as store:
        store.put(make_row(0))
        store.put(make_row(0, verdict="fail"))
        connection = sqlite3.connect("file:%s?mode=ro" % store.path, uri=True)
        try:
            assert len(connection.execute(query).fetchall()) == 1
        finally:
            connection.close()
