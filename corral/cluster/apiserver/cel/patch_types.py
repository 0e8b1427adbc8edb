"""``Object{…}`` and ``JSONPatch{…}``: the literals of patches in mutating policies.

The types have no schema: ``Object.spec.template`` is the type of what stands at that path, and
takes any field. For checking they become message types made for the expression, under names of
the same length, so that reports point at the right column. For evaluation the literals become
maps that carry the name of their type, which ``plain_object`` checks and takes out again.
"""

from __future__ import annotations

import re
from typing import Any

from corral.cluster.apiserver.cel.engine import STRINGS

__all__ = ["TypeMismatch", "add_messages", "flatten", "plain_object", "restore", "to_maps"]

TYPE_KEY = "\0"
"""Where a map that was a literal keeps the name of its type; no field can be called this."""

_TYPED = re.compile(r"(?<![\w.])(Object(?:\.\w+)*|JSONPatch)(\s*\{)")
_FIELD = re.compile(r"(\s*+)(\??)(\s*+)(`[^`]*+`|\w++)(\s*+:)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OPERATION = (("op", "string"), ("path", "string"), ("from", "string"), ("value", "dyn"))
_FLAT = re.compile(r"\bObject_\w+")


class TypeMismatch(ValueError):
    """A literal of one path's type stands at another path."""


def to_maps(expression: str) -> str:
    """The expression with map literals in place of typed ones."""
    out: list[str] = []
    open_brackets: list[bool] = []  # whether each is the brace of a typed literal
    at, field_next = 0, False
    while at < len(expression):
        literal = STRINGS.match(expression, at)
        if literal is not None and literal.end() > at:
            out.append(literal[0])
            at = literal.end()
            continue
        typed = _TYPED.match(expression, at)
        if typed is not None:
            out.append(f'dyn({{"\\u0000": "{typed[1]}"')
            open_brackets.append(True)
            at, field_next = typed.end(), True
            continue
        field = _FIELD.match(expression, at) if field_next else None
        if field is not None:
            name = field[4].strip("`")
            out.append(f'{field[1]}, {field[2]}{field[3]}"{name}"{field[5]}')
            at, field_next = field.end(), False
            continue
        char = expression[at]
        at += 1
        in_typed = bool(open_brackets) and open_brackets[-1]
        if char in "([{":
            open_brackets.append(False)
        elif char in ")]}" and open_brackets:
            open_brackets.pop()
            field_next = False
            char = "})" if in_typed else char
        elif char == "," and in_typed:
            field_next, char = True, ""
        out.append(char)
    return "".join(out)


def flatten(expression: str) -> tuple[str, set[str]]:
    """The expression with type names that messages can have, and the names."""
    names: set[str] = set()

    def one(found: re.Match[str]) -> str:
        name = found[1].replace(".", "_")
        names.add(name)
        return name + found[2]

    parts, at = [], 0
    for literal in STRINGS.finditer(expression):
        parts += [_TYPED.sub(one, expression[at : literal.start()]), literal[0]]
        at = literal.end()
    parts.append(_TYPED.sub(one, expression[at:]))
    return "".join(parts), names


def restore(text: str, names: set[str]) -> str:
    """A report about a flattened expression, with the names that its author used."""
    return _FLAT.sub(lambda m: m[0].replace("_", ".") if m[0] in names else m[0], text)


def add_messages(pool: Any, expression: str, names: set[str]) -> None:
    """Put the types that an expression names into a descriptor pool."""
    from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(
        name="patches.proto", syntax="proto3", dependency=["google/protobuf/struct.proto"]
    )
    # Whatever word occurs may be meant as a field.
    words = [(word, "dyn") for word in dict.fromkeys(_WORD.findall(expression))]
    for name in sorted(names):
        _add_message(file, name, list(_OPERATION) if name == "JSONPatch" else words)
    pool.AddSerializedFile(file.SerializeToString())


def _add_message(file: Any, name: str, fields: list[tuple[str, str]]) -> None:
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields, start=1):
        made = message.field.add(name=field, number=number, json_name=f"f{number}", label=1)
        if kind == "string":
            made.type = 9
        else:
            made.type, made.type_name = 11, ".google.protobuf.Value"


def plain_object(value: Any, path: str = "") -> Any:
    """A literal's value without the names of types.

    Raises:
        TypeMismatch: a type's name does not say where the literal stands.
    """
    problems: list[str] = []
    plain = _plain(value, path, problems)
    if problems:
        raise TypeMismatch("\n".join(problems))
    return plain


def _plain(value: Any, path: str, problems: list[str]) -> Any:
    if isinstance(value, list):
        return [_plain(item, path, problems) for item in value]
    if not isinstance(value, dict):
        return value
    name = value.pop(TYPE_KEY, None)
    if name is None:
        return {key: _plain(item, path, problems) for key, item in value.items()}
    path = path or name
    if name != path:
        problems.append(
            f'unexpected type name "{name}", expected "{path}", which matches field name path '
            "from root Object type"
        )
    return {key: _plain(item, f"{path}.{key}", problems) for key, item in value.items()}
