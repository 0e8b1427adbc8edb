from __future__ import annotations

import stat
from pathlib import Path

import pytest

from corral.cluster.apiserver.server import ApiServer, Config
from corral.cluster.up.credentials import Credentials
from corral.cluster.up.folder import DataFolder
from corral.kube import KubeClient, errors
from corral.kube.connection.kubeconfig import load_kubeconfig
from corral.kube.resources import NAMESPACES, NODES


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path)
    (tmp_path / "credentials").mkdir(mode=0o700)
    return folder


def made(folder: DataFolder) -> Credentials:
    return Credentials(folder, ["corral-1"], {"operator": "corral:operator"})


def test_tokens_are_kept_and_nobody_elses(folder: DataFolder) -> None:
    first, second = made(folder).tokens(), made(folder).tokens()
    assert first == second
    assert len(first) == 4
    assert stat.S_IMODE(folder.tokens.stat().st_mode) == 0o600


def test_a_new_part_has_a_token_and_the_others_keep_theirs(folder: DataFolder) -> None:
    before = {user.name: token for token, user in made(folder).tokens().items()}
    more = Credentials(folder, ["corral-1", "corral-2"], {"operator": "corral:operator"})
    after = {user.name: token for token, user in more.tokens().items()}
    assert before.items() < after.items()


def test_a_path_too_long_for_a_socket_means_the_address(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / ("x" * 120))
    (folder.path / "credentials").mkdir(parents=True)
    credentials = made(folder)
    assert credentials.socket is None
    credentials.write("https://127.0.0.1:1", b"ca")
    config = load_kubeconfig([folder.credentials("scheduler")]).resolve()
    assert config.socket == ""


async def test_parts_are_known_by_the_socket_and_by_the_address(folder: DataFolder) -> None:
    credentials = made(folder)
    config = Config(data_dir=folder.path, socket=credentials.socket, users=credentials.tokens())
    server = ApiServer(config)
    await server.start()
    try:
        credentials.write(f"https://127.0.0.1:{server.port}", server.pki.ca.cert)
        found = load_kubeconfig([folder.credentials("operator")]).resolve()
        assert found.socket == str(folder.socket)
        node = load_kubeconfig([folder.credentials("corral-1")]).resolve()
        async with KubeClient(found) as operator, KubeClient(node) as agent:
            with pytest.raises(errors.Forbidden, match="corral:operator"):
                await operator.get(NAMESPACES, "default")
            await agent.create(NODES, {"metadata": {"name": "corral-1"}})
            assert (await agent.get(NODES, "corral-1"))["metadata"]["name"] == "corral-1"
        folder.socket.unlink()
        by_address = load_kubeconfig([folder.credentials("corral-1")]).resolve()
        assert by_address.socket == ""
        async with KubeClient(by_address) as agent:
            assert (await agent.get(NODES, "corral-1"))["metadata"]["name"] == "corral-1"
    finally:
        await server.stop()
