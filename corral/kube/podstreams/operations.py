"""What the client can do with a running pod: logs, commands, attaching, port forwarding."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from corral.kube.connection.transport import Transport
from corral.kube.podstreams.logs import LogRequest, log_chunks, log_lines
from corral.kube.podstreams.portforward import PortForward
from corral.kube.podstreams.streams import ExecResult, RemoteProcess, StreamRequest, run_command

__all__ = ["PodMethods"]


class PodMethods:
    """The part of `corral.kube.client.KubeClient` that is about pods."""

    transport: Transport

    @property
    def namespace(self) -> str:
        """The namespace of objects for which none is given."""
        return self.transport.config.namespace

    def log_lines(
        self, pod: str, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[str, None]:
        """Lines of a log; ``options`` are the fields of `corral.kube.LogRequest`."""
        return log_lines(self.transport, LogRequest(pod, namespace or self.namespace, **options))

    def log_chunks(
        self, pod: str, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of a log as they come; ``options`` as for `log_lines`."""
        return log_chunks(self.transport, LogRequest(pod, namespace or self.namespace, **options))

    def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        tty: bool = False,
    ) -> RemoteProcess:
        """Start a command in a container: ``async with client.exec(…) as process``."""
        if not command:
            raise ValueError("an empty command was given")
        request = StreamRequest(
            pod,
            namespace or self.namespace,
            command=tuple(command),
            container=container,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            tty=tty,
        )
        return RemoteProcess(self.transport, request)

    async def run(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run a command in a container to its end and collect its output."""
        request = StreamRequest(
            pod,
            namespace or self.namespace,
            command=tuple(command),
            container=container,
            stdin=stdin is not None,
        )
        return await run_command(self.transport, request, stdin=stdin)

    def attach(
        self,
        pod: str,
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        tty: bool = False,
    ) -> RemoteProcess:
        """Attach to the main process of a container."""
        request = StreamRequest(
            pod,
            namespace or self.namespace,
            container=container,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            tty=tty,
        )
        return RemoteProcess(self.transport, request)

    def port_forward(
        self, pod: str, port: int, *, namespace: str | None = None, local_port: int = 0
    ) -> PortForward:
        """Listen locally for a port of a pod: ``async with client.port_forward(…) as forward``."""
        return PortForward(
            self.transport,
            pod,
            namespace=namespace or self.namespace,
            port=port,
            local_port=local_port,
        )
