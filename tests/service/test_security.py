"""Tokens, hosts, origins, limits and headers of the service."""

from __future__ import annotations

import asyncio
import contextlib
import html
import http.client
import json
import os
import re
import signal
import ssl
import stat
import subprocess
import urllib.request

import pytest
from in_process import run_here
from service_client import TOKEN

from goldwatch.service.answers import PAGE_POLICY

SHELLS = ("/healthz", "/api/v1/runs", "/nothing")


@pytest.fixture
def server(serving, live, row, tmp_path):
    live("out").put(row(1))
    return serving(tmp_path / "lab")


def test_everything_but_health_needs_a_token(server):
    assert server.ask("/healthz", token=False)[0] == 200
    for path in (
        "/api/v1/runs",
        "/api/v1/openapi.json",
        "/metrics",
        "/api/v1/nothing",
        "/api/v1/runs?token=" + TOKEN,
    ):
        status, headers, _ = server.ask(path, token=False)
        assert (path, status, headers["WWW-Authenticate"]) == (path, 401, "Bearer")
    status, _, body = server.ask(
        "/api/v1/runs", token=False, headers={"Authorization": "Bearer wrong"}
    )
    assert status == 401 and b"not the service's token" in body
    assert (
        server.ask("/api/v1/runs", token=False, headers={"Authorization": "Basic " + TOKEN})[0]
        == 401
    )


def test_requests_for_another_host_name_are_refused(server):
    own = "127.0.0.1:%d" % server.port
    for host in (
        "evil.example",
        "evil.example:%d" % server.port,
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:%d" % server.port,
    ):
        status, _, body = server.ask("/healthz", headers={"Host": host})
        assert (status, b"misdirected" in body) == (421, True), host
    assert server.ask("/healthz", headers={"Host": own})[0] == 200
    assert server.ask("/healthz", headers={"Host": "LocalHost:%d" % server.port})[0] == 200
    two = server.raw(
        b"GET /healthz HTTP/1.1\r\nHost: %s\r\nHost: evil.example\r\n\r\n" % own.encode()
    )
    none = server.raw(b"GET /healthz HTTP/1.1\r\n\r\n")
    for answer in (two, none, server.raw(b"no request\r\n\r\n")):
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400") and b"nosniff" in head
        assert json.loads(body)["error"] == {
            "kind": "usage",
            "message": "this is no HTTP request",
            "hint": "HTTP/1.1 with one Host header",
        }
    assert server.raw(b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421")


def test_the_host_in_an_absolute_request_target_is_checked(server):
    """RFC 9112, 3.2.2: a server must accept it, and believe the host that it names."""
    own = b"127.0.0.1:%d" % server.port
    request = b"GET http://%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n"
    token = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
    assert server.raw(request % (own, b"/api/v1/runs?limit=1", own, token)).startswith(
        b"HTTP/1.1 200"
    )
    assert server.raw(request % (own, b"", own, b"")).startswith(b"HTTP/1.1 200")
    assert server.raw(request % (own, b"/api/v1/runs", own, b"")).startswith(b"HTTP/1.1 401")
    assert server.raw(request % (b"evil.example", b"/api/v1/runs", own, token)).startswith(
        b"HTTP/1.1 421"
    )


def test_requests_from_other_origins_are_refused(server):
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:%d" % server.port},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        for path in ("/api/v1/runs", "/metrics"):
            assert (headers, server.ask(path, headers=headers)[0]) == (headers, 403)
        assert server.ask("/login", "POST", {"token": TOKEN}, headers)[0] == 403
    assert (
        server.ask("/api/v1/runs", headers={"Origin": server.url, "Sec-Fetch-Site": "same-origin"})[
            0
        ]
        == 200
    )
    assert server.ask("/api/v1/runs", headers={"Sec-Fetch-Site": "none"})[0] == 200


def test_every_answer_carries_the_security_headers(server):
    for path in SHELLS:
        _, headers, _ = server.ask(path)
        assert (
            headers["X-Content-Type-Options"] == "nosniff"
            and headers["Cache-Control"] == "no-store"
        )
        assert (
            "unsafe" not in headers["Content-Security-Policy"]
            and "default-src 'none'" in headers["Content-Security-Policy"]
        )
        assert (
            headers["Referrer-Policy"] == "no-referrer"
            and "Access-Control-Allow-Origin" not in headers
        )
        assert "Server" not in headers


def login(server, token=TOKEN):
    status, headers, _ = server.ask("/login", "POST", {"token": token}, token=False)
    return status, headers.get("Set-Cookie")


def test_a_login_cookie_replaces_the_token(server):
    assert login(server, "wrong") == (401, None)
    status, cookie = login(server)
    assert status == 200
    name = "goldwatch-%d=" % server.port
    assert (
        cookie.startswith(name)
        and "HttpOnly" in cookie
        and "samesite=strict" in cookie.lower()
        and "Path=/" in cookie
    )
    assert TOKEN not in cookie
    sent = {"Cookie": "other=1; " + cookie.partition(";")[0]}
    assert server.ask("/api/v1/runs", token=False, headers=sent)[0] == 200
    assert server.ask("/api/v1/runs", token=False, headers={"Cookie": name + "wrong"})[0] == 401
    assert server.ask("/api/v1/runs", token=False, headers={"Cookie": name + TOKEN})[0] == 401
    # What other services of the same host have left there is in nobody's way.
    assert (
        server.ask(
            "/api/v1/runs",
            token=False,
            headers={"Cookie": 'a[b]="x; y=; ' + cookie.partition(";")[0]},
        )[0]
        == 200
    )
    # What is sent by a cookie needs a header that no form can send.
    assert server.ask("/api/v1/runs", "POST", {}, token=False, headers=sent)[0] == 403


def test_many_wrong_tokens_are_answered_429(server):
    cookie = login(server)[1].partition(";")[0]
    found = [
        server.ask("/api/v1/runs", token=False, headers={"Authorization": "Bearer %d" % number})[0]
        for number in range(11)
    ]
    assert found == [401] * 10 + [429]
    # Who has the right one may have guessed nothing: behind one proxy many have one address.
    assert server.ask("/api/v1/runs")[0] == 200 and login(server)[0] == 200
    assert server.ask("/api/v1/runs", token=False, headers={"Cookie": cookie})[0] == 200


def test_simultaneous_token_guesses_are_limited_like_single_ones(server):
    import concurrent.futures

    def guess(number):
        return server.ask("/login", "POST", {"token": "guess-%d" % number}, token=False)[0]

    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        found = list(pool.map(guess, range(60)))
    assert (found.count(401), found.count(429)) == (10, 50)


def test_login_accepts_json_only(server):
    assert (
        server.ask(
            "/login",
            "POST",
            b"token=" + TOKEN.encode(),
            {"Content-Type": "application/x-www-form-urlencoded"},
        )[0]
        == 415
    )
    for body in (b"{", b"[" * 5000, b"\xff", b"[]", b'{"token": 5}', b'{"token": NaN}', b""):
        assert server.ask("/login", "POST", body, {"Content-Type": "application/json"})[0] in (
            400,
            401,
        )


def test_request_bodies_are_bounded(server):
    assert (
        server.ask("/login", "POST", b"x" * 65537, {"Content-Type": "application/json"})[0] == 413
    )
    head = (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        % server.port
    )
    chunked = head + b"Transfer-Encoding: chunked\r\n"
    assert server.raw(chunked + b"Connection: close\r\n\r\n0\r\n\r\n").startswith(b"HTTP/1.1 411")
    # However long a body of unknown length is, no more is read of it than of any other.
    assert server.raw(
        chunked + b"\r\n" + b"1000\r\n" + (b"x" * 4096 + b"\r\n1000\r\n") * 40
    ).startswith(b"HTTP/1.1 411")
    # One that does not end is waited for a moment only, and nothing else is asked on its
    # connection.
    answer = server.raw(chunked + b"\r\n5\r\nhello\r\n")
    assert answer.startswith(b"HTTP/1.1 411") and b"connection: close" in answer.lower()
    # Where the first of these ends, a proxy may see otherwise: the second is none of ours.
    second = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port
    answer = server.raw(chunked + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + second)
    assert (
        answer.startswith(b"HTTP/1.1 400")
        and answer.count(b"HTTP/1.1") == 1
        and b"not both" in answer
    )
    answer = server.raw(chunked + b"\r\n0\r\n\r\n" + second)
    assert answer.startswith(b"HTTP/1.1 411") and answer.count(b"HTTP/1.1") == 1
    assert server.raw(head + b"Content-Length: -5\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert server.raw(
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100000 + b"\r\n\r\n"
    ).startswith(b"HTTP/1.1 4")
    assert server.ask("/healthz")[0] == 200


def test_silent_and_slow_clients_are_disconnected(server):
    """Who sends nothing, half a request or half a body loses the connection; uvicorn alone would
    wait for ever.
    """
    assert server.raw(b"") == b""
    assert server.raw(b"GET /healthz HTTP/1.1\r\nHost:") == b""
    head = (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        % server.port
    )
    assert server.raw(head + b"Content-Length: 50\r\n\r\n{").startswith(b"HTTP/1.1 408")


def test_a_client_that_leaves_during_a_body_gives_one_log_line(server):
    import socket

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        head = (
            b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: "
            b"application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        connection.sendall(head % server.port)
    server.until(lambda: "POST /login 400 " in server.read(server.err))
    assert "Traceback" not in server.read(server.err)


def test_slow_bodies_do_not_block_other_clients(server):
    """More of them than there are connections: who is idle or still sends makes room."""
    import socket

    head = (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: "
        b"application/json\r\nContent-Length: 50\r\n\r\n{" % server.port
    )
    slow = []
    try:
        for _ in range(1100):
            slow.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            slow[-1].sendall(head)
        assert server.ask("/healthz")[0] == 200
    finally:
        for connection in slow:
            connection.close()


def test_two_hundred_idle_connections_do_not_block_other_clients(server):
    import socket

    idle = []
    try:
        for _ in range(200):
            idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        assert server.ask("/api/v1/runs")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_without_a_token_local_clients_may_read_but_not_send(serving, live, row, tmp_path):
    live("out").put(row(1))
    server = serving(tmp_path / "lab", token=None)
    assert server.ask("/api/v1/runs")[0] == 200
    assert (
        server.json("/api/v1/runs", method="POST", body={}, status=403)["error"]["kind"]
        == "forbidden"
    )
    assert server.ask("/login", "POST", {"token": ""})[0] == 403


def test_the_log_has_no_secrets(server):
    login(server)
    server.ask("/api/v1/runs?secret=in-the-query", headers={"Cookie": "goldwatch-1=in-the-cookie"})
    server.ask("/a%0Anew%20line%1b[31m")
    server.ask("/healthz", token=False, headers={"X-Forwarded-For": "203.0.113.9"})
    server.end()
    log = server.read(server.err) + server.read(server.out)
    assert TOKEN not in log and "in-the" not in log and "\x1b" not in log
    assert "127.0.0.1 token GET /api/v1/runs 200" in log and "/a%0Anew%20line%1B%5B31m" in log
    assert "Traceback" not in log and "203.0.113.9" not in log
    line = next(line for line in log.splitlines() if "GET /healthz" in line)
    assert re.match(
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO: 127\.0\.0\.1 - GET "
        r"/healthz 200 \d+ ms\Z",
        line,
    ), line


HANGS = """
import threading
from goldwatch.store.store_reader import StoreReader

def page(*_):
    open(%r, "w").close()
    threading.Event().wait()

StoreReader.page = page
"""


def test_the_server_ends_though_a_disk_does_not_answer(
    serving, live, row, tmp_path, monkeypatch, until
):
    live("out").put(row(1))
    asked = str(tmp_path / "asked")
    (tmp_path / "sitecustomize.py").write_text(HANGS % asked)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = serving(tmp_path / "lab")
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    ) as connection:
        connection.request(
            "GET",
            "/api/v1/runs/%s/rows" % server.runs()[0]["id"],
            headers={"Authorization": "Bearer " + server.token},
        )
        until(lambda: os.path.exists(asked))
        assert server.end() == 0


def test_the_server_exits_with_0_at_sigterm(server):
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--listen", "0.0.0.0:0"], 2, "token"),
        (["--listen", "0.0.0.0:0", "--token-file", "token"], 2, "TLS"),
        (["--listen", "8470"], 2, "address"),
        (["--listen", "::1:8470"], 2, "brackets"),
        (["--listen", "127.0.0.1:99999"], 2, "port"),
        (["--public-url", "https://a.example"], 2, "token"),
        (["--public-url", "a.example", "--token-file", "token"], 2, "URL"),
        (["--public-url", "http://a.example", "--token-file", "token"], 2, "https://"),
        (["--public-url", "https://a.example/runs", "--token-file", "token"], 2, "/runs"),
        (["--public-url", "https://a.example/gw/../x", "--token-file", "token"], 2, "path"),
        (["--public-url", "https://a.example/gw?x=1", "--token-file", "token"], 2, "URL"),
        (["--public-url", "https://a.example:99999", "--token-file", "token"], 2, "URL"),
        (["--public-url", "https://user:word@a.example", "--token-file", "token"], 2, "URL"),
        (["--trusted-proxy", "proxy.example"], 2, "address or a network"),
        (["--trusted-proxy", "unix"], 2, "--socket"),
        (["--socket", "s", "--listen", "127.0.0.1:0"], 2, "one of them"),
        (["--socket", "token"], 4, "no socket"),
        (["--socket", "nowhere/s"], 4, "cannot listen"),
        (["--socket", "s" * 200], 4, "107 bytes"),
        (["--notify", "https://a.example/hook"], 2, "--token-file"),
        (["--notify", "ftp://a.example/hook", "--token-file", "token"], 2, "to notify"),
        (["--token-file", "short"], 4, "at least 16"),
        (["--token-file", "twice"], 4, "line 2"),
        (["--token-file", "missing"], 4, "missing"),
        (["--token-file", "empty"], 4, "token"),
        (["--tls-key", "token"], 2, "--tls-cert"),
        (["--tls-cert", "token"], 4, "TLS"),
    ],
)
def test_unsafe_or_wrong_options_are_refused_in_one_sentence(tmp_path, options, code, said):
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "empty").write_text("")
    (tmp_path / "short").write_text("fifteen-letters")
    (tmp_path / "twice").write_text("a view %s\nb view %s\n" % (TOKEN, TOKEN))
    done = run_here(["goldwatch", "serve", ".", *options], tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (
        code,
        True,
        False,
    ), done.stderr


def test_a_missing_root_and_a_used_port_are_reported(server, tmp_path):
    assert run_here(["goldwatch", "serve", "nowhere"], tmp_path).returncode == 4
    done = run_here(["goldwatch", "serve", ".", "--listen", "127.0.0.1:%d" % server.port], tmp_path)
    assert done.returncode == 4 and "cannot listen" in done.stderr


def test_a_token_file_readable_by_others_is_warned_of(tmp_path):
    from goldwatch.service.tokens import Tokens

    path = tmp_path / "token"
    path.write_text(TOKEN)
    os.chmod(str(path), 0o644)
    assert len(Tokens(str(path)).warnings) == 1
    os.chmod(str(path), stat.S_IRUSR)
    assert Tokens(str(path)).warnings == []


def test_tls_serves_https_only(serving, tmp_path, until, monkeypatch):
    """A certificate of our own; plain requests get nothing, and a client that never shakes hands is
    in nobody's way.
    """
    certificate = tmp_path / "cert.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
        str(tmp_path / "key.pem"), "-out", str(certificate),
         "-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert made.returncode == 0
    (tmp_path / "lab").mkdir()
    server = serving(
        tmp_path / "lab", "--tls-cert=%s" % certificate, "--tls-key=%s" % (tmp_path / "key.pem")
    )
    assert server.scheme == "https"
    import socket

    with socket.create_connection(("127.0.0.1", server.port)):
        context = ssl.create_default_context(cafile=str(certificate))
        request = urllib.request.Request(
            "https://127.0.0.1:%d/api/v1/runs" % server.port,
            headers={"Authorization": "Bearer " + TOKEN},
        )
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            assert answer.status == 200
    assert not server.raw(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")
    # What a terminal is told, and what helps.
    token = tmp_path / "t"
    token.write_text(TOKEN)
    words = ["goldwatch", "status", "--server", server.url, "--token-file", str(token)]
    done = run_here(words)
    assert done.returncode == 4 and "SSL_CERT_FILE" in done.stderr
    done = run_here([*words[:3], server.url.replace("https", "http"), *words[4:]])
    assert done.returncode == 4 and "https://" in done.stderr
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert run_here(words).returncode == 0


def test_behind_a_proxy_only_the_public_name_is_answered(serving, tmp_path):
    (tmp_path / "lab").mkdir()
    server = serving(tmp_path / "lab", "--public-url=https://goldwatch.example.org")
    assert server.ask("/api/v1/runs", headers={"Host": "127.0.0.1:%d" % server.port})[0] == 421
    own = {"Host": "goldwatch.example.org", "Origin": "https://goldwatch.example.org"}
    assert server.ask("/api/v1/runs", headers=own)[0] == 200
    status, headers, _ = server.ask("/login", "POST", {"token": TOKEN}, own)
    assert (
        status == 200
        and headers["Set-Cookie"].startswith("goldwatch-443=")
        and "Secure" in headers["Set-Cookie"]
    )


def test_listen_addresses_are_parsed():
    from goldwatch.base.errors import UsageError
    from goldwatch.service.access import Access, Address, parse_address

    assert parse_address("[::1]:80") == Address("::1", 80) and parse_address(":0") == Address(
        "127.0.0.1", 0
    )
    for text in ("", ":", "a", "a:b", "::1:80", "a b:80", "a:-1"):
        with pytest.raises(UsageError):
            parse_address(text)
    everywhere = Access(Address("0.0.0.0", 8470), "t", True, None)
    assert everywhere.knows_host("192.0.2.7:8470") and everywhere.knows_host("[2001:db8::1]:8470")
    assert not everywhere.knows_host("192.0.2.7") and not everywhere.knows_host("evil.example:8470")
    assert everywhere.knows_origin("https://192.0.2.7:8470", "192.0.2.7:8470")
    assert not everywhere.knows_origin("https://192.0.2.8:8470", "192.0.2.7:8470")
    assert Access(Address("::1", 80), None, False, None).knows_host("[::1]")


def test_a_slow_long_answer_is_not_cut_off():
    """The time that a body may take is none that an answer may take: a client of a long download is
    listened to, not cut off.
    """
    from goldwatch.service.answers import Problem
    from goldwatch.service.guard import _Exchange

    async def look(headers):
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def late():
            await asyncio.Event().wait()

        exchange = _Exchange(
            {"type": "http", "headers": headers}, receive if not headers else late, None
        )
        exchange._until -= 1000
        return await exchange.receive()

    assert asyncio.run(look([]))["type"] == "http.request"
    with pytest.raises(Problem) as raised:
        asyncio.run(look([(b"content-length", b"5")]))
    assert raised.value.status_code == 408


def test_a_browser_without_login_gets_a_diff_page_without_data(serving, live, row, tmp_path):
    for name in ("out", "another"):
        live(name).put(row(1))
    server = serving(tmp_path / "lab")
    link = "/diff/%s/%s" % tuple(run["id"] for run in server.runs())
    browser = {"Accept": "text/html,*/*;q=0.8"}
    for token, headers, status in ((False, {}, 401), (True, {"Sec-Fetch-Site": "cross-site"}, 403)):
        given, _, body = server.ask(link, headers=headers, token=token)
        assert given == status and json.loads(body)["error"]["message"]
    given, headers, body = server.ask(link, headers=browser, token=False)
    assert (
        given == 401
        and headers["Content-Type"].startswith("text/html")
        and headers["Content-Security-Policy"] == PAGE_POLICY
    )
    assert b'id="opening"' in body and b"another" not in body
    foreign = {**browser, "Sec-Fetch-Site": "cross-site"}
    assert server.ask(link, headers=foreign, token=False)[::2] == (403, body)
    # Other paths, and who gives a wrong token, get the refusal itself.
    assert (
        json.loads(server.ask("/api/v1/runs", headers=browser, token=False)[2])["error"]["kind"]
        == "unauthorised"
    )
    wrong = {**browser, "Authorization": "Bearer another-token-0123456789"}
    assert (
        json.loads(server.ask(link, headers=wrong, token=False)[2])["error"]["kind"]
        == "unauthorised"
    )


@pytest.fixture
def opened(serving, live, row, tmp_path):
    """(a server with a run, the id of the run, what the browser of one who has logged in sends)."""
    live("out").put(row(1))
    (tmp_path / "lab" / "out" / "result.json").write_text("{}")
    server = serving(tmp_path / "lab")
    _, headers, _ = server.ask("/login", "POST", {"token": server.token}, token=False)
    cookie = headers["Set-Cookie"].partition(";")[0]
    return server, server.runs()[0]["id"], {"Accept": "text/html,*/*;q=0.8", "Cookie": cookie}


def test_a_file_link_opened_before_the_login_leads_back_to_the_file(opened):
    server, run, browser = opened
    link = "/api/v1/runs/%s/files/result.json" % run
    given, headers, body = server.ask(link, headers={"Accept": browser["Accept"]}, token=False)
    assert (given, headers["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert b'id="opening"' in body and b"opening.js" in body
    assert server.ask(link, headers=browser, token=False)[::2] == (200, b"{}")
    assert json.loads(server.ask(link, token=False)[2])["error"]["kind"] == "unauthorised"


def test_a_browser_that_opens_a_missing_run_gets_a_page(opened):
    server, run, browser = opened
    gone = "0" * 16
    for link, status in (
        ("/diff/%s/%s" % (run, gone), 404),
        ("/diff/%s/%s" % (run, run), 400),
        ("/api/v1/runs/%s/files/result.json" % gone, 404),
        ("/api/v1/runs/%s/files/none.csv" % run, 404),
    ):
        given, headers, body = server.ask(link, headers=browser, token=False)
        assert (given, headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"] == PAGE_POLICY
        given, _, refusal = server.ask(link)
        error = json.loads(refusal)["error"]
        assert given == status and error["message"] in html.unescape(body.decode())
        assert b'href="/jobs"' in body
