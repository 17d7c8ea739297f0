"""The service behind a proxy, below a path or at a Unix socket: links, redirects, cookies, streams,
client addresses.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import stat
import urllib.parse

import pytest
from browser import READY
from in_process import run_here
from prefix_proxy import PrefixProxy
from service_client import COMPARE, TOKEN, wait_for_end

from goldwatch.base.errors import UsageError
from goldwatch.service.access import Access, Address, parse_public_url

PREFIX = "/lab/gw"


@pytest.fixture(params=["strips", "hands on"])
def behind(request, serving):
    """Starts a server behind a proxy, ``behind(root)``; returns both."""
    with contextlib.ExitStack() as stack:

        def start(root, *options):
            proxy = PrefixProxy(PREFIX, request.param == "strips")
            stack.callback(proxy.close)
            server = serving(
                root, "--public-url=" + proxy.url, "--trusted-proxy=127.0.0.1", *options
            )
            proxy.server = (socket.AF_INET, ("127.0.0.1", server.port))
            return server, proxy

        yield start


def ask(proxy, path, method="GET", body=None, **headers):
    """Return (status, headers, body) of a request to the proxy."""
    connection = http.client.HTTPConnection("localhost", proxy.port, timeout=60)
    with contextlib.closing(connection):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_every_link_and_redirect_stays_below_the_proxys_path(behind, lab, until):
    server, proxy = behind(lab)
    token = {"Authorization": "Bearer " + TOKEN}
    for page in ("/", "/jobs", "/runs/0123456789abcdef"):
        status, _, body = ask(proxy, PREFIX + page)
        links = re.findall(r'(?:href|src)="([^"]*)"', body.decode())
        assert status == 200 and len(links) >= 4
        for link in links:
            assert link == "data:," or link.startswith(PREFIX + "/"), link
            assert link == "data:," or ask(proxy, link)[0] == 200, link
    if not proxy.strips:
        status, headers, _ = ask(proxy, PREFIX)
        assert (status, headers["Location"]) == (308, PREFIX + "/")
    status, headers, body = ask(proxy, PREFIX + "/api/v1/runs", "POST", COMPARE, **token)
    assert status == 202 and headers["Location"] == "%s/api/v1/jobs/%s" % (
        PREFIX,
        json.loads(body)["id"],
    )
    assert ask(proxy, headers["Location"], **token)[0] == 200
    document = json.loads(ask(proxy, PREFIX + "/api/v1/openapi.json", **token)[2])
    assert document["servers"] == [{"url": proxy.url}]
    status, headers, _ = ask(proxy, PREFIX + "/login", "POST", {"token": TOKEN})
    cookie = headers["Set-Cookie"]
    assert status == 200 and "Path=%s;" % PREFIX in cookie + ";"
    assert ask(proxy, PREFIX + "/api/v1/runs", Cookie=cookie.partition(";")[0])[0] == 200
    status, headers, _ = ask(
        proxy, PREFIX + "/logout", "POST", {}, Cookie=cookie.partition(";")[0], X_Goldwatch="1"
    )
    assert status == 200 and "Path=%s;" % PREFIX in headers["Set-Cookie"] + ";"
    assert ask(proxy, PREFIX + "/api/v1/runs", Cookie=cookie.partition(";")[0])[0] == 401
    wait_for_end(server_by_name(server, proxy), json.loads(body), until)


def server_by_name(server, proxy):
    """Return the server, asked by the name that the proxy has."""

    class Named:
        def json(self, path, status=200):
            return server.json(path, status, headers={"Host": "localhost:%d" % proxy.port})

    return Named()


def test_a_diff_links_to_its_runs_below_the_proxys_path(behind, live, row, tmp_path):
    for name in ("out", "another"):
        live(name).put(row(1))
    server, proxy = behind(tmp_path / "lab")
    token = {"Authorization": "Bearer " + TOKEN}
    before, after = (
        run["id"] for run in json.loads(ask(proxy, PREFIX + "/api/v1/runs", **token)[2])["runs"]
    )
    status, _, body = ask(proxy, "%s/diff/%s/%s" % (PREFIX, before, after), **token)
    links = re.findall(r'<a href="(/[^"]*)"', body.decode())
    assert status == 200 and links == [
        PREFIX + path for path in ("/", "/jobs", "/runs/" + before, "/runs/" + after)
    ]
    assert all(ask(proxy, link)[0] == 200 for link in links)
    # Who has not logged in gets a page whose script and style are below the path, too.
    status, _, body = ask(proxy, "%s/diff/%s/%s" % (PREFIX, before, after), Accept="text/html")
    links = re.findall(r'(?:href|src)="(/[^"]*)"', body.decode())
    assert status == 401 and len(links) == 4 and all(ask(proxy, link)[0] == 200 for link in links)
    assert all(link.startswith(PREFIX + "/") for link in links)


def test_streams_and_client_commands_work_through_a_proxy(behind, live, row, tmp_path):
    store = live("out")
    store.put_all([row(number) for number in range(3)])
    server, proxy = behind(tmp_path / "lab")
    run = json.loads(ask(proxy, PREFIX + "/api/v1/runs", Authorization="Bearer " + TOKEN)[2])[
        "runs"
    ][0]["id"]
    connection = http.client.HTTPConnection("localhost", proxy.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(
            "GET",
            "%s/api/v1/runs/%s/events" % (PREFIX, run),
            headers={"Authorization": "Bearer " + TOKEN},
        )
        answer = connection.getresponse()
        lines = iter(answer.readline, b"")
        assert any(line.startswith(b"id: ") for line in lines)
        store.put(row(3, op="later"))
        assert any(b'"later"' in line for line in lines)
    words = [
        "goldwatch",
        "status",
        "--server",
        proxy.url,
        "--token-file",
        os.path.join(server.folder, "token"),
    ]
    done = run_here(words)
    assert done.returncode == 0 and "1 run" in done.stdout, done.stderr


@pytest.mark.browser
def test_pages_work_below_a_proxys_path(behind, live, row, tmp_path, driver, until):
    live("out").put_all([row(1), row(2, verdict="fail")])
    _, proxy = behind(tmp_path / "lab")

    def element(selector):
        return until(lambda: next(iter(driver.find_elements("css selector", selector)), None))

    driver.get(proxy.url + "/")
    until(lambda: driver.execute_script(READY))
    element("#token").send_keys(TOKEN + "\n")
    link = element("#runs tbody a")
    assert urllib.parse.urlsplit(link.get_attribute("href")).path.startswith(PREFIX + "/runs/")
    link.click()
    until(
        lambda: driver.execute_script("return Number(document.documentElement.dataset.rows || 0)")
        == 2
    )
    assert urllib.parse.urlsplit(driver.current_url).path.startswith(PREFIX + "/runs/")
    element('nav a[href$="/jobs"]').click()
    until(lambda: "No jobs" in element("#jobs-status").text)
    assert all(path.startswith(PREFIX) for path in proxy.paths), proxy.paths
    element("#logout").click()
    element("#token")
    driver.get("about:blank")
    driver.get_log("browser")


def test_the_service_listens_on_a_unix_socket(serving, live, row, tmp_path):
    store = live("out")
    store.put(row(1))
    path = str(tmp_path / "gw.sock")
    server = serving(tmp_path / "lab", "--socket=" + path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    assert len(server.runs()) == 1
    assert server.ask("/healthz", headers={"Host": "evil.example"})[0] == 421
    words = [
        "goldwatch",
        "status",
        "--server",
        "unix:" + path,
        "--token-file",
        os.path.join(server.folder, "token"),
    ]
    done = run_here(words)
    assert done.returncode == 0 and "1 run" in done.stdout, done.stderr
    done = run_here(["goldwatch", "serve", str(tmp_path / "lab"), "--socket", path])
    assert done.returncode == 4 and "another program listens there" in done.stderr
    server.process.kill()
    server.process.wait(60)
    done = run_here(words)
    assert (
        done.returncode == 4
        and "does not answer" in done.stderr
        and "this user may write to its socket" in done.stderr
    )
    # What a killed server left there is in nobody's way.
    again = serving(tmp_path / "lab", "--socket=" + path)
    assert len(again.runs()) == 1
    assert again.end() == 0
    assert not os.path.exists(path)


def test_a_proxy_may_connect_by_the_unix_socket(serving, live, row, tmp_path):
    live("out").put(row(1))
    path = str(tmp_path / "gw.sock")
    proxy = PrefixProxy(PREFIX, False)
    proxy.server = (socket.AF_UNIX, path)
    with contextlib.closing(proxy):
        server = serving(
            tmp_path / "lab",
            "--socket=" + path,
            "--public-url=" + proxy.url,
            "--trusted-proxy=unix",
        )
        assert ask(proxy, PREFIX + "/api/v1/runs", Authorization="Bearer " + TOKEN)[0] == 200
        server.end()
    assert " 127.0.0.1 token GET /api/v1/runs 200 " in server.read(server.err)


def test_a_clients_address_is_taken_from_trusted_proxies_only():
    access = Access(
        Address("127.0.0.1", 8470),
        None,
        trusted_proxies=["10.0.0.0/24", "192.0.2.1", "2001:db8::/32"],
    )
    for peer, forwarded, client in (
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        # What a client writes itself stands before what the proxies add.
        ("10.0.0.7", ["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.7", ["1.2.3.4", "198.51.100.1, 192.0.2.1"], "198.51.100.1"),
        ("10.0.0.7", ["198.51.100.1, 10.0.0.9 , 192.0.2.1"], "198.51.100.1"),
        ("10.0.0.7", ["nonsense"], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1, nonsense, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.7", ["[2001:db9::1]:4711"], "2001:db9::1"),
        ("2001:db8::5", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.7", ["x" * 10000], "10.0.0.7"),
        # A connection that is gone has no address; it did not come by a socket.
        (None, ["198.51.100.1"], "-"),
    ):
        assert (forwarded, access.client(peer, forwarded)) == (forwarded, client)
    by_socket = Access(None, None, trusted_proxies=["unix"])
    assert by_socket.client(None, ["198.51.100.1"]) == "198.51.100.1"
    assert Access(None, None).client(None, ["198.51.100.1"]) == "unix"


def test_a_forged_address_allows_no_more_token_guesses(serving, live, row, tmp_path):
    live("out").put(row(1))
    server = serving(tmp_path / "lab", "--trusted-proxy=192.0.2.1")
    headers = [
        {"Authorization": "Bearer wrong", "X-Forwarded-For": "198.51.100.%d" % number}
        for number in range(12)
    ]
    found = [server.ask("/api/v1/runs", token=False, headers=sent)[0] for sent in headers]
    assert found == [401] * 10 + [429] * 2


def test_token_guesses_are_limited_per_client_behind_a_proxy(serving, live, row, tmp_path):
    live("out").put(row(1))
    server = serving(tmp_path / "lab", "--trusted-proxy=127.0.0.1")

    def guess(client, token="wrong"):
        headers = {"Authorization": "Bearer " + token, "X-Forwarded-For": client}
        return server.ask("/api/v1/runs", token=False, headers=headers)[0]

    assert [guess("198.51.100.1") for _ in range(11)] == [401] * 10 + [429]
    assert guess("198.51.100.2", TOKEN) == 200
    # One machine has all addresses of its network to choose from.
    assert [guess("2001:db8:1:2::%d" % number) for number in range(1, 12)] == [401] * 10 + [429]
    assert guess("2001:db8:1:3::1", TOKEN) == 200


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/gw/api/v1/runs", "/api/v1/runs"), ("/api/v1/runs", "/api/v1/runs"),
        ("/gwx/api", "/gwx/api"), ("/gw", "/gw"), ("/gw/", "/"),
        ("/gw/gw/x", "/gw/x"), ("//gw/x", "//gw/x"), ("/GW/x", "/GW/x"),
    ],
)  # fmt: skip
def test_paths_outside_the_proxys_path_are_not_served(path, below):
    access = Access(Address("127.0.0.1", 8470), None, public_url="https://host.example/gw/")
    assert access.below_prefix(path) == below and access.url == "https://host.example/gw"


@pytest.mark.parametrize(
    "url",
    ["https://h/a//b", "https://h/../a", "https://h/.", "https://h/a b", "https://h/%67w",
    "https://h/gw;x", "https://h/gw#x", "https://h/gw?",
     "https://h/api", "https://h/static/x", "https://h/gw\nX: y", "https:///gw", "https://h\\gw",
     "https://hö/gw", "file:///gw"],
)  # fmt: skip
def test_wrong_public_urls_are_refused(url):
    with pytest.raises(UsageError):
        parse_public_url(url)
