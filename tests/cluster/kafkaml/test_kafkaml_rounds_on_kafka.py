"""Whole deployments over a broker: clients are processes, the server is killed and goes on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cluster.kafkaml.deployments import Audience, Deployments, digits, model

SHARES = {1: [1.0], 3: [0.6, 0.3, 0.1], 8: [0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05]}


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_on_uneven_shares_learn_together(deployments: Deployments, clients: int) -> None:
    x, y = digits()
    train_x, train_y, test_x, test_y = x[:1400], y[:1400], x[1400:], y[1400:]
    bounds = np.cumsum([0, *(int(share * 1400) for share in SHARES[clients])])
    names = [f"c{n}" for n in range(clients)]
    for n, name in enumerate(names):
        low, high = bounds[n], bounds[n + 1]
        where = deployments.inject(f"data-{name}-{deployments.names.federated_id}",
                                   train_x[low:high], train_y[low:high])  # fmt: skip
        deployments.client(name, where)
    told = Audience(names)
    serving = deployments.serve(
        deployments.deployment(model(), rounds=8, at_least=clients), model(), told
    )
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert [entry["version"] for entry in rounds.history] == list(range(8))
    assert all(sorted(entry["clients"]) == names for entry in rounds.history)
    for process in deployments.processes.values():
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
    together, alone = model(), model()
    together.set_weights(told.published[0])
    alone.fit(train_x, train_y, batch_size=16, epochs=16)
    found = together.evaluate(test_x, test_y)["accuracy"]
    assert found > alone.evaluate(test_x, test_y)["accuracy"] - 0.02
