"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup; ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.consumergroups.group import Group, GroupState, Join
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.protocol.codec import milliseconds

__all__ = [
    "delete_groups",
    "describe_groups",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "sync_group",
]

_NAMED_FIRST: Final = 4
"""Version of JoinGroup from which a newcomer is told its name first."""


async def join_group(call: Call) -> Answer:
    request = call.request
    session = milliseconds(request.session_timeout)
    rebalance = getattr(request, "rebalance_timeout", None)
    said = Join(
        member=request.member_id,
        client=call.client,
        host=call.session.peer,
        session=session,
        rebalance=session if rebalance is None else milliseconds(rebalance),
        kind=request.protocol_type,
        protocols=[(protocol.name, protocol.metadata) for protocol in request.protocols],
        named_first=call.version >= _NAMED_FIRST,
    )
    joined = await call.broker.coordinator.join(call.tenant, call.group(request.group_id), said)
    return {
        "error_code": joined.error,
        "generation_id": joined.generation,
        "protocol_name": joined.protocol,
        "leader": joined.leader,
        "member_id": joined.member,
        "members": [{"member_id": name, "metadata": data} for name, data in joined.members],
    }


async def sync_group(call: Call) -> Answer:
    request = call.request
    synced = await call.broker.coordinator.sync(
        call.tenant,
        call.group(request.group_id),
        request.member_id,
        request.generation_id,
        {row.member_id: row.assignment for row in request.assignments},
    )
    return {"error_code": synced.error, "assignment": synced.assignment}


async def heartbeat(call: Call) -> Answer:
    request = call.request
    coordinator = call.broker.coordinator
    group = call.group(request.group_id)
    error = coordinator.heartbeat(group, request.member_id, request.generation_id)
    return {"error_code": error}


async def leave_group(call: Call) -> Answer:
    request = call.request
    group = call.group(request.group_id)
    return {"error_code": call.broker.coordinator.leave(group, request.member_id)}


def _state(group: Group | None) -> str:
    return (group.state if group is not None else GroupState.EMPTY).value


async def list_groups(call: Call) -> Answer:
    coordinator = call.broker.coordinator
    states = {state.lower() for state in getattr(call.request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(call.request, "types_filter", ())}
    rows = []
    for inner in coordinator.names():
        name = call.tenant.outer(inner)
        if name is None:
            continue
        group = coordinator.groups.get(inner)
        state = _state(group)
        if (not states or state.lower() in states) and (not types or "classic" in types):
            rows.append(
                {
                    "group_id": name,
                    "protocol_type": group.kind if group is not None else "",
                    "group_state": state,
                    "group_type": "classic",
                }
            )
    return {"error_code": ErrorCode.none, "groups": rows}


async def describe_groups(call: Call) -> Answer:
    # each once, however often it is named: an answer is much longer than a name
    return {"groups": [_described(call, name) for name in dict.fromkeys(call.request.groups)]}


def _described(call: Call, name: str) -> Mapping[str, Any]:
    coordinator = call.broker.coordinator
    inner = call.group(name)
    group = coordinator.groups.get(inner)
    state = _state(group)
    if group is None and not coordinator.offsets.of(inner):
        state = GroupState.DEAD.value
    protocol = group.protocol if group is not None else ""
    return {
        "error_code": ErrorCode.none,
        "group_id": name,
        "group_state": state,
        "protocol_type": group.kind if group is not None else "",
        "protocol_data": protocol,
        "members": [
            {
                "member_id": member.name,
                "client_id": member.said.client,
                "client_host": f"/{member.said.host}",
                "member_metadata": member.metadata(protocol),
                "member_assignment": member.assignment,
            }
            for member in (group.members.values() if group is not None else ())
        ],
    }


async def delete_groups(call: Call) -> Answer:
    def delete(name: str) -> Mapping[str, Any]:
        try:
            call.broker.coordinator.delete(call.group(name))
        except BrokerError as err:
            return {"group_id": name, "error_code": err.code}
        return {"group_id": name, "error_code": ErrorCode.none}

    return {"results": [delete(name) for name in call.request.groups_names]}
