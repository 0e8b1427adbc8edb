"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: of topics; the broker's are read only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import NODE_ID
from corral.cluster.broker.topicconfig import SETTINGS
from corral.cluster.broker.topics import Topic

__all__ = ["alter_configs", "describe_configs", "incremental_alter_configs"]

_TOPIC: Final = 2
_BROKER: Final = 4
_OF_TOPIC, _OF_BROKER, _DEFAULT = 1, 4, 5
"""Where a value comes from, as the protocol numbers it."""
_SET, _UNSET = 0, 1


async def describe_configs(call: Call) -> Answer:
    def describe(wish: Any) -> Mapping[str, Any]:
        answer = {"resource_type": wish.resource_type, "resource_name": wish.resource_name}
        try:
            rows = _rows(call, wish)
        except BrokerError as err:
            return {
                **answer,
                "error_code": err.code,
                "error_message": str(err),
                "configs": (),
            }
        keys = wish.configuration_keys
        chosen = [row for row in rows if not keys or row["name"] in keys]
        return {
            **answer,
            "error_code": ErrorCode.none,
            "error_message": None,
            "configs": chosen,
        }

    # each once, however often it is named: an answer is much longer than a name
    wanted = {(wish.resource_type, wish.resource_name): wish for wish in call.request.resources}
    return {"results": [describe(wish) for wish in wanted.values()]}


def _rows(call: Call, wish: Any) -> list[Mapping[str, Any]]:
    if wish.resource_type == _TOPIC:
        topic = _topic(call, wish)
        return [_row(topic, name) for name in SETTINGS]
    if wish.resource_type == _BROKER and wish.resource_name in ("", str(NODE_ID)):
        return _broker_rows(call)
    raise BrokerError(ErrorCode.invalid_request, "only topics and the broker have settings")


def _topic(call: Call, wish: Any) -> Topic:
    return call.topics.must(wish.resource_name)


def _row(topic: Topic, name: str) -> Mapping[str, Any]:
    setting = SETTINGS[name]
    if name in topic.config.own:
        source = _OF_TOPIC
    else:
        source = _OF_BROKER if topic.config.is_broker_default(name) else _DEFAULT
    return {
        "name": name,
        "value": topic.config.value(name),
        "read_only": False,
        "is_default": source != _OF_TOPIC,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": (),
        "config_type": setting.kind,
        "documentation": setting.says,
    }


def _broker_rows(call: Call) -> list[Mapping[str, Any]]:
    settings, share = call.broker.settings, call.tenant.share
    values = {
        "auto.create.topics.enable": str(settings.auto_create).lower(),
        "broker.id": str(NODE_ID),
        "default.replication.factor": "1",
        "log.dirs": "",
        "num.partitions": str(settings.default_partitions),
        "socket.request.max.bytes": str(share.frame_bytes),
    }
    return [
        {
            "name": name,
            "value": value,
            "read_only": True,
            "is_default": False,
            "config_source": _OF_BROKER,
            "is_sensitive": False,
            "synonyms": (),
            "config_type": 2,
            "documentation": None,
        }
        for name, value in values.items()
    ]


async def alter_configs(call: Call) -> Answer:
    def wanted(_: Topic, wish: Any) -> dict[str, str | None]:
        return {config.name: config.value for config in wish.configs}

    return await _alter(call, wanted)


async def incremental_alter_configs(call: Call) -> Answer:
    def wanted(topic: Topic, wish: Any) -> dict[str, str | None]:
        own: dict[str, str | None] = {**topic.config.own}
        for config in wish.configs:
            if config.config_operation == _SET:
                own[config.name] = config.value
            elif config.config_operation == _UNSET:
                own.pop(config.name, None)
            else:
                raise BrokerError(
                    ErrorCode.invalid_config, f"{config.name} is no list to add to or take from"
                )
        return own

    return await _alter(call, wanted)


async def _alter(call: Call, wanted: Callable[[Topic, Any], Mapping[str, str | None]]) -> Answer:
    async def alter(wish: Any) -> Mapping[str, Any]:
        await call.breathe()
        answer = {"resource_type": wish.resource_type, "resource_name": wish.resource_name}
        try:
            if wish.resource_type != _TOPIC:
                raise BrokerError(ErrorCode.invalid_request, "only topics can be configured")
            own = wanted(_topic(call, wish), wish)
            call.topics.configure(wish.resource_name, own, dry=call.request.validate_only)
        except BrokerError as err:
            return {**answer, "error_code": err.code, "error_message": str(err)}
        return {**answer, "error_code": ErrorCode.none, "error_message": None}

    return {"responses": [await alter(wish) for wish in call.request.resources]}
