"""A headless Chromium for tests of pages; it is always ended with all its processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import urllib.parse

NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "driver": ("chromedriver",)}
TIMEOUT_S = 60
READY = "return document.documentElement.getAttribute('data-ready') === '1'"
SIDEWAYS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


def browser_program(what):
    """Return the path of ``chromium`` or ``driver``; None where there is none."""
    return next((path for path in map(shutil.which, NAMES[what]) if path), None)


def missing_browser_parts():
    """Return what a test in a browser lacks here; None where it can run."""
    missing = [name for what, (name, *_) in NAMES.items() if browser_program(what) is None]
    missing += ["selenium"] if importlib.util.find_spec("selenium") is None else []
    return "no " + ", no ".join(missing) if missing else None


def axe_file():
    """Return the path of axe-core's script, which scripts/test gets from npm; None where it is not
    here.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.environ.get("GOLDWATCH_AXE") or os.path.join(
        root, ".envs", "axe", "node_modules", "axe-core", "axe.min.js"
    )
    return path if os.path.isfile(path) else None


def accessibility_faults(driver):
    """Return what axe-core finds wrong with the page that is shown, as lines."""
    with open(axe_file(), encoding="utf-8") as stream:
        driver.execute_script(stream.read())
    failed = "(error) => arguments[0]([{id: String(error), nodes: [{html: ''}]}])"
    run = (
        "axe.run(document, {resultTypes: ['violations']}).then((found) => "
        "arguments[0](found.violations), %s)" % failed
    )
    faults = driver.execute_async_script(run)
    return [
        "%s: %s %s" % (fault["id"], node["html"][:200], node.get("failureSummary"))
        for fault in faults
        for node in fault["nodes"]
    ]


@contextlib.contextmanager
def browser(width=1280, height=900, dark=False, scripts=True):
    """Yield a selenium driver of a browser whose window has this size."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser_program("chromium")
    # As root Chromium refuses to run in its sandbox.
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--disable-background-networking",
    ):
        options.add_argument(argument)
    options.add_argument("--window-size=%d,%d" % (width, height))
    if not scripts:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A pipe that a browser keeps open after its test would be read for ever.
    service = Service(
        browser_program("driver"),
        log_output=subprocess.DEVNULL,
        popen_kw={"start_new_session": True},
    )
    driver = None
    try:
        driver = webdriver.Chrome(options=options, service=service)
        driver.set_page_load_timeout(TIMEOUT_S)
        driver.set_script_timeout(TIMEOUT_S)
        driver.command_executor.client_config.timeout = TIMEOUT_S
        resize(driver, width, height, dark)
        yield driver
    finally:
        process = service.process
        if driver is not None:
            with contextlib.suppress(Exception):
                driver.quit()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(TIMEOUT_S)


def resize(driver, width, height, dark=False):
    """Give the page exactly this size, smaller than a window can be, and a colour scheme."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def show(driver, path, fragment="", scripts=True):
    """Load a page of the disk and wait until it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get("about:blank")
    driver.get("file://" + urllib.parse.quote(os.path.abspath(path)) + fragment)
    if scripts:
        WebDriverWait(driver, TIMEOUT_S, 0.02).until(lambda it: it.execute_script(READY))


def console(driver):
    """Return what the console has said since it was last asked."""
    return [entry["message"] for entry in driver.get_log("browser")]


def element(driver, selector):
    """Return the first element of a CSS selector."""
    return driver.find_element("css selector", selector)
