"""Commands that talk to a cluster: which one, as whom, and how their errors are told.

`connected` turns ``async def command(session, …)`` into a command with the options that all of them
have. Nothing of the cluster's side is imported before a command runs.
"""

from __future__ import annotations

import inspect
import os
import sys
import typing
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.errors import FORBIDDEN, INTERRUPTED, UNREACHABLE, USAGE, Trouble, trouble_of
from corral.cli.views.output import complain

if TYPE_CHECKING:
    from corral.client.access import Access
    from corral.kube import ClusterConfig, KubeClient

__all__ = ["ClusterOptions", "Session", "connected", "opened"]

LOCAL_CLUSTER = Path("~/.corral/kubeconfig")
_WARNINGS = 3


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster, through what, and which namespace of it."""

    namespace: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    gateway: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A cluster, or a gateway to it, for one command."""

    target: ClusterOptions
    jobs: Access
    namespace: str

    def direct(self, what: str) -> KubeClient:
        """The cluster itself.

        Raises:
            Trouble: there is only a gateway.
        """
        if self.jobs.client is None:
            raise Trouble(
                f"{what} needs the cluster itself, but a gateway serves jobs only",
                code=USAGE,
                hint="drop --gateway, unset CORRAL_GATEWAY and give a --kubeconfig",
            )
        return self.jobs.client


OPTIONS: dict[str, Any] = {
    "namespace": Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", help="Namespace (default: that of the kubeconfig context)."
        ),
    ],
    "kubeconfig": Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig (default: KUBECONFIG, ~/.kube/config, in-cluster, "
            "~/.corral/kubeconfig)."
        ),
    ],
    "context": Annotated[
        str | None, typer.Option(help="Kubeconfig context (default: the current one).")
    ],
    "gateway": Annotated[
        str | None,
        typer.Option(
            envvar="CORRAL_GATEWAY",
            help="URL of a Corral gateway to use instead of the API server.",
        ),
    ],
}

AsyncCommand = Callable[..., Coroutine[Any, Any, None]]


def connected(command: AsyncCommand) -> Callable[..., None]:
    """A command of what works with a session: its own parameters, and those of every command."""
    hints = typing.get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name != "session"
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in OPTIONS.items()
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

    def run(**values: Any) -> None:
        target = ClusterOptions(**{name: values.pop(name) for name in OPTIONS})
        perform(_with_session(command, target, values))

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__module__ = command.__module__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # PEP 362
    return run


async def _with_session(
    command: AsyncCommand, target: ClusterOptions, values: dict[str, Any]
) -> None:
    async with opened(target) as session:
        try:
            await command(session, **values)
        except Exception as err:
            trouble = trouble_of(_first(err))
            client = session.jobs.client
            if trouble is not None and trouble.code == UNREACHABLE and client is not None:
                check_certificate(client.config)
            raise


def perform(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end; every trouble is one line and an exit code, never a traceback.

    Raises:
        typer.Exit: something went wrong.
    """
    import asyncio

    try:
        asyncio.run(work)
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception as err:
        if isinstance(_first(err), BrokenPipeError):
            # Whoever read us has seen enough; the interpreter must not complain when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        trouble = trouble_of(_first(err))
        if trouble is None:
            raise
        complain(trouble)
        raise typer.Exit(trouble.code) from err


def _first(err: BaseException) -> BaseException:
    """Task groups wrap what went wrong; the first is why."""
    while isinstance(err, BaseExceptionGroup):
        err = err.exceptions[0]
    return err


def check_certificate(config: ClusterConfig) -> None:
    """A server that refuses a certificate only hangs up: look why.

    Raises:
        Trouble: the client's certificate is not valid now.
    """
    from datetime import UTC, datetime

    from cryptography import x509

    pem = config.cert_data or (Path(config.cert_file).read_bytes() if config.cert_file else b"")
    if not pem:
        return
    cert = x509.load_pem_x509_certificate(pem)
    begin, end, now = cert.not_valid_before_utc, cert.not_valid_after_utc, datetime.now(UTC)
    if now < begin:
        raise Trouble(
            f"the client certificate of the kubeconfig is not valid before {begin:%Y-%m-%d %H:%M} "
            f"UTC, but the clock of this machine says {now:%Y-%m-%d %H:%M} UTC",
            code=FORBIDDEN,
            hint="correct the clock; `corral up` writes a new kubeconfig for its own cluster",
        )
    if end < now:
        raise Trouble(
            f"the client certificate of the kubeconfig expired on {end:%Y-%m-%d %H:%M} UTC",
            code=FORBIDDEN,
            hint="renew the kubeconfig; `corral up` writes a new one for its own cluster",
        )


class _Warnings:
    """Tells the first few warnings of the API server: some objects have a dozen."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, text: str) -> None:
        self._told += 1
        if self._told <= _WARNINGS:
            complain(f"warning: {text}")
        elif self._told == _WARNINGS + 1:
            complain(
                "warning: more were omitted; `kubectl apply --dry-run=server` shows all of them"
            )


@asynccontextmanager
async def opened(target: ClusterOptions) -> AsyncIterator[Session]:
    """A session within; its connections are closed after it."""
    if target.gateway:
        from corral.cli.remote import gateway_session

        async with gateway_session(target) as session:
            yield session
        return
    from corral.client import Jobs
    from corral.kube import KubeClient

    path = kubeconfig_of(target)
    client = KubeClient.from_kubeconfig(
        str(path) if path else None, target.context, on_warning=_Warnings()
    )
    async with client:
        namespace = target.namespace or client.namespace
        yield Session(target, Jobs(client), namespace)


def kubeconfig_of(target: ClusterOptions) -> Path | None:
    """The file that was named, or that of a cluster here where no other is configured."""
    if target.kubeconfig is not None:
        return target.kubeconfig.expanduser()
    home = Path(os.environ.get("HOME") or Path.home())
    configured = (
        os.environ.get("KUBECONFIG")
        or (home / ".kube" / "config").is_file()
        or os.environ.get("KUBERNETES_SERVICE_HOST")
    )
    local = LOCAL_CLUSTER.expanduser()
    return local if not configured and local.is_file() else None
