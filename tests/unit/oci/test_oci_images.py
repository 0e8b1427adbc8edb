"""Logins in Secrets of either kind; images of one layer."""

from __future__ import annotations

import base64
import json

import pytest

from corral.oci import Login, Reference, RegistryError, secret_logins
from corral.oci.manifest import Descriptor, encode


def encoded(**data: str) -> dict[str, str | bytes]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}


class TestLogins:
    def test_words(self) -> None:
        found = secret_logins(
            encoded(username="joe", password="p", registry="https://r.example.com/"), "other"
        )
        assert found.find("r.example.com", "any") == Login("joe", "p")
        assert found.find("other", "any") is None

    def test_words_without_a_registry_are_for_the_one_that_is_meant(self) -> None:
        found = secret_logins({"username": b"joe", "password": b"p"}, "r.example.com")
        assert found.find("r.example.com", "any") == Login("joe", "p")

    def test_docker(self) -> None:
        auths = {"auths": {"r.example.com": {"username": "joe", "password": "p"}}}
        found = secret_logins({".dockerconfigjson": json.dumps(auths).encode()}, "other")
        assert found.find("r.example.com") == Login("joe", "p")

    def test_neither(self) -> None:
        with pytest.raises(RegistryError):
            secret_logins({"token": b"x"}, "r.example.com")


def test_an_image_has_no_artifact_type() -> None:
    config = Descriptor("application/vnd.oci.image.config.v1+json", f"sha256:{'0' * 64}", 2, {})
    raw = json.loads(encode(config=config, layers=[], artifact_type="", annotations={}))
    assert "artifactType" not in raw


def test_names_as_containers_write_them() -> None:
    reference = Reference.parse("oci://r.example.com/team/x:1")
    assert reference.image == "r.example.com/team/x:1"
