"""Hosts files, addresses and the numbers behind them, and the names of plain Python programs."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from corral.cluster.node.isolation import INPOD
from corral.cluster.node.network import NetworkError, NoAddress
from corral.cluster.node.network.addresses import AddressPool, LoopbackGuard, NodeAddresses
from corral.cluster.node.network.grounds import LoopbackGround
from corral.cluster.node.network.holding import Keeper
from corral.cluster.node.network.names.hosts import HostsFile, NamesBlock, header, line_of
from corral.cluster.node.network.names.updates import NamesWriter
from corral.cluster.node.network.services.directory import Record
from corral.cluster.node.network.slots import Slots, locked

OWN = header("10.88.0.2", "me")


def record(number: int, namespace: str = "ns") -> Record:
    return Record(namespace, f"s{number}", f"10.1.{number // 250}.{number % 250 + 1}")


# -- hosts files -----------------------------------------------------------------------------------


def test_header() -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["x", "y"]}]
    text = header("127.0.0.9", "p", domain="s.ns.svc.cluster.local", aliases=aliases)
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert "127.0.0.9\tp.s.ns.svc.cluster.local\tp\n" in text
    assert text.endswith("# Entries added by HostAliases.\n1.2.3.4\tx\ty\n")
    assert header("1.1.1.1", "n", base="127.0.0.1 localhost\n").splitlines()[1:] == [
        "127.0.0.1 localhost", "1.1.1.1\tn",
    ]  # fmt: skip


def test_short_names_only_at_home() -> None:
    entry = Record("ns", "web", "10.1.0.1")
    assert line_of(entry, namespace="ns", domain="d").split() == [
        b"10.1.0.1", b"web.ns.svc.d", b"web.ns.svc", b"web.ns", b"web",
    ]  # fmt: skip
    assert b" web\n" not in line_of(entry, namespace="other", domain="d")


def test_domains_that_are_searched_may_be_left_out() -> None:
    entry, searches = Record("ns", "w-0.job", "10.1.0.1"), ["job.ns.svc.d", "other.ns.svc.d"]
    at_home = line_of(entry, namespace="ns", domain="d", searches=searches)
    assert at_home.split()[-2:] == [b"w-0.job", b"w-0"]
    abroad = line_of(entry, namespace="other", domain="d", searches=[*searches, "svc.d"])
    assert abroad.split()[-2:] == [b"w-0.job.ns", b"w-0"]
    assert abroad.count(b"w-0.job.ns ") == 1


def test_pods_that_search_other_domains(tmp_path: Path) -> None:
    """Files of one namespace differ where their pods search different domains."""
    known = {Record("ns", "w-0.job", "10.1.0.1")}
    writer = NamesWriter(lambda: frozenset(known), domain="d")
    searching = HostsFile(tmp_path / "a", OWN, searches=["job.ns.svc.d"])
    writer.add("ns", "a", searching)
    writer.add("ns", "b", HostsFile(tmp_path / "b", OWN))
    assert (tmp_path / "a").read_text().endswith(" w-0.job w-0\n")
    assert (tmp_path / "b").read_text().endswith(" w-0.job\n")
    writer.remove("ns", "a")
    writer.remove("ns", "b")
    assert not writer._files and not writer._blocks


def test_lines_never_move(tmp_path: Path) -> None:
    """Any changes in any order: the file says the same as the block, and lines stay in place."""
    rng = random.Random(7)
    block, file = NamesBlock("ns", "d", []), HostsFile(tmp_path / "hosts", OWN)
    file.write(block)
    present: set[Record] = set()
    for _ in range(300):
        gone = set(rng.sample(sorted(present), min(len(present), rng.randrange(4))))
        new = {record(rng.randrange(400)) for _ in range(rng.randrange(4))} - present
        places = dict(block._lines)
        edits = block.change(gone, new)
        file.edit(edits)
        present = (present - gone) | new
        content = (tmp_path / "hosts").read_bytes()
        assert content == OWN.encode() + block.content
        lines = {line for line in content.splitlines(keepends=True) if line.startswith(b"10.1.")}
        assert lines == {line_of(entry, namespace="ns", domain="d") for entry in present}
        if not (edits and edits[0].place == 0 and len(edits[0].data) == edits[0].size):
            assert all(block._lines.get(line, place) == place for line, place in places.items())
    assert len(block.content) < 40_000
    inode = (tmp_path / "hosts").stat().st_ino
    file.write(block)
    assert (tmp_path / "hosts").stat().st_ino == inode


async def test_writer(tmp_path: Path) -> None:
    known = {record(1)}
    writer = NamesWriter(lambda: frozenset(known), domain="d")
    early = HostsFile(tmp_path / "early", OWN)
    (tmp_path / "early").write_text(OWN + "10.9.9.9\tleft-by-the-last-agent\n")
    writer.adopt("ns", "early", early)
    assert "left-by" in (tmp_path / "early").read_text()
    writer.begin()
    writer.begin()
    assert (tmp_path / "early").read_text() == OWN + line(record(1))
    running = asyncio.create_task(writer.run())
    for number in range(2, 60):
        known.add(record(number))
        writer.change(frozenset(), frozenset({record(number)}))
        if number == 30:
            writer.add("ns", "late", HostsFile(tmp_path / "late", OWN))
            names = [f"s{number}.ns" for number in range(60)]
            writer.add("other", "far", HostsFile(tmp_path / "far", OWN, named=names))
    writer.change(frozenset({record(2)}), frozenset())
    writer.change(frozenset({record(3)}), frozenset())
    writer.change(frozenset(), frozenset({record(3)}))
    known.discard(record(2))
    wanted = {line(entry) for entry in known}

    def lines(name: str) -> set[str]:
        text = (tmp_path / name).read_text().removeprefix(OWN)
        return {each for each in text.splitlines(keepends=True) if not each.startswith("#")}

    async with asyncio.timeout(20):
        while lines("early") != wanted or lines("late") != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert all(not each.endswith(" s5\n") for each in lines("far")) and len(lines("far")) == 58
    writer.remove("ns", "early")
    os.unlink(tmp_path / "late")  # as if its pod had just gone
    writer.change(frozenset({record(9)}), frozenset())
    async with asyncio.timeout(20):
        while len(lines("far")) != 57:  # noqa: ASYNC110
            await asyncio.sleep(0)
    running.cancel()


def line(entry: Record) -> str:
    return line_of(entry, namespace="ns", domain="d").decode()


# -- addresses -------------------------------------------------------------------------------------


def test_pool() -> None:
    pool = AddressPool()
    pool.add(IPv4Network("127.9.0.0/29"))
    pool.restore("old", "127.9.0.3")
    assert [pool.assign(name) for name in ("a", "b", "a")] == [
        "127.9.0.2",
        "127.9.0.4",
        "127.9.0.2",
    ]
    pool.release("a")
    assert [pool.assign(name) for name in ("c", "d")] == ["127.9.0.5", "127.9.0.6"]
    assert pool.assign("e") == "127.9.0.2"
    with pytest.raises(NoAddress):
        pool.assign("f")
    pool.restore("twin", "127.9.0.3")
    pool.release("old")
    with pytest.raises(NoAddress):
        pool.assign("f")
    pool.release("twin")
    assert pool.assign("f") == "127.9.0.3"


def test_blocks(tmp_path: Path) -> None:
    """Agents have different ones, keep theirs over restarts, and take more when they must."""
    shared = tmp_path / "machine" / "c"

    def agent(name: str) -> tuple[Slots, NodeAddresses]:
        slots = Slots(shared, tmp_path / name / "blocks.json")
        addresses = NodeAddresses(IPv4Network("10.88.0.0/16"), slots)
        addresses.open()
        return slots, addresses

    (one, first), (two, second) = agent("one"), agent("two")
    assert (one.numbers, two.numbers) == ([0], [1])
    for n in range(300):
        first.assign(str(n))
    assert one.numbers == [0, 2] and first.assign("299").startswith("10.88.2.")
    first.close(forget=False)
    (three, third) = agent("three")
    assert three.numbers == [3]
    one, first = agent("one")
    assert one.numbers == [0, 2]
    first.close(forget=True)
    # a folder that was removed has given its numbers back
    second.close(forget=False)
    (tmp_path / "two" / "blocks.json").unlink()
    (four, fourth) = agent("four")
    assert four.numbers == [0]
    assert four.claim() == 1
    for addresses in (third, fourth):
        addresses.close(forget=True)
    assert not (tmp_path / "machine").exists()


def test_all_blocks_taken(tmp_path: Path) -> None:
    slots = Slots(
        tmp_path / "m" / "c",
        tmp_path / "own",
        order=lambda free: [number for number in free if number == 3],
    )
    assert slots.claim() == 3
    with pytest.raises(NoAddress):
        slots.claim()
    slots.release(forget=True)


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "m").mkdir()
    os.chown(tmp_path / "m", 65534, 65534)
    with pytest.raises(NetworkError, match="of user nobody"), locked(tmp_path / "m" / "c"):
        pass


def test_loopback_blocks_between_users(tmp_path: Path) -> None:
    """Two guards share no folder, as the agents of two users."""
    one, two = (LoopbackGuard(prefix=f"test-{os.getpid()}", tables=str(tmp_path)) for _ in "ab")
    assert next(one.order([5, 6])) == 5 and next(two.order([5, 6])) == 6
    one.close()
    assert next(two.order([5])) == 5
    two.close()
    with socket.create_server(("127.88.207.9", 0)):
        guard = LoopbackGuard(prefix=f"test-{os.getpid()}")
        assert next(guard.order([207, 208])) == 208
        assert list(guard.order([207])) == [207]
        guard.close()


def test_service_addresses_on_the_loopback(tmp_path: Path) -> None:
    ground = LoopbackGround(3, tmp_path / "moved")
    assert ground.shown("10.96.0.1") == "127.129.128.1"
    assert ground.shown("10.96.128.1") == "127.129.128.2"
    assert ground.shown("10.96.0.2") == "127.129.128.3"
    again = LoopbackGround(3, tmp_path / "moved")
    assert again.shown("10.96.128.1") == "127.129.128.2"
    assert LoopbackGround(4, tmp_path / "none").shown("10.96.0.1") == "127.130.0.1"


# -- the keeper ------------------------------------------------------------------------------------


def test_keeper(tmp_path: Path) -> None:
    """Holds descriptors of any kind for as long as it is wanted."""
    keeper = Keeper(tmp_path / "k")
    assert keeper.open() is False
    (tmp_path / "file").write_text("kept")
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    path = keeper.hold("a", fd)
    os.close(fd)
    (tmp_path / "file").unlink()
    assert Path(path).read_text() == "kept"
    keeper.close()
    again = Keeper(tmp_path / "k")
    assert again.open() is True and again.find("a") == path and again.names() == ["a"]
    again.drop(["a"])
    assert again.find("a") == "" and again.names() == []
    pid = again.pid
    again.end()
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_text()
    with pytest.raises(NetworkError):
        again.find("a")


def test_keeper_that_was_killed(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "k")
    keeper.open()
    os.kill(keeper.pid, signal.SIGKILL)
    with pytest.raises(NetworkError):
        keeper.find("a")
    keeper.end()
    other = Keeper(tmp_path / "k")
    assert other.open() is False
    other.end()


def test_keeper_that_is_about_to_be_gone(tmp_path: Path) -> None:
    """It can still be connected to, and answers nobody."""
    folder = tmp_path / "k"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dying:
        dying.bind(str(folder / "keeper"))
        dying.listen(1)
        closing = threading.Thread(target=lambda: dying.accept()[0].close())
        closing.start()
        keeper = Keeper(folder)
        assert keeper.open() is False
        closing.join()
    assert keeper.find("a") == ""
    keeper.end()


# -- plain Python programs -------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs code with names of our own; gives the lines that it prints."""
    (tmp_path / "hosts").write_text(
        "127.0.0.1\tlocalhost\n127.88.0.5\tme.sub me\n10.0.0.9\tweb.ns.svc web\n10.0.0.10\tweb\n"
    )

    def run(code: str, *folders: str) -> list[str]:
        env = {
            "CORRAL_HOSTS_FILE": str(tmp_path / "hosts"), "CORRAL_HOSTNAME": "me",
            "PYTHONPATH": os.pathsep.join([INPOD, *folders]), "PATH": os.environ["PATH"],
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


def test_names_of_plain_programs(plain: Callable[..., list[str]]) -> None:
    code = (
        "import socket\n"
        "print(socket.gethostname(), socket.gethostbyname('ME.'), socket.getfqdn())\n"
        "print(sorted({a[4] for a in socket.getaddrinfo('web', 80)}))\n"
        "print(socket.gethostbyname_ex('web'), socket.gethostbyaddr('10.0.0.9')[0])\n"
        "print(socket.getaddrinfo('127.0.0.1', 1)[0][4], socket.gethostbyname('localhost'))\n"
        "s = socket.socket(); s.bind(('me', 0)); print(s.getsockname()[0])\n"
        "s.listen(); c = socket.socket(); c.connect(('me.sub', s.getsockname()[1]))\n"
        "print('joined')"
    )
    assert plain(code) == [
        "me 127.88.0.5 me.sub",
        "[('10.0.0.10', 80), ('10.0.0.9', 80)]",
        "('web', [], ['10.0.0.9', '10.0.0.10']) web.ns.svc",
        "('127.0.0.1', 1) 127.0.0.1",
        "127.88.0.5",
        "joined",
    ]


def test_plain_programs_see_changes(plain: Callable[..., list[str]]) -> None:
    code = (
        "import os, socket\npath = os.environ['CORRAL_HOSTS_FILE']\n"
        "for n in range(50):\n"
        "    open(path, 'w').write(f'10.0.1.{n + 10} it\\n')\n"
        "    assert socket.gethostbyname('it') == f'10.0.1.{n + 10}'\n"
        "os.unlink(path)\n"
        "try: socket.gethostbyname('it')\nexcept OSError: print('gone')"
    )
    assert plain(code) == ["gone"]


def test_plain_programs_have_their_own_customisation(
    plain: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("print('mine')")
    code = "import sys; print('socket' in sys.modules, sys.modules['sitecustomize'].__file__)"
    path = tmp_path / "mine" / "sitecustomize.py"
    assert plain(code, str(tmp_path / "mine")) == ["mine", f"False {path}"]
