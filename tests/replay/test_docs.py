"""The figures of docs/replay.md are those in force."""

from __future__ import annotations

from goldwatch.judging.diagnosis.replay_limits import own_error_limits
from pages import text_of


def test_the_limits_of_the_replay_page_are_those_in_force() -> None:
    text = text_of("docs/replay.md")
    assert "5 u = %.3g |" % own_error_limits([1], "float16")[0] in text
    assert (
        "(5 + √n / 4) u, at most %g | 2.5 times that, at most %g |"
        % tuple(own_error_limits([10**9], "float16"))
        in text
    )
    assert "at most %g and %g." % tuple(own_error_limits([10**9], "bfloat16")) in text
