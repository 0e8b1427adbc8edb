"""Acting as somebody else: the Impersonate-* headers.

The constrained modes are tried first: they need the right to impersonate that user (verb
``impersonate:MODE``) and the right to do this very request while doing so (verb
``impersonate-on:MODE:VERB``). The plain verb ``impersonate`` is tried last. The refusal a client
sees is that of the first mode that applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from corral.cluster.apiserver.auth import users
from corral.cluster.apiserver.auth.attributes import (
    Attributes,
    Authorize,
    forbidden_error,
    quoted,
)
from corral.cluster.apiserver.auth.users import UserInfo, node_name, split_service_account
from corral.kube.errors import BadRequest, Forbidden

__all__ = ["impersonate", "wanted_user"]

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_MANY = 4
"""From so many groups or extras on, one check for all of them is tried first."""
_PATH_KEY = re.compile(
    r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[!-~]+"
)


def wanted_user(headers: Iterable[tuple[str, str]]) -> UserInfo | None:
    """Who the headers ask to be, None when they do not ask. Raises: BadRequest."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        key = header.lower()
        if not key.startswith(_PREFIX):
            continue
        if key == "impersonate-user":
            name = name or value
        elif key == "impersonate-uid":
            uid = uid or value
        elif key == "impersonate-group":
            groups.append(value)
        elif key.startswith(_EXTRA):
            field = unquote(key[len(_EXTRA) :])
            extra[field] = (*extra.get(field, ()), value)
    if name:
        return UserInfo(name, uid, tuple(groups), extra)
    if uid or groups or extra:
        shown = _go_syntax(uid, groups, extra)
        raise BadRequest(f"requested {shown} without impersonating a user name")
    return None


def impersonate(
    headers: Iterable[tuple[str, str]], attrs: Attributes, authorize: Authorize
) -> UserInfo:
    """The user the request acts as: the impersonated one, or ``attrs.user`` itself.

    ``attrs`` is the request as made by the authenticated user. Raises: BadRequest, Forbidden.
    """
    wanted = wanted_user(headers)
    if wanted is None:
        return attrs.user
    first: Forbidden | None = None
    for mode in _MODES:
        if not mode.applies(wanted, attrs.user):
            continue
        try:
            return _try(mode, wanted, attrs, authorize)
        except Forbidden as error:
            first = first or error
    assert first is not None, "the plain mode applies to every user"
    raise first


class _Mode(NamedTuple):
    name: str
    """Empty for the plain one."""
    applies: Callable[[UserInfo, UserInfo], bool]

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}" if self.name else "impersonate"


def _only_name(user: UserInfo) -> bool:
    return not (user.uid or user.groups or user.extra)


def _is_own_node(wanted: UserInfo, requestor: UserInfo) -> bool:
    node = node_name(wanted.name)
    return (
        node is not None
        and _only_name(wanted)
        and split_service_account(requestor.name) is not None
        and requestor.extra.get(users.EXTRA_NODE_NAME) == (node,)
    )


def _is_node(wanted: UserInfo, _: UserInfo) -> bool:
    return _only_name(wanted) and node_name(wanted.name) is not None


def _is_service_account(wanted: UserInfo, _: UserInfo) -> bool:
    return _only_name(wanted) and split_service_account(wanted.name) is not None


def _is_plain_user(wanted: UserInfo, _: UserInfo) -> bool:
    return node_name(wanted.name) is None and split_service_account(wanted.name) is None


_MODES = (
    _Mode("associated-node", _is_own_node),
    _Mode("arbitrary-node", _is_node),
    _Mode("serviceaccount", _is_service_account),
    _Mode("user-info", _is_plain_user),
    _Mode("", lambda wanted, requestor: True),
)


def _require(authorize: Authorize, attrs: Attributes) -> None:
    decision = authorize(attrs)
    if not decision.allowed:
        raise forbidden_error(attrs, decision.reason)


def _try(mode: _Mode, wanted: UserInfo, attrs: Attributes, authorize: Authorize) -> UserInfo:
    if mode.name:
        _require(authorize, attrs._replace(verb=f"impersonate-on:{mode.name}:{attrs.verb}"))
    groups = _check_name(mode, wanted, attrs.user, authorize)
    if wanted.uid:
        what = _asking(attrs.user, mode.verb, "uids", wanted.uid, group=_AUTHENTICATION)
        _require(authorize, what)
    if wanted.groups:
        _check_groups(mode, wanted, attrs.user, authorize)
    if wanted.extra:
        _check_extra(mode, wanted, attrs.user, authorize)
    return UserInfo(wanted.name, wanted.uid, _with_system_group(wanted.name, groups), wanted.extra)


def _asking(user: UserInfo, verb: str, resource: str, name: str, *, group: str) -> Attributes:
    version = "v1"
    return Attributes(user, verb, "", group, version, resource, "", name)


def _check_name(
    mode: _Mode, wanted: UserInfo, requestor: UserInfo, authorize: Authorize
) -> tuple[str, ...]:
    """Authorize the name; the groups that go with it."""
    group = _AUTHENTICATION if mode.name else ""
    groups = wanted.groups
    asked = _asking(requestor, mode.verb, "users", wanted.name, group=group)
    node = node_name(wanted.name) if mode.name else None
    account = split_service_account(wanted.name)
    if node is not None:
        # Which node is not looked at in this mode: the requestor is known to run on it.
        name = "*" if mode.name == "associated-node" else node
        asked = asked._replace(resource="nodes", name=name)
        groups = (users.NODES,)
    elif account is not None:
        namespace, name = account
        asked = asked._replace(resource="serviceaccounts", namespace=namespace, name=name)
        groups = groups or users.service_account_groups(namespace)
    _require(authorize, asked)
    return groups


def _check_groups(mode: _Mode, wanted: UserInfo, requestor: UserInfo, authorize: Authorize) -> None:
    group = _AUTHENTICATION if mode.name else ""
    asked = _asking(requestor, mode.verb, "groups", "", group=group)
    if mode.name:
        if "" in wanted.groups:
            raise forbidden_error(asked, "impersonating the empty string group is not allowed")
        if users.MASTERS in wanted.groups:
            asked = asked._replace(name=users.MASTERS)
            raise forbidden_error(asked, "impersonating the system:masters group is not allowed")
        if len(wanted.groups) >= _MANY and authorize(asked._replace(name="*")).allowed:
            return
    for name in wanted.groups:
        _require(authorize, asked._replace(name=name))


def _check_extra(mode: _Mode, wanted: UserInfo, requestor: UserInfo, authorize: Authorize) -> None:
    asked = _asking(requestor, mode.verb, "userextras", "", group=_AUTHENTICATION)
    if mode.name:
        problem = _extra_problem(wanted)
        if problem:
            raise forbidden_error(asked, problem)
        many = sum(map(len, wanted.extra.values())) >= _MANY
        if many and authorize(asked._replace(subresource="*", name="*")).allowed:
            return
    for key, values in wanted.extra.items():
        for value in values:
            _require(authorize, asked._replace(subresource=key, name=value))


def _extra_problem(wanted: UserInfo) -> str:
    for key, values in wanted.extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if not _PATH_KEY.fullmatch(key):
            return (
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "
                f'{quoted(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            )
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _with_system_group(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == users.ANONYMOUS:
        needed = users.UNAUTHENTICATED
    elif users.UNAUTHENTICATED in groups:
        return groups
    else:
        needed = users.AUTHENTICATED
    return groups if needed in groups else (*groups, needed)


def _go_syntax(uid: str, groups: list[str], extra: dict[str, tuple[str, ...]]) -> str:
    """The asked-for user as Go prints the struct: that is what the real message holds."""
    shown_extra = "map[string][]string(nil)"
    if extra:
        fields = (f"{quoted(key)}:{_go_strings(values)}" for key, values in sorted(extra.items()))
        shown_extra = f"map[string][]string{{{', '.join(fields)}}}"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{quoted(uid)}, Groups:{_go_strings(groups)}, '
        f"Extra:{shown_extra}}}"
    )


def _go_strings(values: Iterable[str]) -> str:
    inside = ", ".join(map(quoted, values))
    return f"[]string{{{inside}}}" if inside else "[]string(nil)"
