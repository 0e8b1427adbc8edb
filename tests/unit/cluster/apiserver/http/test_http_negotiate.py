"""Which form a client gets its answer in."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.http.negotiate import as_yaml, indented, output
from corral.kube import errors

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "media", "shape", "version"),
    [
        ("", "application/json", "object", "v1"),
        ("application/json", "application/json", "object", "v1"),
        ("*/*", "application/json", "object", "v1"),
        ("application/*", "application/json", "object", "v1"),
        ("application/yaml", "application/yaml", "object", "v1"),
        (f"{PROTOBUF},application/json", "application/json", "object", "v1"),
        (f"{PROTOBUF}, */*", "application/json", "object", "v1"),
        (KUBECTL, "application/json", "table", "v1"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json", "table", "v1beta1"),  # noqa: E501
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "table", "v1"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json", "metadata", "v1"),  # noqa: E501
        (f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json", "metadata", "v1"),  # noqa: E501
        (DISCOVERY, "application/json", "discovery", "v2"),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", "application/json", "object", "v1"),  # noqa: E501
    ],
)  # fmt: skip
def test_accepted(accept: str, media: str, shape: str, version: str) -> None:
    found = output(accept)
    assert (found.media, found.shape, found.version) == (media, shape, version)


def test_discovery_names_itself_in_the_answer() -> None:
    """kubectl recognises the aggregated form by these parameters."""
    found = output(DISCOVERY)
    assert found.content_type == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )


@pytest.mark.parametrize("accept", ["text/html", PROTOBUF, "application/json;as=Chart;v=v1;g=x"])
def test_refused(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable) as caught:
        output(accept)
    assert caught.value.status_code == 406
    assert "only the following media types are accepted: application/json" in caught.value.message


def test_yaml_is_encoded() -> None:
    body = as_yaml(b'{"b":[1,"2"],"a":{"c":null}}')
    assert body == b"a:\n  c: null\nb:\n- 1\n- '2'\n"
    assert indented(b'{"a":1}\n') == b'{\n  "a": 1\n}'
