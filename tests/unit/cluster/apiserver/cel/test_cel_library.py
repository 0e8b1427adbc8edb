"""Kubernetes' CEL functions: documented examples and the refusals that go with them."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver import cel

HOLDS = [
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "quantity('50k').add(quantity('20k')) == quantity('70k')",
    "quantity('50k').sub(20000).asInteger() == 30000",
    "quantity('1000m') == quantity('1')",
    "quantity('-1').sign() == -1 && quantity('0').sign() == 0",
    "quantity('1.5').asApproximateFloat() == 1.5 && !quantity('1.5').isInteger()",
    "quantity('200M').compareTo(quantity('0.2G')) == 0",
    "isQuantity('1.3Ki') && !isQuantity('200K')",
    "url('https://user:pass@example.com:80/a').getHost() == 'example.com:80'",
    "url('https://example.com:80/a').getHostname() == 'example.com'",
    "url('https://example.com:80/a').getPort() == '80' && url('https://x').getPort() == ''",
    "url('https://example.com/p?k1=a&k2=b&k2=c').getQuery()['k2'] == ['b', 'c']",
    "url('/path').getScheme() == '' && url('/path').getEscapedPath() == '/path'",
    "url('https://example.com/with space').getEscapedPath() == '/with%20space'",
    "isURL('https://example.com') && !isURL('../relative')",
    "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6",
    "string(ip('2001:db8::0')) == '2001:db8::'",
    "ip.isCanonical('127.0.0.1') && !ip.isCanonical('2001:DB8::1')",
    "isIP('1.2.3.4') && !isIP('::ffff:1.2.3.4') && !isIP('1.2.3')",
    "ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()",
    "ip('192.168.0.1').isGlobalUnicast() && !ip('0.0.0.0').isGlobalUnicast()",
    "cidr('192.168.0.0/24').containsIP('192.168.0.1')",
    "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))",
    "!cidr('192.168.0.0/24').containsCIDR('192.168.0.0/16')",
    "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24')",
    "cidr('192.168.1.0/24').prefixLength() == 24 && string(cidr('::1/128')) == '::1/128'",
    "cidr('192.168.1.5/24').ip().family() == 4",
    "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
    "'123 abc 456'.findAll('[0-9]+') == ['123', '456']",
    "'123 abc 456'.findAll('[0-9]+', 1) == ['123']",
    "[1, 2, 3].isSorted() && !['b', 'a'].isSorted()",
    "[1, 3].sum() == 4 && [1.5, 2.5].sum() == 4.0",
    "[3, 1].min() == 1 && ['a', 'c'].max() == 'c'",
    "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(9) == -1",
    "'abcabc'.indexOf('c') == 2 && 'abcabc'.lastIndexOf('c') == 5",
    "['a'].includes('a') && ![1].includes(2)",
    "!format.dns1123Label().validate('a-b').hasValue()",
    "format.dns1123Label().validate('A').value()[0].contains('RFC 1123 label')",
    "format.named('uuid').value().validate('x').value() == ['does not match the UUID format']",
    "!format.named('nothing').hasValue()",
    "!format.dns1123LabelPrefix().validate('abc-').hasValue()",
    "format.qualifiedName().validate('a/b/c').hasValue()",
    "!format.labelValue().validate('').hasValue()",
    "semver('1.2.3').isLessThan(semver('1.2.10')) && semver('1.2.3').minor() == 2",
    "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0'))",
    "semver('v01.2', true).compareTo(semver('1.2.0')) == 0",
    "isSemver('1.2.3+build') && !isSemver('1.2') && isSemver('1.2', true)",
    "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2])",
    "math.greatest(1, 3, 2) == 3",
    "'%s-%d'.format(['a', 1]) == 'a-1' && 'A b'.lowerAscii().split(' ') == ['a', 'b']",
    "[1, 2].all(i, v, v > i) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
    "self.?missing.orValue('none') == 'none'",
    "15 > 10.0 && 5 < 10.0 && 1 <= 1.0",
    "base64.encode(b'a') == 'YQ=='",
]


@pytest.mark.parametrize("expression", HOLDS)
def test_holds(expression: str) -> None:
    assert cel.compile(expression).evaluate({"self": {}, "oldSelf": None}) is True


@pytest.mark.parametrize(
    ("expression", "value", "why"),
    [
        ("self.a", {}, "no such key: a"),
        ("self[3]", [1], "index out of bounds: 3"),
        ("1 / self", 0, "division by zero"),
        ("1 % self", 0, "modulus by zero"),
        ("self + 'a'", 1, "no such overload"),
        ("[].max()", None, "max called on empty list"),
        (
            "quantity(self).sign()",
            "x",
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('1.5').asInteger()", None, "cannot convert value to integer"),
        (
            "url(self).getHost()",
            "::",
            'URL parse error during conversion from string: parse "::": missing protocol scheme',
        ),
        ("semver(self).major()", "1", "No Major.Minor.Patch elements found"),
    ],
)
def test_refuses(expression: str, value: Any, why: str) -> None:
    program = cel.compile(expression)
    with pytest.raises(cel.CelError) as refused:
        program.evaluate({"self": value, "oldSelf": None})
    assert str(refused.value) == why


def test_compile_errors_point_at_the_place() -> None:
    with pytest.raises(cel.CompileError) as refused:
        cel.compile("self.a > 1 &&\n nope(self)")
    assert str(refused.value) == (
        "ERROR: <input>:2:6: undeclared reference to 'nope' (in container '')\n"
        " |  nope(self)\n"
        " | .....^"
    )


def test_an_expression_cannot_close_what_is_wrapped_around_it() -> None:
    with pytest.raises(cel.CompileError):
        cel.compile("true), (true", prefix="cel.bind(x, 1,", suffix=")")


def test_authorizer_asks_the_callback() -> None:
    asked: list[dict[str, str]] = []

    def authorize(attributes: Any) -> tuple[bool, str]:
        asked.append(dict(attributes))
        return attributes["verb"] == "get", "because"

    expression = "authorizer.group('apps').resource('deployments').namespace('n').check('get')"
    program = cel.compile(f"{expression}.allowed()", ("authorizer", "request"))
    data = {"authorizer": cel.AUTHORIZER, "request": {}}
    assert program.evaluate(data, authorize=authorize) is True
    assert asked == [{"group": "apps", "resource": "deployments", "namespace": "n", "verb": "get"}]
    denied = cel.compile("!authorizer.path('/x').check('put').allowed()", ("authorizer",))
    assert denied.evaluate({"authorizer": cel.AUTHORIZER}, authorize=authorize) is True
    with pytest.raises(cel.CelError, match="authorization is not available here"):
        program.evaluate(data)


def test_admission_variables() -> None:
    variables = ("object", "oldObject", "request")
    program = cel.compile(
        "object.spec.n > oldObject.spec.n && request.operation == 'UPDATE'", variables
    )
    data = {
        "object": {"spec": {"n": 2}},
        "oldObject": {"spec": {"n": 1}},
        "request": {"operation": "UPDATE"},
    }
    assert program.evaluate(data) is True
