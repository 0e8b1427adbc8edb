"""What a registry answers with, in the specification's form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from corral.cluster.registry.catalog import Row
from corral.cluster.registry.errors import Refused
from corral.oci.manifest import IMAGE_INDEX

__all__ = ["VERSION", "accepted", "created", "link", "list_of", "next_page", "refusal"]

VERSION: Final = {"Docker-Distribution-API-Version": "registry/2.0"}


def next_page(path: str, found: list[str], most: int) -> dict[str, str]:
    if len(found) <= most or not most:
        return {}
    return link(path, {"n": most, "last": found[most - 1]})


def link(path: str, query: Mapping[str, str | int]) -> dict[str, str]:
    """Where the next page is."""
    return {"Link": f'<{path}?{urlencode(query)}>; rel="next"'}


def list_of(found: Iterable[tuple[Row, int]]) -> bytes:
    """An index of manifests."""
    manifests: list[dict[str, Any]] = []
    for row, size in found:
        one = {"mediaType": row.media_type, "digest": row.digest, "size": size}
        if row.artifact_type:
            one["artifactType"] = row.artifact_type
        if row.annotations:
            one["annotations"] = json.loads(row.annotations)
        manifests.append(one)
    content = {"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": manifests}
    return json.dumps(content).encode()


def accepted(repository: str, upload: str, offset: int, *, status: int = 202) -> web.Response:
    headers = {
        "Location": f"/v2/{repository}/blobs/uploads/{quote(upload)}",
        "Range": f"0-{max(offset - 1, 0)}",
        "Docker-Upload-UUID": upload,
    }
    return web.Response(status=status, headers=headers)


def created(repository: str, digest: str) -> web.Response:
    headers = {
        "Location": f"/v2/{repository}/blobs/{digest}",
        "Docker-Content-Digest": digest,
    }
    return web.Response(status=201, headers=headers)


def refusal(refused: Refused) -> web.Response:
    body = {"errors": [{"code": refused.code, "message": refused.words}]}
    headers = {k: v for k, v in refused.headers.items() if k.lower() != "content-type"}
    return web.json_response(body, status=refused.status, headers={**VERSION, **headers})
