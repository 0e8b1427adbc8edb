"""References, challenges, credentials, which server a name stands for, manifests."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.oci import (
    OWN,
    Credentials,
    DigestMismatch,
    Endpoint,
    InvalidArtifact,
    InvalidReference,
    Login,
    Reference,
    Registries,
    RegistryError,
    docker_config,
    endpoints,
)
from corral.oci.challenges import challenges
from corral.oci.links import next_page
from corral.oci.manifest import Descriptor, Index, Manifest, digest_of, encode, parse

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://h/r", Reference("h", "r")),
        ("oci://h:5000/a/b:v1", Reference("h:5000", "a/b", "v1")),
        (
            f"reg.example.com/a__b.c-d:V_1@{DIGEST}",
            Reference("reg.example.com", "a__b.c-d", "V_1", DIGEST),
        ),
        (f"oci://[::1]:80/a@{DIGEST}", Reference("[::1]:80", "a", "", DIGEST)),
        ("localhost/x", Reference("localhost", "x")),
    ],
)
def test_references_are_read_and_written(text: str, expected: Reference) -> None:
    assert Reference.parse(text) == expected
    assert Reference.parse(str(expected)) == expected
    assert str(expected).startswith("oci://")


@pytest.mark.parametrize(
    "text",
    [
        "", "oci://", "oci://h", "busybox", "library/busybox", "oci://h/", "oci://h/UPPER",
        "oci://h/a:", "oci://h/a:-x", "oci://h/a@sha256:abc", "oci://h/a@sha512:" + "a" * 128,
        "oci://h/../etc", "oci://h/a//b", "oci://h/a?x", "oci://u:p@h/a", "oci://h/a b",
        "oci://h/" + "a" * 256, "oci://h/a:" + "t" * 129, "oci://h/a/", "oci://h\n/a",
    ],
)  # fmt: skip
def test_what_is_no_reference_is_refused_with_words(text: str) -> None:
    with pytest.raises(InvalidReference, match="is no reference"):
        Reference.parse(text)


@given(st.text(max_size=80))
def test_any_text_is_a_reference_that_comes_back_or_refused(text: str) -> None:
    try:
        found = Reference.parse(text)
    except InvalidReference:
        return
    assert Reference.parse(str(found)) == found


def test_a_digest_is_added_and_a_tag_replaces_it() -> None:
    ref = Reference.parse("oci://h/a:v1")
    assert str(ref.with_digest(DIGEST)) == f"oci://h/a:v1@{DIGEST}"
    assert ref.with_digest(DIGEST).target == DIGEST
    assert ref.with_digest(DIGEST).with_tag("v2") == Reference("h", "a", "v2")
    assert Reference("h", "a").target == "latest"
    with pytest.raises(InvalidReference):
        ref.with_digest("nonsense")
    with pytest.raises(InvalidReference):
        ref.with_tag("a/b")


def test_names_stand_for_servers() -> None:
    registries = Registries({"registry.example.com": Endpoint("http://127.0.0.1:1")})
    assert registries.endpoint("registry.example.com").url == "http://127.0.0.1:1"
    assert registries.endpoint("other.example.com").url == "https://other.example.com"
    assert registries.endpoint("localhost:5000").url == "http://localhost:5000"
    assert registries.endpoint("127.0.0.7:5000").url == "http://127.0.0.7:5000"
    assert registries.endpoint("[::1]:5000").url == "http://[::1]:5000"
    assert registries.endpoint("docker.io").url == "https://registry-1.docker.io"


def test_pairs_make_a_mapping_and_tokens_go_to_our_own_registry_alone() -> None:
    pairs = ["a=http://x:1/", "b.c=https://y/base", f"{OWN}=http://x:1"]
    mapping = endpoints(pairs, token=lambda: "t0ken")
    assert {name: one.url for name, one in mapping.items()} == {
        "a": "http://x:1",
        "b.c": "https://y/base",
        OWN: "http://x:1",
    }
    assert [name for name, one in mapping.items() if one.token] == ["a", OWN]
    assert "lambda" not in repr(mapping)
    for wrong in ("a", "=http://x", "a=", "a=ftp://x", "a=x:80"):
        with pytest.raises(RegistryError, match="NAME="):
            endpoints([wrong])


def test_logins_of_a_secret() -> None:
    packed = base64.b64encode(b"joe:pass:word").decode()
    auths = {
        "https://index.docker.io/v1/": {"auth": packed},
        "reg.example.com": {"username": "u", "password": "p"},
        "reg.example.com/team/models": {"username": "t", "password": "q"},
        "tok.example.com": {"identitytoken": "refresh"},
    }
    content = json.dumps({"auths": auths}).encode()
    for value in (content, base64.b64encode(content).decode()):
        found = docker_config({".dockerconfigjson": value})
        assert found.find("docker.io", "library/x") == Login("joe", "pass:word")
        assert found.find("reg.example.com", "team/other") == Login("u", "p")
        assert found.find("reg.example.com", "team/models/a") == Login("t", "q")
        assert found.find("reg.example.com", "team/models2") == Login("u", "p")
        assert found.find("tok.example.com") == Login(identity_token="refresh")
        assert found.find("unknown.example.com", "x") is None
        assert "word" not in repr(found) and "refresh" not in repr(found)
    old = docker_config({".dockercfg": json.dumps({"a.b": {"auth": packed}}).encode()})
    assert (old | Credentials({"a.b": Login("z")})).find("a.b") == Login("z")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {".dockerconfigjson": "%%%"},
        {".dockerconfigjson": b"[]"},
        {".dockerconfigjson": b"{"},
        {".dockerconfigjson": b'{"auths": []}'},
        {".dockerconfigjson": b'{"auths": {"a": {"auth": "%"}}}'},
    ],
)
def test_other_secrets_are_refused(data: dict[str, str | bytes]) -> None:
    if data == {".dockerconfigjson": b'{"auths": []}'}:
        assert not docker_config(data)
        return
    with pytest.raises(RegistryError, match="Secret"):
        docker_config(data)


def test_challenges_are_read() -> None:
    found = challenges(
        [
            'Bearer realm="https://auth/token",service="a, \\"b\\"",scope="repository:x:pull,push"',
            'Basic realm="r", Negotiate',
        ]
    )
    assert [one.scheme for one in found] == ["bearer", "basic", "negotiate"]
    assert found[0].parameters == {
        "realm": "https://auth/token",
        "service": 'a, "b"',
        "scope": "repository:x:pull,push",
    }


@given(st.lists(st.text(max_size=60), max_size=3))
def test_no_challenge_is_too_strange(headers: list[str]) -> None:
    challenges(headers)


def test_links() -> None:
    assert next_page(['<https://x/a>; rel="prev", </v2/b?n=1>; rel="next"']) == "/v2/b?n=1"
    assert next_page(['</v2/b>; rel="prev"']) == ""


def test_manifests_are_written_the_same_every_time_and_read_back() -> None:
    layer = Descriptor("application/wasm", DIGEST, 3, {"b": "2", "a": "1"})
    config = Descriptor("application/vnd.oci.empty.v1+json", digest_of(b"{}"), 2)
    raw = encode(config=config, layers=[layer], artifact_type="x/y", annotations={"z": "1"})
    assert raw == encode(
        config=config,
        layers=[Descriptor("application/wasm", DIGEST, 3, {"a": "1", "b": "2"})],
        artifact_type="x/y",
        annotations={"z": "1"},
    )
    found = parse(raw, expected=digest_of(raw))
    assert isinstance(found, Manifest)
    assert (found.artifact_type, found.annotations, found.size) == ("x/y", {"z": "1"}, 3)
    assert list(found.layers) == [layer] and found.config == config
    with pytest.raises(DigestMismatch):
        parse(raw, expected=DIGEST)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"{}", b'{"mediaType":"text/plain"}',
        b'{"mediaType":"application/vnd.oci.image.manifest.v1+json"}',
        b'{"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"digest":"x","size":1}}',
        b'{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[1]}',
        b'{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":{}} ',
    ],
)  # fmt: skip
def test_malformed_manifests_are_refused(raw: bytes) -> None:
    if raw.endswith(b" "):
        assert isinstance(parse(raw), Index)
        return
    with pytest.raises(InvalidArtifact):
        parse(raw)


def test_an_index_gives_one_manifest_or_says_what_it_has() -> None:
    def one(letter: str, platform: str) -> Descriptor:
        return Descriptor("m", "sha256:" + letter * 64, 1, platform=platform)

    both = Index("i", [one("a", "linux/amd64"), one("b", "wasi/wasm")])
    assert both.choose("wasi/wasm").digest == "sha256:" + "b" * 64
    with pytest.raises(InvalidArtifact, match="linux/amd64, wasi/wasm"):
        both.choose("")
    assert Index("i", [one("a", "")]).choose("").digest == "sha256:" + "a" * 64
