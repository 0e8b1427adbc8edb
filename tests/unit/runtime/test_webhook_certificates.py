"""When which certificate is made anew, and what is trusted meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from corral.runtime.webhooks.certificates import CertificateSet, CertificateSettings, advance

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("hooks.ns.svc", "127.0.0.1")
SETTINGS = CertificateSettings(
    authority_life=timedelta(days=300),
    serving_life=timedelta(days=90),
    settle=timedelta(minutes=10),
)


def at(current: CertificateSet | None, days: float, known: bytes = b"") -> CertificateSet:
    moment = NOW + timedelta(days=days)
    return advance(current, HOSTS, moment, known=known, settings=SETTINGS)


def names(found: CertificateSet) -> set[str]:
    value = found.serving.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(n.value) for n in value}


def test_the_first_set_is_whole() -> None:
    first = at(None, 0)
    assert names(first) == set(HOSTS)
    first.serving.x509.verify_directly_issued_by(first.authority.x509)
    assert first.bundle == first.authority.cert
    assert at(first, 1) is first


def test_the_serving_certificate_is_renewed_in_its_last_third() -> None:
    first = at(None, 0)
    assert at(first, 59) is first
    second = at(first, 61)
    assert second.serving != first.serving
    assert second.authority == first.authority
    assert second.serving_end == NOW + timedelta(days=61 + 90)


def test_names_are_added_and_never_lost() -> None:
    first = at(None, 0)
    second = advance(first, ["other"], NOW, settings=SETTINGS)
    assert names(second) == {*HOSTS, "other"}
    assert advance(second, HOSTS, NOW, settings=SETTINGS) is second


def test_an_authority_is_replaced_in_two_steps() -> None:
    first = at(at(None, 0), 190)
    second = at(first, 201)
    assert second.following is not None
    assert second.authority == first.authority
    assert second.serving == first.serving
    assert first.authority.cert in second.bundle
    assert second.following.cert in second.bundle

    # Neither time nor the knowledge of clients alone is enough.
    assert at(second, 202) is second
    assert at(second, 201.001, second.bundle) is second

    third = at(second, 202, second.bundle)
    assert third.authority == second.following
    assert third.following is None
    third.serving.x509.verify_directly_issued_by(third.authority.x509)
    assert names(third) == set(HOSTS)
    assert third.retired == (first.authority.cert,)
    assert first.authority.cert in third.bundle

    # What has ended is trusted no longer.
    assert at(third, 301).bundle == third.authority.cert


def test_a_serving_certificate_does_not_outlive_its_authority() -> None:
    late = at(at(at(None, 0), 190), 260)
    assert late.serving_end == NOW + timedelta(days=300)


def test_an_authority_that_ended_is_replaced_at_once() -> None:
    first = at(None, 0)
    second = at(first, 301)
    assert second.authority != first.authority
    assert second.bundle == second.authority.cert


def test_it_survives_a_secret() -> None:
    rotating = at(at(at(None, 0), 190), 201)
    assert CertificateSet.from_data(rotating.as_data()) == rotating
    done = at(rotating, 202, rotating.bundle)
    assert CertificateSet.from_data(done.as_data()) == done


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
def test_damage_is_noticed(key: str) -> None:
    data = at(None, 0).as_data()
    assert CertificateSet.from_data({**data, key: "bm9uc2Vuc2U="}) is None
    assert CertificateSet.from_data({**data, key: "*"}) is None
    assert CertificateSet.from_data({k: v for k, v in data.items() if k != key}) is None


def test_mixed_up_parts_are_noticed() -> None:
    one, other = at(None, 0), at(None, 0)
    assert CertificateSet.from_data(replace(one, serving=other.serving).as_data()) is None
    mixed = replace(one, serving=replace(one.serving, key=other.serving.key))
    assert CertificateSet.from_data(mixed.as_data()) is None
