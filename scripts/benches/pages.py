"""scripts/bench pages: the report's page in a real Chromium: size, time to write it, first paint,
filter, sort, zoom.

"paint" is Chromium's own first-contentful-paint since the navigation began, "drawn" is data-ready;
the others are the milliseconds that a handler and the next frame take, of three filters and four
keys the slowest.
"""

import argparse
import os
import sys
import tempfile
import time

sys.path.insert(
    0,
    os.path.join(
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        "tests",
        "helpers",
    ),
)

from browser import browser, show
from report_pages import network, write_page

PAINTED = """
const done = arguments[0];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (entry.name === 'first-contentful-paint') done(entry.startTime);
}).observe({type: 'paint', buffered: true});
"""  # noqa: E501
TIMED = """
const done = arguments[arguments.length - 1], [kind, value] = arguments, begin = performance.now();
if (kind === 'filter') { const f = document.querySelector('#filter'); f.value = value; f.dispatchEvent(new Event('input')); }
if (kind === 'sort') document.querySelector(value).click();
if (kind === 'zoom') document.querySelector('#plot').dispatchEvent(new KeyboardEvent('keydown', {key: value}));
document.body.offsetHeight;
requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
"""  # noqa: E501
DRAWN = """
const done = arguments[0], wait = () => document.documentElement.dataset.ready ? done(performance.now()) : setTimeout(wait, 1);
wait();
"""  # noqa: E501


def main():
    parser = argparse.ArgumentParser(prog=sys.argv[0], description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="1000,5000,20000", help="sizes of the run")
    parser.add_argument(
        "--rounds", type=int, default=3, help="times that each page is opened; the median counts"
    )
    asked = parser.parse_args()
    print(
        "%7s  %6s  %8s  %8s  %8s  %8s  %8s  %8s"
        % ("rows", "KB", "write s", "paint ms", "drawn ms", "filter", "sort", "zoom")
    )
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        for count in map(int, asked.rows.split(",")):
            path = os.path.join(folder, "page.html")
            rows = network(count, count // 3)
            begin = time.monotonic()
            write_page(path, rows, [count // 3])
            wrote = time.monotonic() - begin
            found = sorted(opened(driver, path) for _ in range(asked.rounds))[asked.rounds // 2]
            filters = max(
                driver.execute_async_script(TIMED, "filter", text)
                for text in ("conv", "unit3/", "")
            )
            sort = driver.execute_async_script(TIMED, "sort", "th[data-metric=CosineSimilarity]")
            zoom = max(driver.execute_async_script(TIMED, "zoom", key) for key in "++-0")
            numbers = (count, os.path.getsize(path) / 1e3, wrote, *found, filters, sort, zoom)
            print("%7d  %6.0f  %8.1f  %8.0f  %8.0f  %8.0f  %8.0f  %8.0f" % numbers)


def opened(driver, path):
    show(driver, path, scripts=False)
    drawn = driver.execute_async_script(DRAWN)
    return driver.execute_async_script(PAINTED), drawn


if __name__ == "__main__":
    main()
