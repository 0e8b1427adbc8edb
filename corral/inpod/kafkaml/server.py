"""``python -m corral.inpod.kafkaml.server``: what the image of a deployment's server runs.

It is told by its environment which FederatedDeployment and which of its models it serves, has the
model as a file that a courier fetched, and may read and write the status of that one object.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.inpod.kafkaml.inside import read_metadata, read_weights, write_weights
from corral.inpod.kafkaml.kafka import Access, KafkaError
from corral.inpod.kafkaml.names import Names
from corral.inpod.kafkaml.objects import ObjectError, Status
from corral.inpod.kafkaml.rounds import Rounds, RoundSettings
from corral.inpod.kafkaml.serving import Deployment, Server

__all__ = ["Report", "deployment_of", "main"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
KEPT: Final = 100
"""Rounds that the status names."""
ENDED: Final = ("Completed", "Failed")


def deployment_of(
    spec: Mapping[str, Any], names: Names, model: Mapping[str, str], result: int
) -> Deployment:
    """What an object's spec and a model's file say together."""
    said = spec.get("aggregation") or {}
    arguments = json.loads(model.get("compile_args") or "{}")
    for key, name in (("optimizer", "optimizer"), ("loss", "loss"), ("metrics", "metrics")):
        if spec.get(key):
            arguments[name] = spec[key]
    if spec.get("learningRate"):
        arguments["learning_rate"] = spec["learningRate"]
    return Deployment(
        names=names,
        rounds=RoundSettings(
            rounds=said.get("rounds") or 15,
            mode=said.get("mode") or "sync",
            k=said.get("kOfN"),
            at_least=max((spec.get("clients") or {}).get("min") or 1, 1),
            open=bool((spec.get("clients") or {}).get("external")),
            enough=said.get("minUpdates") or 1,
            timeout=float(said.get("timeoutSeconds", 600)),
            on_timeout=said.get("onTimeout") or "aggregate",
        ),
        framework=model.get("framework") or "tf",
        architecture=model.get("architecture") or "",
        compile_args=arguments,
        training_settings={
            "batch": spec.get("batch") or 32,
            "kwargs_fit": spec.get("kwargsFit") or {},
            "kwargs_val": spec.get("kwargsVal") or {},
            "unsupervised": bool(spec.get("unsupervised")),
        },
        input_shape=model.get("input_shape") or "",
        output_shape=model.get("output_shape") or "",
        strategy=str(said.get("strategy") or "fedavg"),
        config=said.get("config") or {},
        data_restriction=spec.get("dataRestriction") or {},
        min_data=int(spec.get("minData") or 0),
        legacy=bool(spec.get("legacyWeights")),
        result_id=str(result),
    )


class Report:
    """Tells the object's status, and hears from it who the clients are."""

    def __init__(self, status: Status, result: int, model: Path, target: Path) -> None:
        self._status = status
        self._result = result
        self._model = model
        self._target = target
        self._told: tuple[int, str, int, str] | None = None
        self._rejected: dict[str, tuple[int, str]] = {}

    def clients(self) -> tuple[Collection[str], Collection[str]]:
        said = (self._status.get().get("status") or {}).get("clients") or []
        found = [client for client in said if client.get("result", self._result) == self._result]
        names = {client["clientId"] for client in found}
        gone = {client["clientId"] for client in found if client.get("phase") in ENDED}
        return names, gone

    def remark(self, client: str, why: str) -> None:
        count, _ = self._rejected.get(client, (0, ""))
        self._rejected[client] = (count + 1, why)

    def progress(self, rounds: Rounds) -> None:
        rejected = sum(count for count, _ in self._rejected.values())
        now = (rounds.version, rounds.ended, rejected, rounds.published)
        if now != self._told:
            self._status.change(lambda obj: self._made(obj, rounds))
            self._told = now

    def _made(self, obj: Mapping[str, Any], rounds: Rounds) -> Mapping[str, Any] | None:
        status = obj.get("status") or {}
        results = [dict(result) for result in status.get("results") or ()]
        mine = next((result for result in results if result["id"] == self._result), None)
        if mine is None:
            return None  # the controller names the results; it has not yet
        mine["version"] = rounds.version
        mine["status"] = "finished" if rounds.ended == "finished" else "deployed"
        mine["rounds"] = [_round(entry) for entry in rounds.history[-KEPT:]]
        if rounds.history:
            last = rounds.history[-1].get("metrics") or {}
            mine["trainMetrics"] = last.get("training") or {}
            mine["valMetrics"] = last.get("validation") or {}
        if rounds.ended == "failed":
            mine["status"], mine["message"] = "stopped", rounds.why
        clients = [self._client(dict(client), rounds) for client in status.get("clients") or ()]
        return {"results": results, "clients": clients, "currentRound": rounds.version}

    def _client(self, client: dict[str, Any], rounds: Rounds) -> dict[str, Any]:
        name = client["clientId"]
        if client.get("result", self._result) != self._result:
            return client
        versions = [version for who, version in rounds.counted if who == name]
        if versions:
            client["version"] = max(versions)
        if name in self._rejected:
            client["rejected"], client["message"] = self._rejected[name]
        return client

    def publish(self, weights: Sequence[Array], rounds: Rounds) -> str:
        """Leave the model for the courier, which pushes it when this process has ended."""
        write_weights(self._target / "update", weights, read_metadata(self._model))
        made = self._target / "result.json.part"
        last = rounds.history[-1] if rounds.history else {}
        said = {
            "format": "safetensors",
            "rounds": len(rounds.history),
            "num_samples": int(last.get("samples") or 0),
            "metrics": last.get("metrics") or {},
        }
        made.write_text(json.dumps(said))
        made.rename(self._target / "result.json")
        return ""


def _round(entry: Mapping[str, Any]) -> dict[str, Any]:
    out = {
        "version": entry["version"],
        "updates": len(entry["clients"]),
        "clients": entry["clients"],
        "samples": entry.get("samples") or 0,
        "metrics": entry.get("metrics") or {},
        "digest": entry.get("digest") or "",
    }
    if entry.get("at"):
        out["finished"] = datetime.fromtimestamp(entry["at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return out


def _serve(env: Mapping[str, str]) -> Rounds:
    namespace, name = env["KAFKAML_NAMESPACE"], env["KAFKAML_DEPLOYMENT"]
    path = f"/apis/kafkaml.corral.dev/v1alpha1/namespaces/{namespace}/federateddeployments/{name}"
    status = Status.in_pod(env, path)
    target = Path(env.get("FL_DIR") or "/fl")
    result = int(env.get("RESULT_ID") or 1)
    model = target / "model"
    names = Names.of(env["FEDERATED_STRING_ID"], env.get("KAFKAML_TOPICS", ""))
    deployment = deployment_of(status.get()["spec"], names, read_metadata(model), result)
    access = Access.from_environment(env, "BOOTSTRAP_SERVERS")
    first = [np.asarray(array) for array in read_weights(model)]
    report = Report(status, result, model, target)
    return Server(access, deployment, first, report).run()


def main() -> int:
    """Serve until the deployment has ended."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    began = time.monotonic()
    try:
        rounds = _serve(os.environ)
    except (KafkaError, ObjectError, ValueError, KeyError, OSError) as error:
        logger.error("%s: %s", type(error).__name__, error)
        return 1
    logger.info("%s after %.0f s %s", rounds.ended, time.monotonic() - began, rounds.why)
    return 0


if __name__ == "__main__":
    sys.exit(main())
