"""``python -m corral.podtools.kafkaml.server``: what the image of a deployment's server runs.

It has no rights in the cluster. A folder says what is to be trained and who takes part (it changes
as clients come and go), the model is a file that the uploader fetched, and what it has to say it
leaves where the uploader finds it.
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

from corral.learning import strategy
from corral.learning.weights import bounded
from corral.podtools.kafka.client import Access, KafkaError
from corral.podtools.kafka.names import Names
from corral.podtools.kafkaml.memory import give_back
from corral.podtools.kafkaml.rounds import Rounds, RoundSettings
from corral.podtools.kafkaml.serving import Deployment, Server, merged
from corral.podtools.kafkaml.strategies import strategy_name
from corral.podtools.models.confusion import summed
from corral.podtools.models.inside import read_metadata, read_weights, write_weights

__all__ = ["DeploymentFolder", "Report", "deployment_of", "fitting", "judged", "main"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
KEPT: Final = 100
"""Rounds that the status names."""
NAMED: Final = 50
"""Clients that are named for each of them."""
PROGRESS: Final = 150_000
"""Bytes of a report: the uploader takes no more than 200 KiB."""
ENDED: Final = ("Completed", "Failed")
STRANGERS: Final = 1000
"""Names whose messages did not count that are remembered, whoever they are."""
REASON: Final = 500
"""Characters of why one did not."""


def deployment_of(
    spec: Mapping[str, Any], names: Names, model: Mapping[str, str], result: int
) -> Deployment:
    """What an object's spec and a model's file say together. Raises InvalidConfig."""
    fields = spec.get("aggregation") or {}
    rule = strategy(strategy_name(str(fields.get("strategy") or "")), fields.get("config") or {})
    arguments = json.loads(model.get("compile_args") or "{}")
    for key, name in (("optimizer", "optimizer"), ("loss", "loss"), ("metrics", "metrics")):
        if spec.get(key):
            arguments[name] = spec[key]
    if spec.get("learningRate"):
        arguments["learning_rate"] = spec["learningRate"]
    return Deployment(
        names=names,
        rounds=RoundSettings(
            rounds=fields.get("rounds") or 15,
            mode=fields.get("mode") or "sync",
            k=fields.get("kOfN"),
            at_least=max((spec.get("clients") or {}).get("min") or 1, 1),
            open=bool((spec.get("clients") or {}).get("external")),
            enough=fields.get("minUpdates") or 1,
            timeout=float(fields.get("timeoutSeconds", 600)),
            on_timeout=fields.get("onTimeout") or "aggregate",
            streams=bool(spec.get("incremental")),
        ),
        framework=model.get("framework") or "tf",
        architecture=model.get("architecture") or "",
        compile_args=arguments,
        training_settings=_training(spec, rule.client_config()),
        incremental=bool(spec.get("incremental")),
        input_shape=model.get("input_shape") or "",
        output_shape=model.get("output_shape") or "",
        strategy=str(fields.get("strategy") or "fedavg"),
        config=fields.get("config") or {},
        data_restriction=spec.get("dataRestriction") or {},
        min_data=int(spec.get("minData") or 0),
        legacy=bool(spec.get("legacyWeights")),
        result_id=str(result),
    )


def _training(spec: Mapping[str, Any], rule: Mapping[str, float]) -> dict[str, Any]:
    """What clients are told of their part; ``rule`` is what the strategy wants them to know."""
    out = {
        "batch": spec.get("batch") or 32,
        "kwargs_fit": {**rule, **(spec.get("kwargsFit") or {})},
        "kwargs_val": spec.get("kwargsVal") or {},
        "unsupervised": bool(spec.get("unsupervised")),
    }
    if spec.get("unsupervised"):
        out["unsupervised_rounds"] = spec.get("unsupervisedRounds") or 5
        out["confidence"] = spec.get("confidence") or 0.9
    if spec.get("incremental"):
        out["stream_timeout"] = spec.get("streamTimeout", 60_000)
    return out


class DeploymentFolder:
    """What the controller says: the deployment's spec, and its clients."""

    def __init__(self, folder: Path, result: int) -> None:
        self._folder = folder
        self._result = result

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / "spec.json").read_text())
        return found

    def clients(self) -> tuple[Collection[str], Collection[str]]:
        """Those that take part, and those of them that have ended."""
        fields = json.loads((self._folder / "clients.json").read_text())
        mine = [client for client in fields if client.get("result", self._result) == self._result]
        names = {client["clientId"] for client in mine}
        return names, {c["clientId"] for c in mine if c.get("phase") in ENDED}


class Report:
    """Leaves what there is to tell where the uploader finds it."""

    def __init__(
        self, deployment_folder: DeploymentFolder, result: int, model: Path, target: Path
    ) -> None:
        self._deployment = deployment_folder
        self._result = result
        self._model = model
        self._target = target
        self._reported: tuple[int, str, int, str, int] | None = None
        self._rejected: dict[str, tuple[int, str]] = {}

    def clients(self) -> tuple[Collection[str], Collection[str]]:
        return self._deployment.clients()

    def remark(self, client: str, why: str) -> None:
        if client not in self._rejected and len(self._rejected) >= STRANGERS:
            # anybody can write names into a topic: only those that take part are remembered
            if client not in self.clients()[0]:
                return
        count, _ = self._rejected.get(client, (0, ""))
        self._rejected[client] = (count + 1, why[:REASON])

    def progress(self, rounds: Rounds) -> None:
        rejected = sum(count for count, _ in self._rejected.values())
        now = (rounds.version, rounds.ended, rejected, rounds.published, len(rounds.tests))
        if now != self._reported:
            self._leave("progress.json", fitting(self._made(rounds), PROGRESS))
            self._reported = now

    def _made(self, rounds: Rounds) -> dict[str, Any]:
        last = (rounds.history[-1].get("metrics") if rounds.history else None) or {}
        status = {"finished": "finished", "failed": "stopped"}.get(rounds.ended, "deployed")
        result: dict[str, Any] = {
            "id": self._result,
            "version": rounds.version,
            "status": status,
            "rounds": [_round(entry) for entry in rounds.history[-KEPT:]],
            "trainMetrics": last.get("training") or {},
            "valMetrics": last.get("validation") or {},
        }
        if rounds.history:
            spent = float(rounds.history[-1].get("at") or 0.0) - rounds.started
            result["trainingSeconds"] = round(max(spent, 0.0), 3)
        if rounds.tests:
            result["testMetrics"] = judged(list(rounds.tests.values()))
        if rounds.why:
            result["message"] = rounds.why
        versions: dict[str, int] = {}
        for name, version in rounds.counted:
            versions[name] = max(version, versions.get(name, version))
        clients: dict[str, dict[str, Any]] = {}
        for name, version in versions.items():
            clients[name] = {
                "version": version,
                "trainingSeconds": round(rounds.trained.get(name, 0.0), 3),
                "metrics": merged([rounds.newest[name]]) if name in rounds.newest else {},
            }
        known = self.clients()[0]
        for name, (count, why) in self._rejected.items():
            if name not in known and name not in clients:
                continue  # the status has no place for it
            clients.setdefault(name, {}).update({"rejected": count, "message": why})
        return {"result": result, "clients": clients}

    def _leave(self, name: str, fields: Mapping[str, Any]) -> None:
        made = self._target / f"{name}.part"
        made.write_text(json.dumps(fields))
        made.rename(self._target / name)

    def publish(self, weights: Sequence[Array], rounds: Rounds) -> str:
        """Leave the model for the uploader, which pushes it when this process has ended."""
        write_weights(self._target / "update", weights, read_metadata(self._model))
        last = rounds.history[-1] if rounds.history else {}
        fields = {
            "format": "safetensors",
            "rounds": len(rounds.history),
            "num_samples": int(last.get("samples") or 0),
            "metrics": last.get("metrics") or {},
        }
        self._leave("result.json", fields)
        return ""


def judged(tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What clients found together: metrics weighted by their samples, and one matrix."""
    # nobody's word about its own samples takes the whole figure
    counts = bounded([int(test["samples"]) for test in tests])
    rows = [
        {"metrics": {"training": test["metrics"]}, "num_data": count}
        for test, count in zip(tests, counts, strict=True)
    ]
    found = merged(rows)["training"]
    found.pop("confusion_matrix", None)  # a metric of that name is none
    out: dict[str, Any] = {**found, "samples": sum(counts)}
    matrix = summed([test.get("matrix") for test in tests])
    return {**out, "confusion_matrix": matrix} if matrix else out


def fitting(fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """As much of a report as fits.

    First metrics of clients are left out, then old rounds, then why updates did not count, and at
    last clients.
    """
    if len(json.dumps(fields)) <= limit:
        return fields
    for client in fields["clients"].values():
        client.pop("metrics", None)
    rounds = fields["result"]["rounds"]
    while rounds and len(json.dumps(fields)) > limit:
        del rounds[: max(len(rounds) // 4, 1)]
    if len(json.dumps(fields)) > limit:
        for client in fields["clients"].values():
            client.pop("message", None)
    while fields["clients"] and len(json.dumps(fields)) > limit:
        kept = list(fields["clients"].items())
        fields["clients"] = dict(kept[: len(kept) // 2])
    return fields


def _round(entry: Mapping[str, Any]) -> dict[str, Any]:
    out = {
        "version": entry["version"],
        "updates": len(entry["clients"]),
        "clients": entry["clients"][:NAMED],
        "samples": entry.get("samples") or 0,
        "metrics": entry.get("metrics") or {},
        "digest": entry.get("digest") or "",
    }
    for name, key in (("started", "began"), ("finished", "at")):
        if entry.get(key):
            out[name] = datetime.fromtimestamp(entry[key], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return out


def _serve(env: Mapping[str, str]) -> Rounds:
    target = Path(env.get("FL_DIR") or "/fl")
    result = int(env.get("RESULT_ID") or 1)
    deployment_folder = DeploymentFolder(
        Path(env.get("KAFKAML_DEPLOYMENT_DIR") or "/kafkaml/deployment"), result
    )
    model = target / "model"
    names = Names.of(env["FEDERATED_STRING_ID"], env.get("KAFKAML_TOPICS", ""))
    deployment = deployment_of(deployment_folder.spec(), names, read_metadata(model), result)
    access = Access.from_environment(env, "BOOTSTRAP_SERVERS")
    first = [np.asarray(array) for array in read_weights(model)]
    server = Server(access, deployment, first, Report(deployment_folder, result, model, target))
    del first  # the server lets go of them when it can
    return server.run()


def main() -> int:
    """Serve until the deployment has ended."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    give_back()
    began = time.monotonic()
    try:
        rounds = _serve(os.environ)
    except (KafkaError, ValueError, KeyError, OSError) as error:
        logger.error("%s: %s", type(error).__name__, error)
        return 1
    logger.info("%s after %.0f s %s", rounds.ended, time.monotonic() - began, rounds.why)
    return 0


if __name__ == "__main__":
    sys.exit(main())
