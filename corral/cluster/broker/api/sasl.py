"""SaslHandshake, SaslAuthenticate, and the users there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.scram import ITERATIONS, MECHANISMS, Credential, Refused
from corral.cluster.broker.users import Users

__all__ = [
    "alter_user_scram_credentials",
    "describe_user_scram_credentials",
    "sasl_authenticate",
    "sasl_handshake",
]

_NUMBERS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def sasl_handshake(call: Call) -> Answer:
    mechanisms = tuple(MECHANISMS)
    if not call.broker.secure or call.session.tenant is not None:
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": mechanisms}
    if call.request.mechanism not in MECHANISMS:
        return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": mechanisms}
    call.session.begin_login(call.request.mechanism)
    return {"error_code": ErrorCode.none, "mechanisms": mechanisms}


async def sasl_authenticate(call: Call) -> Answer:
    exchange = call.session.login
    if exchange is None:
        return {
            "error_code": ErrorCode.illegal_sasl_state,
            "error_message": "a handshake comes first",
            "auth_bytes": b"",
        }
    try:
        token = exchange.answer(call.request.auth_bytes)
    except Refused as err:
        call.session.end_login(None)
        return {
            "error_code": ErrorCode.sasl_authentication_failed,
            "error_message": f"Authentication failed: {err}",
            "auth_bytes": b"",
        }
    if exchange.done:
        call.session.end_login(exchange.user)
    return {"error_code": ErrorCode.none, "error_message": None, "auth_bytes": token}


async def describe_user_scram_credentials(call: Call) -> Answer:
    try:
        users = _users(call)
    except BrokerError as err:
        return {"error_code": err.code, "error_message": str(err), "results": ()}
    wanted = call.request.users
    names = users.names() if not wanted else [user.name for user in wanted]
    known = set(users.names())
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "results": [
            {
                "user": name,
                "error_code": ErrorCode.none if name in known else ErrorCode.resource_not_found,
                "error_message": None if name in known else "there is no such user",
                "credential_infos": [
                    {"mechanism": number, "iterations": users.of(mechanism)[name].iterations}
                    for number, mechanism in _NUMBERS.items()
                    if name in users.of(mechanism)
                ],
            }
            for name in names
        ],
    }


async def alter_user_scram_credentials(call: Call) -> Answer:
    request = call.request
    names = dict.fromkeys(row.name for row in (*request.deletions, *request.upsertions))

    def change(name: str) -> Mapping[str, Any]:
        try:
            users = _users(call)
            put = {
                _mechanism(row): _credential(row) for row in request.upsertions if row.name == name
            }
            remove = [_mechanism(row) for row in request.deletions if row.name == name]
            users.change(name, put=put, remove=remove)
        except BrokerError as err:
            return {"user": name, "error_code": err.code, "error_message": str(err)}
        return {"user": name, "error_code": ErrorCode.none, "error_message": None}

    return {"results": [change(name) for name in names]}


def _users(call: Call) -> Users:
    """Raises BrokerError where there are none, or they are not for clients to see."""
    users = call.broker.users
    if users is None:
        raise BrokerError(ErrorCode.security_disabled, "nobody logs in here")
    if not isinstance(users, Users):
        raise BrokerError(
            ErrorCode.cluster_authorization_failed, "namespaces are given their logins"
        )
    return users


def _mechanism(row: Any) -> str:
    mechanism = _NUMBERS.get(row.mechanism)
    if mechanism is None:
        raise BrokerError(ErrorCode.unsupported_sasl_mechanism)
    return mechanism


def _credential(row: Any) -> Credential:
    if not ITERATIONS[0] <= row.iterations <= ITERATIONS[1]:
        raise BrokerError(
            ErrorCode.unacceptable_credential,
            f"from {ITERATIONS[0]} to {ITERATIONS[1]} iterations, not {row.iterations}",
        )
    return Credential.from_salted(_mechanism(row), row.salted_password, row.salt, row.iterations)
