"""A strict Google Cloud Storage server: the XML interface, as far as checkpoints use it.

The emulators at hand accept any signature, and refuse the XML interface or ignore conditions;
this one verifies what the service verifies. Requests need a self-signed token or a V4 signature
of the one service account it knows, with the expiry checked; `x-goog-if-generation-match` is
enforced on objects and on completed uploads.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

EMAIL = "trainer@example.iam.gserviceaccount.com"


@dataclass
class Stored:
    data: bytes
    generation: int
    modified: float

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class Bucket:
    objects: dict[str, Stored] = field(default_factory=dict)
    uploads: dict[str, tuple[str, float, dict[int, bytes]]] = field(default_factory=dict)
    generation: int = 1000


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class GcsServer:
    """The server in a thread of this process."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.lock = threading.Lock()
        self.buckets: dict[str, Bucket] = {}
        self.failures: list[int] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                return

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                try:
                    status, headers, data = server.answer(
                        self.command, self.path, self.headers, body
                    )
                except Refused as error:
                    status, headers = error.status, {"content-type": "application/xml"}
                    data = f"<Error><Code>{error.code}</Code></Error>".encode()
                self.send_response(status)
                size = headers.pop("content-length", str(len(data)))
                for name, value in {**headers, "content-length": size}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def account(self) -> str:
        """The service account's key file."""
        return service_account_key(self.key, self.endpoint)

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(
        self, method: str, target: str, headers: Any, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.authenticate(method, parts.path, query, headers)
        with self.lock:
            if self.failures:
                raise Refused(self.failures.pop(), "Injected")
            name, _, key = unquote(parts.path).lstrip("/").partition("/")
            bucket = self.buckets.get(name)
            if bucket is None:
                raise Refused(404, "NoSuchBucket")
            if not key:
                return self.list_bucket(bucket, query)
            if "uploads" in query or "uploadId" in query:
                return self.upload(bucket, method, key, query, headers, body)
            return self.object(bucket, method, key, headers, body)

    def authenticate(self, method: str, path: str, query: dict[str, str], headers: Any) -> None:
        if "X-Goog-Signature" in query:
            return self.check_signature(method, path, dict(query), headers)
        token = re.fullmatch(r"Bearer ([^.]+)\.([^.]+)\.([^.]+)", headers.get("authorization", ""))
        if token is None:
            raise Refused(401, "AuthenticationRequired")
        claims = json.loads(unbase64(token[2]))
        self.check_rsa(unbase64(token[3]), f"{token[1]}.{token[2]}".encode())
        if claims["iss"] != EMAIL or claims["exp"] < time.time():
            raise Refused(401, "AuthenticationRequired")
        return None

    def check_signature(self, method: str, path: str, query: dict[str, str], headers: Any) -> None:
        signature = query.pop("X-Goog-Signature")
        names = query["X-Goog-SignedHeaders"].split(";")
        stamp = query["X-Goog-Date"]
        text = "&".join(
            f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(query.items())
        )
        lines = [f"{name}:{headers.get(name, '')}" for name in names]
        canonical = "\n".join([method, path, text, *lines, "", ";".join(names), "UNSIGNED-PAYLOAD"])
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        scope = f"{stamp[:8]}/auto/storage/goog4_request"
        message = "\n".join(["GOOG4-RSA-SHA256", stamp, scope, digest])
        if query["X-Goog-Credential"] != f"{EMAIL}/{scope}":
            raise Refused(403, "SignatureDoesNotMatch")
        try:
            raw = bytes.fromhex(signature)
        except ValueError:
            raise Refused(403, "SignatureDoesNotMatch") from None
        self.check_rsa(raw, message.encode())
        for name in headers:
            if name.lower().startswith("x-goog-") and name.lower() not in names:
                raise Refused(403, "MalformedSecurityHeader")
        began = time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.timezone
        if not began - 900 <= time.time() < began + int(query["X-Goog-Expires"]):
            raise Refused(400, "ExpiredToken")

    def check_rsa(self, signature: bytes, message: bytes) -> None:
        try:
            self.key.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise Refused(403, "SignatureDoesNotMatch") from None

    def object(
        self, bucket: Bucket, method: str, key: str, headers: Any, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if method == "PUT":
            self.store(bucket, key, headers, body)
            return 200, described(bucket.objects[key]), b""
        stored = bucket.objects.get(key)
        if stored is None:
            raise Refused(404, "NoSuchKey")
        if method == "DELETE":
            del bucket.objects[key]
            return 204, {}, b""
        found = {**described(stored), "content-type": "application/octet-stream"}
        if method == "HEAD":
            return 200, {**found, "content-length": str(len(stored.data))}, b""
        return ranged(stored, headers.get("range"), found)

    def store(self, bucket: Bucket, key: str, headers: Any, body: bytes) -> None:
        wanted = headers.get("x-goog-if-generation-match")
        actual = bucket.objects[key].generation if key in bucket.objects else 0
        if wanted is not None and int(wanted) != actual:
            raise Refused(412, "PreconditionFailed")
        bucket.generation += 1
        bucket.objects[key] = Stored(body, bucket.generation, time.time())

    def upload(
        self,
        bucket: Bucket,
        method: str,
        key: str,
        query: dict[str, str],
        headers: Any,
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploads" in query:
            name = f"upload-{len(bucket.uploads)}-{bucket.generation}"
            bucket.uploads[name] = (key, time.time(), {})
            text = f"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>{escape(key)}</Key>"
            text += f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, text.encode()
        if bucket.uploads.get(query["uploadId"], ("",))[0] != key:
            raise Refused(404, "NoSuchUpload")
        parts = bucket.uploads[query["uploadId"]][2]
        if method == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, {"etag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
        if method == "DELETE":
            del bucket.uploads[query["uploadId"]]
            return 204, {}, b""
        return self.complete(bucket, key, query["uploadId"], headers, body)

    def complete(
        self, bucket: Bucket, key: str, name: str, headers: Any, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = bucket.uploads[name][2]
        text = body.decode().replace("&quot;", '"')
        listed = []
        for block in re.findall(r"<Part>(.*?)</Part>", text, re.DOTALL):
            number = re.search(r"<PartNumber>(\d+)</PartNumber>", block)
            etag = re.search(r"<ETag>([^<]*)</ETag>", block)
            if number is None or etag is None:
                raise Refused(400, "MalformedXML")
            listed.append((number[1], etag[1]))
        if not listed:
            raise Refused(400, "MalformedXML")
        for part, tag in listed:
            data = parts.get(int(part))
            if data is None or hashlib.md5(data).hexdigest() != tag.strip('"'):
                raise Refused(400, "InvalidPart")
        self.store(bucket, key, headers, b"".join(parts[int(part)] for part, _ in listed))
        del bucket.uploads[name]
        etag = bucket.objects[key].etag
        members = f"<Location>x</Location><Bucket>b</Bucket><Key>{escape(key)}</Key>"
        members += f"<ETag>{etag}</ETag>"
        answer = f"<CompleteMultipartUploadResult>{members}</CompleteMultipartUploadResult>"
        return 200, described(bucket.objects[key]), answer.encode()

    def list_bucket(
        self, bucket: Bucket, query: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        if "uploads" in query:
            blocks = "".join(
                f"<Upload><Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
                f"<Initiated>{stamp(began)}</Initiated></Upload>"
                for name, (key, began, _) in bucket.uploads.items()
                if key.startswith(prefix)
            )
            return (
                200,
                {},
                f"<ListMultipartUploadsResult>{blocks}</ListMultipartUploadsResult>".encode(),
            )
        folders: set[str] = set()
        contents = ""
        for key, stored in sorted(bucket.objects.items()):
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in key[len(prefix) :]:
                folders.add(prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter)
                continue
            contents += (
                f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.data)}</Size>"
                f"<LastModified>{stamp(stored.modified)}</LastModified>"
                f"<ETag>{escape(stored.etag)}</ETag></Contents>"
            )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>"
            for f in sorted(folders)
        )
        members = f"<IsTruncated>false</IsTruncated>{contents}{common}"
        text = f"<ListBucketResult>{members}</ListBucketResult>"
        return 200, {"content-type": "application/xml"}, text.encode()


def service_account_key(key: rsa.RSAPrivateKey, endpoint: str) -> str:
    """The key file of the service account that this server knows, with any key."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return json.dumps(
        {
            "type": "service_account",
            "client_email": EMAIL,
            "private_key": pem,
            "private_key_id": "1",
            "token_uri": f"{endpoint}/token",
        }
    )


def ranged(
    stored: Stored, wanted: str | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted or "")
    if match is None:
        return 200, headers, stored.data
    start, end = int(match[1]), int(match[2] or len(stored.data) - 1)
    if start >= len(stored.data):
        raise Refused(416, "InvalidRange")
    data = stored.data[start : end + 1]
    span = f"bytes {start}-{start + len(data) - 1}/{len(stored.data)}"
    return 206, {**headers, "content-range": span}, data


def described(stored: Stored) -> dict[str, str]:
    return {
        "etag": stored.etag,
        "x-goog-generation": str(stored.generation),
        "last-modified": formatdate(stored.modified, usegmt=True),
    }


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
