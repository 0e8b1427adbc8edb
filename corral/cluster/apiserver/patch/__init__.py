"""The three patch formats that change an object by a partial document.

* JSON patch (RFC 6902) in :mod:`.jsonpatch`,
* JSON merge patch (RFC 7386) in :mod:`.mergepatch`,
* strategic merge patch, which reads merge keys from the OpenAPI definitions, in :mod:`.strategic`.

Each ``apply_…`` takes the decoded object and the request body and returns the patched object. They
do what the algorithms say and no more: unknown fields and nulls that an algorithm leaves stay, for
typed decoding to judge. The object handed in may be changed, also when the patch fails half-way, so
it must be a copy of its own. Refused patches raise :mod:`corral.kube.errors` with the status code,
reason and message that kube-apiserver answers.
"""

from corral.cluster.apiserver.patch.body import duplicates, parse
from corral.cluster.apiserver.patch.goformat import go_format
from corral.cluster.apiserver.patch.jsonpatch import apply_json_patch
from corral.cluster.apiserver.patch.mergepatch import apply_merge_patch
from corral.cluster.apiserver.patch.strategic import apply_strategic_patch

__all__ = [
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_patch",
    "duplicates",
    "go_format",
    "parse",
]
