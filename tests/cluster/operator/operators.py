"""Operators of a test: in this process, or as processes of their own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corral.operator.process import OperatorProcess
from corral.operator.settings import ProcessSettings
from corral.runtime import MeteredClient
from tests.backends.base import free_port, wait_for

Obj = dict[str, Any]
GROUP = "training.corral.dev/v1alpha1"


def job(name: str, command: list[str] | None = None, **spec: Any) -> Obj:
    """A job whose pods end at once."""
    return {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": "custom",
            "replicas": 2,
            "image": "python:3.12",
            "command": command or ["true"],
            **spec,
        },
    }


def beside(**more: Any) -> ProcessSettings:
    """Settings of an operator on this machine; pods and the API server reach it there."""
    port = free_port()
    return ProcessSettings(
        **{
            "leader_elect": False,
            "health_host": "127.0.0.1",
            "health_port": 0,
            "webhook_host": "127.0.0.1",
            "webhook_port": 0,
            "report_host": "127.0.0.1",
            "report_port": port,
            "report_url": f"https://127.0.0.1:{port}",
            "handle_signals": False,
            **more,
        }
    )


@asynccontextmanager
async def operating(
    client: MeteredClient, settings: ProcessSettings
) -> AsyncIterator[OperatorProcess]:
    """An operator within; it is ready, and ends in order."""
    ready = asyncio.Event()
    process = OperatorProcess(client, settings, on_ready=ready.set)
    running = asyncio.create_task(process.run())
    waiting = asyncio.create_task(ready.wait())
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield process
    finally:
        waiting.cancel()
        process.stop()
        async with asyncio.timeout(60):
            await running


class Replica:
    """``corral operator``, started the way people start it."""

    def __init__(self, config: Path, folder: Path, name: str, *options: str) -> None:
        self.log = folder / f"{name}.log"
        self.log.write_text("")
        self.health = free_port()
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "corral.cli.main", "operator",
                    "--kubeconfig", str(config), "--listen", "127.0.0.1",
                    "--health-port", str(self.health), "--webhook-port", "0",
                    "--report-port", "0", *options,
                ],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        wait_for(self.process, self.log, "is ready")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def lines(self) -> list[Obj]:
        """What it logged: JSON, but for the line that says that it is ready."""
        texts = self.log.read_text().splitlines()
        return [json.loads(text) for text in texts if not text.startswith("corral operator is")]
