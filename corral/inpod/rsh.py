#!/usr/bin/env python3
"""Starts a command in another pod, where MPI launchers expect ssh.

    python -m corral.inpod.rsh [options of ssh] HOST COMMAND...

HOST is ``<pod>.<service>.<namespace>.svc`` or ``<pod>``; the command goes through ``sh -c`` in the
first container of that pod, by way of the API's ``pods/exec`` and the token of this pod. No sshd
and no keys are needed, and the options of ssh mean nothing here, but for ``-n`` and for how long to
wait: a pod that does not run yet is waited for, ConnectionAttempts times ConnectTimeout seconds.

Guaranteed: the command is started at most once. Its exit code is ours; 255 and one line on stderr
say that it was not started, or that its end is not known. When we end first, for whatever reason,
so does the command.

The file stands alone (it is also run as a copy, out of a ConfigMap), needs only the standard
library, and imports as little as it can: launchers wait for it once for every host.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, NoReturn

STDIN, STDOUT, STDERR, ERROR = range(4)
FAILED = 255
"""What ssh ends with when it is not the command that failed."""
ATTEMPTS, TIMEOUT = 10, 6
"""Unless said otherwise: how often, and for how many seconds each, a pod is waited for."""
CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CLOSE_SIGNAL = 255
_FLAGS_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
_LONG = 3000
"""Bytes of a command that is not put into a URL; servers accept only so much of one."""
_CHUNK = 1 << 15
_QUIET, _LOST = 30.0, 120.0
"""Seconds without a word after which we ask for one, and after which nobody is there any more."""
_LAST_WORDS = 2.0
"""Seconds for what is still under way when the end of the command is known."""
_DENIED = 5.0
"""Seconds that a new right may take to be known everywhere."""


class Failure(Exception):
    """It cannot be done, or went wrong in a way that cannot be mended."""


class NotYet(Exception):
    """The pod cannot be reached now, but another attempt may succeed."""


class Stopped(BaseException):
    """A signal told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


# -- what is asked for --------------------------------------------------------------------------


class Call:
    """A command line of ssh, as far as it matters."""

    def __init__(self, words: list[str]) -> None:
        """Raises: Failure: there is no host or no command."""
        self.stdin = True
        self.attempts, self.timeout = ATTEMPTS, TIMEOUT
        rest = self._options(words)
        if not rest:
            raise Failure("usage: rsh [options of ssh] HOST COMMAND...")
        self.host = rest[0].rpartition("@")[2]
        # As with ssh, options may also follow the host.
        command = self._options(rest[1:])
        if not command:
            raise Failure(f"{self.host}: there are no logins here, only commands")
        self.command = " ".join(command)

    @property
    def patience(self) -> float:
        return float(max(self.attempts, 1) * max(self.timeout, 1))

    def _options(self, words: list[str]) -> list[str]:
        """Takes the options off the beginning; the rest."""
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word == "--":
                break
            for index, flag in enumerate(word[1:], 2):
                if flag in _FLAGS_WITH_VALUE:
                    value = word[index:] or (rest.pop(0) if rest else "")
                    if flag == "o":
                        self._setting(value)
                    break
                if flag == "n":
                    self.stdin = False
        return rest

    def _setting(self, text: str) -> None:
        name, _, value = text.strip().replace("=", " ", 1).partition(" ")
        if not value.strip().isdigit():
            return
        if name.lower() == "connectionattempts":
            self.attempts = int(value)
        elif name.lower() == "connecttimeout":
            self.timeout = int(value)


def locate(host: str, own_namespace: str) -> tuple[str, str]:
    """Namespace and name of the pod of a host."""
    labels = host.rstrip(".").split(".")
    inside = len(labels) >= 4 and labels[3] == "svc"
    return (labels[2] if inside else own_namespace), labels[0]


def _is_here(pod: str) -> bool:
    name = os.environ.get("CORRAL_HOSTNAME") or os.uname().nodename
    return name.partition(".")[0] == pod


# -- the API ------------------------------------------------------------------------------------


class Api:
    """One connection to the API server of this pod's cluster."""

    def __init__(self, folder: str, host: str, port: int) -> None:
        self._folder = folder
        self._host, self._port = host, port
        self._socket: ssl.SSLSocket | None = None
        self._buffer = b""

    @classmethod
    def of_this_pod(cls) -> Api:
        """Raises: Failure: this is no pod, or one without a service account's token."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "") or "443"
        if not host or not port.isdigit():
            raise Failure("KUBERNETES_SERVICE_HOST is not set: this is not a pod of a cluster")
        return cls(_mounted(CREDENTIALS), host, int(port))

    def secret(self, name: str) -> str:
        """Part of the service account. Raises: Failure: it is not there."""
        try:
            with open(os.path.join(self._folder, name), encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError) as error:
            raise Failure(f"the service account of this pod cannot be read: {error}") from None

    def container(self, namespace: str, pod: str) -> str:
        """The first container of a pod that runs. Raises: NotYet, Failure."""
        import json

        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        code, body = self._answer(path, "Accept: application/json")
        if code != 200:
            raise _refusal(code, body)
        try:
            found = json.loads(body)
            name = str(found["spec"]["containers"][0]["name"])
        except (ValueError, LookupError, TypeError):
            raise NotYet("what the API answered is no pod") from None
        status = found.get("status") or {}
        states = {item["name"]: item.get("state") for item in status.get("containerStatuses") or ()}
        state = states.get(name) or {}
        if found["metadata"].get("deletionTimestamp"):
            raise NotYet(f"pod {pod} is being deleted")
        if "running" not in state:
            words = [status.get("phase") or "Pending"]
            words += [item["reason"] for item in state.values() if (item or {}).get("reason")]
            raise NotYet(f"pod {pod} does not run: {', '.join(words)}")
        return name

    def execute(self, namespace: str, pod: str, query: str) -> Stream:
        """Start a command. Raises: NotYet: it was not started; Failure: perhaps it was."""
        import base64

        key = base64.b64encode(os.urandom(16)).decode()
        code, body = self._answer(
            f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{query}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            f"Sec-WebSocket-Protocol: {', '.join(_PROTOCOLS)}",
            once=True,
        )
        if code != 101:
            raise _refusal(code, body)
        assert self._socket is not None
        stream = Stream(self._socket, self._buffer, half_close=self._protocol == _PROTOCOLS[0])
        self._socket, self._buffer = None, b""
        return stream

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _answer(self, path: str, *headers: str, once: bool = False) -> tuple[int, bytes]:
        """Status and body of a GET; no answer is NotYet, or Failure for what is sent only once."""
        host = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        head = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers]
        head.append(f"Authorization: Bearer {self.secret('token')}")
        sent = False
        try:
            if self._socket is None:
                self._socket = self._connect()
            sent = True
            self._socket.sendall("\r\n".join([*head, "", ""]).encode("ascii"))
            return self._read()
        except (OSError, ValueError, LookupError) as error:
            self.close()
            kind = Failure if sent and once else NotYet
            raise kind(f"no answer of the API at {host}: {error or type(error).__name__}") from (
                error
            )

    def _connect(self) -> ssl.SSLSocket:
        import socket
        import ssl

        authority = os.path.join(self._folder, "ca.crt")
        try:
            context = ssl.create_default_context(cafile=authority)
        except OSError as error:
            raise Failure(f"the authority {authority} cannot be read: {error}") from None
        plain = socket.create_connection((self._host, self._port), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return context.wrap_socket(plain, server_hostname=self._host)
        except ssl.SSLCertVerificationError as error:
            raise Failure(f"the API at {self._host} is not trusted: {error}") from None

    def _read(self) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in _parted(lines)}
        code = int(first.split(" ")[1])
        self._protocol = fields.get("sec-websocket-protocol", "")
        if code == 101:
            return code, b""
        body = self._body(fields)
        if "close" in fields.get("connection", "").lower():
            self.close()
        return code, body

    def _body(self, fields: dict[str, str]) -> bytes:
        if "chunked" not in fields.get("transfer-encoding", "").lower():
            return self._take(int(fields.get("content-length") or 0))
        parts: list[bytes] = []
        while True:
            while b"\r\n" not in self._buffer:
                self._more()
            size, _, self._buffer = self._buffer.partition(b"\r\n")
            parts.append(self._take(int(size.partition(b";")[0], 16)))
            self._take(2)
            if not parts[-1]:
                return b"".join(parts)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._buffer += data


def _parted(lines: list[str]) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in lines]


def _mounted(path: str) -> str:
    """Where a mounted folder is, also on nodes that cannot mount."""
    mounts = os.environ.get("CORRAL_MOUNTS")
    if not mounts:
        return path
    import json

    return str(json.loads(mounts).get(path, path))


class Denied(NotYet):
    """The API says 403: the right may be about to come."""


def _refusal(code: int, body: bytes) -> NotYet:
    import json

    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = body[:200].decode("utf-8", "replace").strip() or "no reason given"
    return (Denied if code in (401, 403) else NotYet)(f"the API answered {code}: {message}")


# -- the running command ------------------------------------------------------------------------


class Stream:
    """The channels of a command, over a WebSocket."""

    def __init__(self, socket: ssl.SSLSocket, received: bytes, *, half_close: bool) -> None:
        socket.setblocking(False)
        self._socket = socket
        self._inbox = bytearray(received)
        self._outbox = bytearray()
        self._message = bytearray()
        self._half_close = half_close
        self._muted: set[int] = set()
        self.status: bytes | None = None
        """How the command ended, once that is known."""
        self.closed = False

    def send(self, channel: int, data: bytes) -> None:
        self._frame(2, bytes((channel,)) + data)

    def end_input(self) -> None:
        """Where the protocol cannot say it, the command waits for input in vain."""
        if self._half_close:
            self._frame(2, bytes((_CLOSE_SIGNAL, STDIN)))

    def close(self) -> None:
        """Leave, whatever is under way: the command is ended by its node."""
        if not self.closed:
            self._frame(8, b"\x03\xe8")
        try:
            self._flush()
        except OSError:
            self._outbox.clear()  # nobody is there to hear it
        self._socket.close()

    def run(self, source: int | None) -> None:
        """Carry both ways until the command has ended. Raises: OSError: the connection is lost."""
        import select

        poll = select.poll()
        heard, asked = time.monotonic(), False
        end = heard + 1e9
        while not self.closed and time.monotonic() < end:
            reads = source is not None and len(self._outbox) < _CHUNK and self.status is None
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outbox else 0))
            if source is not None and reads:
                poll.register(source, select.POLLIN)
            wait = min(end - time.monotonic(), _QUIET)
            ready = dict(poll.poll(max(0, int(wait * 1000)) + 1))
            if source is not None and reads:
                # Known to poll only while it is read: its end would wake us again and again.
                poll.unregister(source)
                if source in ready and not self._feed(source):
                    source = None
            self._flush()
            if self._receive():
                heard, asked = time.monotonic(), False
            silence = time.monotonic() - heard
            if silence > _LOST:
                raise TimeoutError(f"nothing was heard for {silence:.0f} s")
            if silence >= _QUIET and not asked:
                self._frame(9, b"")
                asked = True
            if self.status is not None:
                end = min(end, time.monotonic() + _LAST_WORDS)

    def _feed(self, source: int) -> bool:
        """Pass input on; False at its end."""
        try:
            data = os.read(source, _CHUNK)
        except OSError:
            data = b""
        if data:
            self.send(STDIN, data)
        else:
            self.end_input()
        return bool(data)

    def _frame(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes((0x80 | kind, 0x80 | size))
        elif size < 1 << 16:
            head = bytes((0x80 | kind, 0xFE)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | kind, 0xFF)) + size.to_bytes(8, "big")
        # The mask protects caches that could read along. Under TLS there are none: zeros will do.
        self._outbox += head + b"\0\0\0\0" + data

    def _flush(self) -> None:
        import ssl

        try:
            while self._outbox:
                del self._outbox[: self._socket.send(self._outbox[:_CHUNK])]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return

    def _receive(self) -> bool:
        """Take in what has come; whether anything has."""
        import ssl

        came = bool(self._inbox)
        self._frames()
        while not self.closed:
            try:
                data = self._socket.recv(_CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return came
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError):
                data = b""
            if not data:
                self.closed = True
                return came
            came = True
            self._inbox += data
            self._frames()
        return came

    def _frames(self) -> None:
        while not self.closed:
            size, start = _measure(self._inbox)
            if len(self._inbox) < start + size:
                return
            first = self._inbox[0]
            data = bytes(self._inbox[start : start + size])
            del self._inbox[: start + size]
            self._take(first & 0x0F, data, last=bool(first & 0x80))

    def _take(self, kind: int, data: bytes, *, last: bool) -> None:
        if kind == 8:
            self.closed = True
        elif kind == 9:
            self._frame(10, data)
        elif kind in (0, 1, 2):
            self._message += data
            if last:
                message, self._message = bytes(self._message), bytearray()
                if message:
                    self._deliver(message[0], message[1:])

    def _deliver(self, channel: int, data: bytes) -> None:
        if channel == ERROR:
            self.status = (self.status or b"") + data
        elif channel in (STDOUT, STDERR) and channel not in self._muted:
            try:
                while data:
                    data = data[os.write(channel, data) :]
            except BrokenPipeError:
                self._muted.add(channel)  # nobody reads it; the command may go on


def _measure(inbox: bytearray) -> tuple[int, int]:
    """Size and start of the first frame's data; more than there is where its head is not whole."""
    if len(inbox) < 2:
        return 0, 2
    size = inbox[1] & 0x7F
    width = {126: 2, 127: 8}.get(size, 0)
    if width and len(inbox) < 2 + width:
        return 0, 2 + width
    return (int.from_bytes(inbox[2 : 2 + width], "big") if width else size), 2 + width


def exit_code(status: bytes) -> int:
    """Of the Status that ends a command. Raises: Failure: it was not run, or got lost."""
    import json

    try:
        found: dict[str, Any] = json.loads(status)
    except ValueError:
        raise Failure(f"how the command ended is unclear: {status[:200]!r}") from None
    if found.get("status") == "Success":
        return 0
    for cause in (found.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise Failure(str(found.get("message") or "the command failed for no known reason"))


# -- all of it ----------------------------------------------------------------------------------


def query_of(command: str, container: str, *, stdin: bool) -> tuple[str, bytes]:
    """The query of an exec, and what is to be sent to the command before anything else."""
    from urllib.parse import urlencode

    first, script = b"", command
    if len(command.encode()) > _LONG:
        text = command.replace("\\", "\\0134").replace("\n", "\\0012")
        first = text.encode("utf-8", "surrogateescape") + b"\n"
        script = 'IFS= read -r line; eval "$(printf %b "$line")"'
    words = [("command", word) for word in ("sh", "-c", script)]
    asked = [("container", container), ("stdout", "true"), ("stderr", "true")]
    asked += [("stdin", "true")] if stdin or first else []
    return urlencode([*words, *asked], errors="surrogateescape"), first


def start(call: Call, api: Api) -> Stream:
    """Start the command as soon as its pod runs. Raises: Failure: it does not in time."""
    namespace, pod = locate(call.host, api.secret("namespace"))
    began, pause = time.monotonic(), 0.05
    while True:
        try:
            container = api.container(namespace, pod)
            query, first = query_of(call.command, container, stdin=call.stdin)
            stream = api.execute(namespace, pod, query)
            break
        except NotYet as error:
            limit = min(call.patience, _DENIED) if isinstance(error, Denied) else call.patience
            if time.monotonic() - began + pause > limit:
                raise Failure(str(error)) from error
            time.sleep(pause)
            pause = min(pause * 1.6, 2.0)
    if first:
        stream.send(STDIN, first)
        if not call.stdin:
            stream.end_input()
    return stream


def run(call: Call) -> int:
    """The exit code of the command. Raises: Failure, Stopped."""
    api = Api.of_this_pod()
    try:
        stream = start(call, api)
    finally:
        api.close()
    try:
        stream.run(STDIN if call.stdin else None)
    except OSError as error:
        raise Failure(f"the connection was lost: {error}") from error
    finally:
        stream.close()
    if stream.status is None:
        raise Failure("the connection was lost")
    return exit_code(stream.status)


def _stop(number: int, frame: object) -> NoReturn:
    raise Stopped(number)


def main(words: list[str]) -> int:
    """Run the command in the pod of the host; returns the exit code."""
    import signal

    call: Call | None = None
    try:
        call = Call(words)
        if _is_here(locate(call.host, "")[1]):
            os.execvp("sh", ["sh", "-c", call.command])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Whoever started us with a signal ignored (nohup) means it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _stop)
        return run(call)
    except Failure as error:
        where = f"{call.host}: " if call is not None else ""
        sys.stderr.write(f"corral rsh: {where}{error}\n".replace("\n", " ").rstrip() + "\n")
        return FAILED
    except Stopped as stopped:
        return stopped.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
