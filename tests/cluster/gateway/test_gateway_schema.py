"""Requests made from the OpenAPI document, good ones and bad ones: nothing but what it says.

No answer of 500 and above, no status, media type, header or body that is not documented. A few
requests for each operation of two kinds in `make test`; many, for every kind, in the soak.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis import checks as known

from corral.client.kinds import KINDS
from corral.gateway.limits import LimitSettings
from corral.gateway.process import ProcessSettings, run_gateway
from corral.gateway.rest.openapi import document
from corral.kube import load_config
from corral.runtime.serving.listening import Listen, bind
from tests.backends import Backend
from tests.cluster.apps.loops import LoopThread
from tests.cluster.jobs_api.manifests_of_jobs import mpi, training
from tests.cluster.objects import Objects

MANY = int(os.environ.get("CORRAL_EXAMPLES", "150"))
"""Requests of each kind for each operation, in the soak."""
CHECKS: list[Any] = [
    known.not_a_server_error,
    known.status_code_conformance,
    known.content_type_conformance,
    known.response_headers_conformance,
    known.response_schema_conformance,
]


class ShortGateway(LoopThread):
    """A gateway whose streams end soon, so that every answer has an end."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        super().__init__("gateway")
        self._kubeconfig, self.folder = kubeconfig, folder
        self.port = 0

    async def work(self, ready: Callable[[], None]) -> None:
        limits = LimitSettings(rate=1e6, burst=10**6, watch_seconds=0.05, log_seconds=0.5)
        chosen = ProcessSettings(
            grpc=None, cert_dir=self.folder, audit_file=self.folder / "audit.log", limits=limits,
            grace=1.0,
        )  # fmt: skip

        def serving(facts: dict[str, int]) -> None:
            self.port = facts["rest"]
            ready()

        await run_gateway(
            load_config(self._kubeconfig), chosen, sock=bind(Listen()), stop=asyncio.Event(),
            ready=serving,
        )  # fmt: skip


@pytest.fixture(scope="module")
def short(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShortGateway]:
    gateway = ShortGateway(kubeconfig, tmp_path_factory.mktemp("short"))
    gateway.start()
    yield gateway
    gateway.stop()


def operations(plural: str) -> list[Any]:
    schema = schemathesis.openapi.from_dict(document()).include(tag=plural)
    return [found.ok() for found in schema.get_all_operations()]


class Trial:
    """Sends what is made up, half of it to a job that is there."""

    def __init__(self, gateway: ShortGateway, backend: Backend, namespace: str) -> None:
        self._url = f"https://127.0.0.1:{gateway.port}"
        self._namespace = namespace
        self._session = requests.Session()
        self._authority = str(gateway.folder / "ca.crt")
        self._session.headers["Authorization"] = f"Bearer {backend.token}"
        self.sent = 0
        self.codes: dict[int, int] = {}

    def close(self) -> None:
        self._session.close()

    def send(self, case: Any) -> None:
        self.sent += 1
        given = case.path_parameters
        if isinstance(given, dict):
            if "namespace" in given and self.sent % 4:
                given["namespace"] = self._namespace
            if "name" in given and self.sent % 2:
                given["name"] = "there"
        case.headers = {k: v for k, v in (case.headers or {}).items() if k != "Authorization"}
        try:
            response = case.call(
                base_url=self._url, session=self._session, verify=self._authority, timeout=60
            )
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return  # no client could send it
        self.codes[response.status_code] = self.codes.get(response.status_code, 0) + 1
        case.validate_response(response, checks=CHECKS)


def run(trial: Trial, plural: str, examples: int) -> None:
    for operation in operations(plural):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                strategy = operation.as_strategy(generation_mode=mode)
            except schemathesis.errors.SchemathesisError:
                continue

            @settings(
                max_examples=examples, derandomize=True, deadline=None, database=None,
                suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate),
            )  # fmt: skip
            @given(case=strategy)
            def attempt(case: Any) -> None:
                trial.send(case)

            attempt()


@pytest.fixture
def trial(
    short: ShortGateway, backend: Backend, objects: Objects, namespace: str
) -> Iterator[Trial]:
    objects.create("trainingjobs", training("there", runPolicy={"suspend": True}))
    objects.create("mpijobs", mpi("there"))
    trial = Trial(short, backend, namespace)
    yield trial
    trial.close()


@pytest.mark.parametrize("plural", ["mpijobs", "kafkaml"])
def test_a_few_requests_of_every_operation(trial: Trial, plural: str) -> None:
    run(trial, plural, 4)
    print(f"\n{plural}: {trial.sent} requests, answers {dict(sorted(trial.codes.items()))}")
    assert trial.sent > 50


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plural", [*(kind.plural for kind in KINDS), "kafkaml"])
def test_many_requests_of_every_operation(trial: Trial, plural: str) -> None:
    run(trial, plural, MANY)
    print(f"\n{plural}: {trial.sent} requests, answers {dict(sorted(trial.codes.items()))}")
