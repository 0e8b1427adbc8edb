"""Selectors. The texts of refusals are those of kube-apiserver 1.37."""

from __future__ import annotations

import pytest

from corral.kube.selectors import (
    Requirement,
    Selector,
    SelectorError,
    matches_fields,
    parse_fields,
    parse_labels,
)

VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NOT_A_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
REQUIREMENT = "unable to parse requirement: "
OPERATORS = "in, notin, =, ==, !=, gt, lt"


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,x==a", "x=a,z=c"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x=", "x="),
        ("x= ,z= ", "x=,z="),
        ("!x", "!x"),
        ("\rx", "x"),
        ("x>1,z<5", "x>1,z<5"),
        ("x in (b,a)", "x in (a,b)"),
        ("foo  in\t (abc)", "foo in (abc)"),
        ("x notin\n (abc)", "x notin (abc)"),
        ("x in (abc,)", "x in (,abc)"),
        ("x in (,abc)", "x in (,abc)"),
        ("x in (a,,,a)", "x in (,a)"),
        ("x in ()", "x in ()"),
        ("x notin (abc,,def),bar,z in (),w", "bar,w,x notin (,abc,def),z in ()"),
        ("in in (in)", "in in (in)"),
        ("notin=in", "notin=in"),
        ("0.1.2.domain/99 notin (10.10.100.1, tick.tack)", "0.1.2.domain/99 notin (10.10.100.1,tick.tack)"),  # noqa: E501
    ],
)  # fmt: skip
def test_label_selectors_are_read(text: str, again: str) -> None:
    selector = parse_labels(text)
    assert str(selector) == again
    assert parse_labels(again) == selector
    assert bool(selector) == bool(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x==a==b", "found '==', expected: ',' or 'end of string'"),
        ("!x=a", "found '=', expected: ',' or 'end of string'"),
        ("x=a b", "found 'b', expected: ',' or 'end of string'"),
        ("!x in (a)", "found 'in', expected: ',' or 'end of string'"),
        ("x notin (a)) ", "found ')', expected: ',' or 'end of string'"),
        (",x", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("(x)", "found '(', expected: !, identifier, or 'end of string'"),
        ("x,,y", "found ',', expected: identifier after ','"),
        ("x=a,", "found '', expected: identifier after ','"),
        ("!", REQUIREMENT + "found '', expected: identifier"),
        ("x=(", REQUIREMENT + "found '(', expected: identifier"),
        ("x===a", REQUIREMENT + "found '=', expected: identifier"),
        ("x><5", REQUIREMENT + "found '<', expected: identifier"),
        ("x!", REQUIREMENT + f"found '!', expected: {OPERATORS}"),
        ("x y", REQUIREMENT + f"found 'y', expected: {OPERATORS}"),
        ("x exists", REQUIREMENT + f"found 'exists', expected: {OPERATORS}"),
        ("x in", REQUIREMENT + "found '' expected: '('"),
        ("x in a", REQUIREMENT + "found 'a' expected: '('"),
        ("x in (=)", REQUIREMENT + "found '=', expected: ',', ')' or identifier"),
        ("x in (a", REQUIREMENT + "found '', expected: ',' or ')'"),
        ("x in (a b)", REQUIREMENT + "found 'b', expected: ',' or ')'"),
        ("x in (a,=)", REQUIREMENT + "found '=', expected: ',', or identifier"),
        ("x<a", REQUIREMENT + f'values[0]: Invalid value: "a": {NOT_A_NUMBER}'),
        ("x>", REQUIREMENT + f'values[0]: Invalid value: "": {NOT_A_NUMBER}'),
        ("x>1.5", REQUIREMENT + f'values[0]: Invalid value: "1.5": {NOT_A_NUMBER}'),
        ("x>9223372036854775808", REQUIREMENT + f'values[0]: Invalid value: "9223372036854775808": {NOT_A_NUMBER}'),  # noqa: E501
        ("y>+3", REQUIREMENT + f'values[0][y]: Invalid value: "+3": {VALUE_RULE}'),
        ("x=$", REQUIREMENT + f'values[0][x]: Invalid value: "$": {VALUE_RULE}'),
        ("x=a||y=b", REQUIREMENT + f'values[0][x]: Invalid value: "a||y": {VALUE_RULE}'),
        ("x in (b,-a)", REQUIREMENT + f'values[0][x]: Invalid value: "-a": {VALUE_RULE}'),
        ("x=" + "a" * 64, REQUIREMENT + f'values[0][x]: Invalid value: "{"a" * 64}": must be no more than 63 bytes'),  # noqa: E501
        ("-x=a", REQUIREMENT + f'<nil>: Invalid value: "-x": name part {NAME_RULE}'),
        ("/x=a", REQUIREMENT + '<nil>: Invalid value: "/x": prefix part must be non-empty'),
        ("a" * 64, REQUIREMENT + f'<nil>: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes'),  # noqa: E501
        ("a/b/c=d", REQUIREMENT + f'<nil>: Invalid value: "a/b/c": a valid label key {NAME_RULE} with an optional DNS subdomain prefix and \'/\' (e.g. \'example.com/MyName\')'),  # noqa: E501
    ],
)  # fmt: skip
def test_label_selectors_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(text)
    assert str(caught.value) == complaint


LABELS = {"app": "web", "tier": "", "number": "42", "huge": "9" * 30}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=", True),
        ("app=other", False),
        ("missing=", False),
        ("app!=other", True),
        ("missing!=web", True),
        ("app!=web", False),
        ("app in (web,db)", True),
        ("tier in ()", True),
        ("missing in (web)", False),
        ("app notin (db)", True),
        ("missing notin (db)", True),
        ("app notin (web)", False),
        ("tier", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("number>41", True),
        ("number>42", False),
        ("number<43", True),
        ("number<0042", False),
        ("app>1", False),
        ("huge>1", False),
        ("missing<1", False),
        ("app=web,number>100", False),
    ],
)
def test_labels_match(text: str, matched: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matched


@pytest.mark.parametrize(
    ("form", "matched", "text"),
    [
        (None, False, ""),
        ({}, True, ""),
        ({"matchLabels": {"app": "web"}}, True, "app=web"),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False, "app=web,tier=x"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}, True, "app in (db,web)"),  # noqa: E501
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, "app notin (web)"),  # noqa: E501
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True, "tier"),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False, "!tier"),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False, "app=web,x"),  # noqa: E501
    ],
)  # fmt: skip
def test_object_form(form: dict[str, object] | None, matched: bool, text: str) -> None:
    selector = Selector.from_object(form)
    assert selector.matches(LABELS) is matched
    assert str(selector) == text
    assert bool(selector) == (form is None or bool(text))


def test_object_form_with_unknown_operator() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})
    assert str(caught.value) == '"Near" is not a valid label selector operator'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (",,", []),
        ("a=x", [("a", "=", "x")]),
        ("b==x,a!=y", [("a", "!=", "y"), ("b", "=", "x")]),
        ("a=x,", [("a", "=", "x")]),
        ("a=", [("a", "=", "")]),
        ("a=!b", [("a", "=", "!b")]),
        (r"a=x\,y,b=z", [("a", "=", "x,y"), ("b", "=", "z")]),
        (r"a=x\=y", [("a", "=", "x=y")]),
        (r"a=x\\,b=y", [("a", "=", "x\\"), ("b", "=", "y")]),
        ("=a", [("", "=", "a")]),
    ],
)
def test_field_selectors_are_read(text: str, found: list[tuple[str, str, str]]) -> None:
    wanted = tuple(Requirement(key, op, (value,)) for key, op, value in found)
    assert parse_fields(text).requirements == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("x=1,a", "invalid selector: 'x=1,a'; can't understand 'a'"),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a!==b", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_field_selectors_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_fields(text)
    assert str(caught.value) == complaint


def test_field_labels_are_converted() -> None:
    assert parse_fields("name=x", lambda name: f"metadata.{name}").requirements == (
        Requirement("metadata.name", "=", ("x",)),
    )


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("status.phase=Running", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=", True),
        ("spec.nodeName!=", False),
        ("status.phase=Running,spec.nodeName!=n1", True),
    ],
)
def test_fields_match(text: str, matched: bool) -> None:
    assert matches_fields(parse_fields(text), {"status.phase": "Running"}) is matched
