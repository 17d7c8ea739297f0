"""Several tokens: their rights, reloading the file, and cookies bound to a server and ended by
logging out.
"""

from __future__ import annotations

import json
import os

import pytest
from service_client import COMPARE, TOKEN, post_job, wait_for_end

from goldwatch.base.errors import FormatError
from goldwatch.service.tokens import Token, cookie_value, holds_cookie, parse_tokens

VIEW, OTHER = "a-token-that-may-view-0123456789", "another-token-of-alice-0123456789"
FILE = "# who may do what\nalice submit %s\n\nboard view %s\n" % (TOKEN, VIEW)


def bearer(secret):
    return {"Authorization": "Bearer " + secret}


def write(server, text):
    """Have another file take the place of the server's, as an editor does."""
    path = os.path.join(server.folder, "token")
    with open(path + ".new", "w") as stream:
        stream.write(text)
    os.replace(path + ".new", path)


def read_again(server, until):
    """Wait for it; who asked with tokens that are wrong so far would be asked to wait a minute."""
    until(lambda: "tokens were read again" in server.read(server.err))


def status(server, secret, path="/api/v1/runs", method="GET", body=None):
    return server.ask(path, method, body, bearer(secret), token=False)[0]


def cookie_of(server, secret):
    answer, headers, _ = server.ask("/login", "POST", {"token": secret}, token=False)
    assert answer == 200
    return headers["Set-Cookie"].partition(";")[0]


def by_cookie(server, cookie, path="/api/v1/runs", method="GET", **more):
    return server.ask(path, method, token=False, headers={"Cookie": cookie, **more})[0]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("alice submit", "line 1: expected NAME ROLE TOKEN"),
        (
            "a view %s\nb owner %s" % (TOKEN, VIEW),
            "line 2: the role of b is neither view nor submit",
        ),
        ("%s\n%s" % (TOKEN, VIEW), "line 1: expected NAME ROLE TOKEN"),
        ("a view %s\na submit %s" % (TOKEN, VIEW), "line 2: the name a is there twice"),
        ("a view %s\nb submit %s" % (TOKEN, TOKEN), "line 2: a and b have the same token"),
        ("a view fifteen-letters", "line 1: the token of a has 15 characters"),
        ("a/b view %s" % TOKEN, "line 1: its first word is no name"),
        ("a view T\u00f6ken-of-many-letters", "line 1: the token of a is not printable ASCII"),
        ("# nothing\n", "expected a token"),
    ],
)
def test_a_wrong_token_file_is_refused_without_printing_tokens(text, line):
    with pytest.raises(FormatError) as caught:
        parse_tokens(text.encode(), "tokens")
    assert line in str(caught.value)
    said = "%s %s" % (caught.value, caught.value.hint)
    assert TOKEN not in said and VIEW not in said and "fifteen" not in said


def test_a_token_file_holds_one_token_or_several_with_names():
    assert parse_tokens(("\n %s\n" % TOKEN).encode(), "f") == (Token("token", "submit", TOKEN),)
    assert parse_tokens(FILE.encode(), "f") == (
        Token("alice", "submit", TOKEN),
        Token("board", "view", VIEW),
    )


def test_a_viewing_token_cannot_send_jobs(serving, lab, until):
    server = serving(lab)
    write(server, FILE)
    read_again(server, until)
    for path in ("/api/v1/runs", "/api/v1/jobs/0000000000000000/cancel"):
        answer, _, body = server.ask(path, "POST", COMPARE, bearer(VIEW), token=False)
        assert answer == 403 and b"the token board may only view" in body
    cookie = cookie_of(server, VIEW)
    assert by_cookie(server, cookie, method="POST", **{"X-Goldwatch": "1"}) == 403
    assert server.json("/api/v1/session", headers=bearer(VIEW), token=False) == {
        "name": "board",
        "role": "view",
        "read_only": False,
    }
    job = wait_for_end(server, post_job(server, COMPARE), until)
    assert (job["state"], job["submitted_by"]) == ("done", "alice")
    server.end()
    log = server.read(server.err)
    assert (
        " board POST /api/v1/runs 403 " in log
        and " alice POST /api/v1/runs 202 " in log
        and VIEW not in log
    )


def test_a_changed_token_file_is_read_again_unless_it_is_wrong(serving, live, row, tmp_path, until):
    store = live("out")
    store.put(row(1))
    server = serving(tmp_path / "lab")
    cookie = cookie_of(server, TOKEN)
    stream = server.stream(server.runs()[0]["id"])
    events = iter(stream)
    next(events)
    write(server, "alice submit %s\nboard owner %s\n" % (OTHER, VIEW))
    until(lambda: "tokens are those of before" in server.read(server.err))
    assert status(server, TOKEN) == 200 and status(server, OTHER) == 401
    os.unlink(os.path.join(server.folder, "token"))
    until(lambda: server.read(server.err).count("tokens are those of before") == 2)
    write(server, "alice submit %s\nboard view %s\n" % (OTHER, VIEW))
    read_again(server, until)
    # Nothing holds any more of what stood for the one that was taken out: the token, a cookie, a
    # stream that was open.
    assert (
        status(server, TOKEN) == 401
        and by_cookie(server, cookie) == 401
        and status(server, OTHER) == 200
    )
    store.put(row(2))
    assert "row 2" not in {"row %s" % number for _, number, _ in events}
    stream.close()
    log = server.read(server.err)
    assert (
        "tokens were read again: alice added, board added, token removed" in log
        and OTHER not in log
        and TOKEN not in log
    )


def test_logging_out_invalidates_copies_of_the_cookie(serving, live, row, tmp_path):
    live("out").put(row(1))
    server = serving(tmp_path / "lab")
    cookie, other = cookie_of(server, TOKEN), cookie_of(server, TOKEN)
    assert cookie != other and by_cookie(server, cookie) == 200
    # No form of another site can log somebody out.
    assert by_cookie(server, cookie, "/logout", "POST") == 403
    assert (
        by_cookie(
            server, cookie, "/logout", "POST", Origin="http://evil.example", **{"X-Goldwatch": "1"}
        )
        == 403
    )
    assert by_cookie(server, cookie, "/logout") == 405
    answer, headers, body = server.ask(
        "/logout", "POST", b"", {"Cookie": cookie, "X-Goldwatch": "1"}, token=False
    )
    assert (answer, json.loads(body)) == (200, {"status": "ok"}) and "Max-Age=0" in headers[
        "Set-Cookie"
    ]
    assert by_cookie(server, cookie) == 401 and by_cookie(server, other) == 200


def test_a_cookie_is_valid_for_its_server_and_token_only(serving, live, row, tmp_path):
    live("out").put(row(1))
    one, other = serving(tmp_path / "lab"), serving(tmp_path / "lab", "--read-only")
    value = cookie_of(one, TOKEN).partition("=")[2]
    assert by_cookie(one, "goldwatch-%d=%s" % (one.port, value)) == 200
    # Browsers send cookies to all ports of a host; renamed, as one who sits there can, it is as
    # worthless.
    assert by_cookie(other, "goldwatch-%d=%s" % (one.port, value)) == 401
    assert by_cookie(other, "goldwatch-%d=%s" % (other.port, value)) == 401
    token = Token("alice", "view", TOKEN)
    cookie = cookie_value(token, "server")
    assert holds_cookie(cookie, token, "server")
    for changed in (Token("bob", "view", TOKEN), Token("alice", "view", OTHER)):
        assert not holds_cookie(cookie, changed, "server")
    nonce, code = cookie.split(".")
    assert not holds_cookie("%s.%s" % ("0" * len(nonce), code), token, "server")
