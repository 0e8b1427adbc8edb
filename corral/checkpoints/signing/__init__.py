"""URLs that allow one request on one object until a given time, without other credentials.

Every store has a `UrlSigner` with the same methods, so a controller hands out URLs without
knowing the store, and pods need nothing but an HTTP client: send the method, to the URL, with
exactly the headers of the `SignedRequest`. Objects of many gigabytes go in parts: `start` an
upload, let the pod PUT each part and report the ETag of each answer, then `complete` it.

The signatures are computed here (they are an HMAC or one RSA signature), so conditions such as
"only if absent" are part of what is signed and no cloud's SDK is needed.
"""

from corral.checkpoints.signing.base import SignedRequest, Upload, UrlSigner
from corral.checkpoints.signing.local import LocalSigner

__all__ = ["LocalSigner", "SignedRequest", "Upload", "UrlSigner"]
