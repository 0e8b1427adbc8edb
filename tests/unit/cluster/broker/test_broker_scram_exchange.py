from __future__ import annotations

import base64

import pytest

from corral.cluster.broker.scram import Credential, Refused, ScramServer, derive

# the exchange of RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(users: dict[str, Credential]) -> ScramServer:
    return ScramServer("SCRAM-SHA-256", users, secret=b"s", nonce=NONCE)


def known() -> dict[str, Credential]:
    return {"user": derive("SCRAM-SHA-256", "pencil", salt=SALT)}


def test_the_exchange_of_the_rfc() -> None:
    exchange = server(known())
    assert exchange.answer(FIRST) == SERVER_FIRST
    assert exchange.answer(FINAL) == SERVER_FINAL
    assert (exchange.done, exchange.user) == (True, "user")


def test_a_wrong_password() -> None:
    exchange = server({"user": derive("SCRAM-SHA-256", "pen", salt=SALT)})
    exchange.answer(FIRST)
    with pytest.raises(Refused):
        exchange.answer(FINAL)


def test_nobody_looks_like_somebody() -> None:
    first = server({}).answer(FIRST)
    assert first.split(b",s=")[0] == SERVER_FIRST.split(b",s=")[0]
    assert server({}).answer(FIRST) == first
    exchange = server({})
    exchange.answer(FIRST)
    with pytest.raises(Refused, match="wrong name or password"):
        exchange.answer(FINAL)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,r=x",
        b"n,,n=user",
        b"n,,m=ext,n=user,r=x",
        b"\xff\xfe",
        b"n,,n=user,r=" + b"x" * 5000,
    ],
)
def test_what_is_no_first_message(token: bytes) -> None:
    with pytest.raises(Refused):
        server(known()).answer(token)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        FINAL.replace(b"c=biws", b"c=eSws"),
        FINAL.replace(b"$k0", b"$k1"),
        FINAL[:-4],
        FINAL.replace(b"p=dHzb", b"p=!!!!"),
        FINAL.replace(b"p=dHzb", b"p=dHzc"),
    ],
)
def test_what_is_no_last_message(token: bytes) -> None:
    exchange = server(known())
    exchange.answer(FIRST)
    with pytest.raises(Refused):
        exchange.answer(token)
    with pytest.raises(Refused, match="over"):
        exchange.answer(FINAL)


def test_names_are_unescaped() -> None:
    exchange = server({})
    exchange.answer(b"n,,n=a=2Cb=3Dc,r=x")
    assert exchange.user == "a,b=c"
