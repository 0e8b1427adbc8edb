"""A strict Azure Blob Storage server: one account, block blobs, as far as checkpoints use them.

Every request needs the account's Shared Key, or a service SAS of the blob with the permission for
what is asked and an expiry that is not over, both verified as the service does. Conditions
(`If-Match`, `If-None-Match`) are enforced, on block lists too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

ACCOUNT = "strictaccount"
KEY = base64.b64encode(hashlib.sha512(b"a key of this server").digest()).decode()
_SIGNED = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip
_SAS = ("sp", "st", "se", "", "si", "sip", "spr", "sv", "sr", "", "", "rscc", "rscd", "rsce",
        "rscl", "rsct")  # fmt: skip
"""Fields of the text that a service SAS signs, in order; the fourth is the resource."""


@dataclass
class Blob:
    data: bytes
    etag: str
    modified: float


@dataclass
class Container:
    blobs: dict[str, Blob] = field(default_factory=dict)
    blocks: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """Name and block → what was sent, until a list makes a blob of it."""


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


Answer = tuple[int, dict[str, str], bytes]


class AzureServer:
    """The server in a thread of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.containers: dict[str, Container] = {}
        self._numbers = count(1)
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                return

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, said, data = server.answered(self.command, self.path, headers, body)
                self.send_response(status)
                size = said.pop("content-length", str(len(data)))
                for name, value in {**said, "content-length": size}.items():
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
        return f"http://127.0.0.1:{self.http.server_address[1]}/{ACCOUNT}"

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answered(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        try:
            return self.answer(method, target, headers, body)
        except Refused as error:
            said = {"x-ms-error-code": error.code, "content-type": "application/xml"}
            return error.status, said, f"<Error><Code>{error.code}</Code></Error>".encode()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        account, _, rest = parts.path.lstrip("/").partition("/")
        if account != ACCOUNT:
            raise Refused(404, "ResourceNotFound")
        name, _, key = unquote(rest).partition("/")
        if query.get("comp") == "batch":
            self.check_key(method, parts.path, query, headers)
            return self.batch(headers, body)
        if "sig" in query:
            self.check_sas(method, name, key, query)
        else:
            self.check_key(method, parts.path, query, headers)
        with self.lock:
            container = self.containers.get(name)
            if container is None:
                raise Refused(404, "ContainerNotFound")
            if not key:
                return self.list(container, query)
            if query.get("comp") == "block":
                container.blocks[key, query["blockid"]] = body
                return 201, {}, b""
            if query.get("comp") == "blocklist":
                return self.join(container, key, headers, body)
            return self.blob(container, method, key, headers, body)

    # -- who asks --------------------------------------------------------------------------------

    def check_key(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str]
    ) -> None:
        given = re.fullmatch(r"SharedKey ([^:]+):(\S+)", headers.get("authorization", ""))
        if given is None or given[1] != ACCOUNT:
            raise Refused(401, "NoAuthenticationInformation")
        values = [headers.get(name, "") for name in _SIGNED]
        values[2] = "" if values[2] == "0" else values[2]
        own = [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-")]
        asked = [f"{name.lower()}:{query[name]}" for name in sorted(query)]
        text = "\n".join([method, *values, *own, "\n".join([f"/{ACCOUNT}{path}", *asked])])
        if not hmac.compare_digest(given[2], signature(text)):
            raise Refused(403, "AuthenticationFailed")

    def check_sas(self, method: str, container: str, key: str, query: dict[str, str]) -> None:
        values = [query.get(name, "") if name else "" for name in _SAS]
        values[3] = f"/blob/{ACCOUNT}/{container}/{key}"
        if query.get("sr") != "b" or not hmac.compare_digest(
            query["sig"], signature("\n".join(values))
        ):
            raise Refused(403, "AuthenticationFailed")
        until = time.mktime(time.strptime(query["se"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
        if time.time() >= until:
            raise Refused(403, "AuthenticationFailed")
        may = set(query["sp"])
        if method in ("GET", "HEAD"):
            allowed = "r" in may
        elif method == "PUT":
            there = key in self.containers.get(container, Container()).blobs
            is_block = query.get("comp") == "block"
            allowed = "w" in may or ("c" in may and not there and not is_block)
        else:
            allowed = "d" in may
        if not allowed:
            raise Refused(403, "AuthorizationPermissionMismatch")

    # -- blobs -----------------------------------------------------------------------------------

    def blob(
        self, container: Container, method: str, key: str, headers: dict[str, str], body: bytes
    ) -> Answer:
        if method == "PUT":
            if headers.get("x-ms-blob-type") != "BlockBlob":
                raise Refused(400, "MissingRequiredHeader")
            return self.store(container, key, headers, body)
        found = container.blobs.get(key)
        if found is None:
            raise Refused(404, "BlobNotFound")
        if method == "DELETE":
            del container.blobs[key]
            return 202, {}, b""
        said = {**described(found), "content-type": "application/octet-stream"}
        if method == "HEAD":
            return 200, {**said, "content-length": str(len(found.data))}, b""
        span = re.fullmatch(
            r"bytes=(\d+)-(\d*)", headers.get("x-ms-range") or headers.get("range", "")
        )
        if span is None:
            return 200, said, found.data
        start, end = int(span[1]), int(span[2] or len(found.data) - 1)
        if start >= len(found.data):
            raise Refused(416, "InvalidRange")
        data = found.data[start : end + 1]
        place = f"bytes {start}-{start + len(data) - 1}/{len(found.data)}"
        return 206, {**said, "content-range": place}, data

    def store(self, container: Container, key: str, headers: dict[str, str], data: bytes) -> Answer:
        old = container.blobs.get(key)
        if headers.get("if-none-match") == "*" and old is not None:
            raise Refused(409, "BlobAlreadyExists")
        wanted = headers.get("if-match")
        if wanted is not None and (old is None or wanted not in ("*", old.etag)):
            raise Refused(412, "ConditionNotMet")
        made = container.blobs[key] = Blob(data, f'"0x{next(self._numbers):016X}"', time.time())
        return 201, described(made), b""

    def join(self, container: Container, key: str, headers: dict[str, str], body: bytes) -> Answer:
        names = re.findall(r"<(?:Latest|Uncommitted)>([^<]*)</", body.decode())
        try:
            data = b"".join(container.blocks[key, name] for name in names)
        except KeyError:
            raise Refused(400, "InvalidBlockList") from None
        answer = self.store(container, key, headers, data)
        for place in [place for place in container.blocks if place[0] == key]:
            del container.blocks[place]
        return answer

    def list(self, container: Container, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        folders: dict[str, None] = {}
        listed = ""
        for key, blob in sorted(container.blobs.items()):
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in key[len(prefix) :]:
                folders[prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter] = None
                continue
            listed += (
                f"<Blob><Name>{escape(key)}</Name><Properties>"
                f"<Last-Modified>{formatdate(blob.modified, usegmt=True)}</Last-Modified>"
                f"<Content-Length>{len(blob.data)}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type>"
                f"<Etag>{escape(blob.etag)}</Etag></Properties></Blob>"
            )
        listed += "".join(
            f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in folders
        )
        text = f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker/></EnumerationResults>"
        return 200, {"content-type": "application/xml"}, text.encode()

    def batch(self, headers: dict[str, str], body: bytes) -> Answer:
        """Deletions, each with its own signature."""
        edge = headers["content-type"].partition("boundary=")[2].strip('"')
        answers = []
        for part in body.decode().split(f"--{edge}")[1:-1]:
            about, _, request = part.lstrip("\r\n").partition("\r\n\r\n")
            number = re.search(r"(?im)^content-id:\s*(\S+)", about)
            first, *lines = request.strip().split("\r\n")
            method, target, _ = first.split(" ")
            own = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines if ":" in line)
            }
            status, said, _ = self.answered(method, target, own, b"")
            shown = "".join(f"{name}: {value}\r\n" for name, value in said.items())
            answers.append(
                "Content-Type: application/http\r\n"
                f"Content-ID: {number[1] if number else 0}\r\n\r\n"
                f"HTTP/1.1 {status} Said\r\n{shown}\r\n"
            )
        text = "".join(f"--answers\r\n{answer}\r\n" for answer in answers) + "--answers--\r\n"
        return 202, {"content-type": "multipart/mixed; boundary=answers"}, text.encode()


def signature(text: str) -> str:
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")
    return base64.b64encode(digest).decode()


def described(blob: Blob) -> dict[str, Any]:
    return {"etag": blob.etag, "last-modified": formatdate(blob.modified, usegmt=True)}
