from __future__ import annotations

import pytest

from corral.gateway.auth import Caller, Unauthenticated, caller_of, flow_of, redacted


@pytest.mark.parametrize("header", ["Bearer abc.def-1~+/=", "bearer abc", "  Bearer  abc  "])
def test_a_bearer_token_is_taken_as_it_is(header: str) -> None:
    assert caller_of(header).token == header.split()[1]


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer ü", "Bearer a\nb",
     "Bearer " + "a" * 20_000, "abc"],
)  # fmt: skip
def test_anything_else_is_nobody(header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        caller_of(header)


def test_a_token_shows_nowhere() -> None:
    caller = Caller("secret", "10.0.0.1")
    assert "secret" not in repr(caller)
    assert "secret" not in caller.key
    assert caller.key == Caller("secret").key != Caller("other").key


@pytest.mark.parametrize(
    ("user", "flow"),
    [
        ("ann", "ann"),
        ("system:serviceaccount:a:b", "system:serviceaccount:a"),
        ("system:serviceaccount:a", "system:serviceaccount:a"),
        ("system:node:one", "system:node:one"),
        ("", ""),
    ],
)
def test_service_accounts_of_a_namespace_are_one_flow(user: str, flow: str) -> None:
    assert flow_of(user) == flow == Caller("t", user=user).flow


def test_what_follows_bearer_is_left_out_of_logs() -> None:
    assert redacted("sent Authorization: Bearer abc.def== to x") == (
        "sent Authorization: Bearer [redacted] to x"
    )
