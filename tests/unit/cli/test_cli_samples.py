"""Data sets, their labels and their shards; records as people read them; where Kafka is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corral.cli.errors import Trouble
from corral.cli.injecting import joined, topic_of
from corral.cli.kafka import bootstrap_of
from corral.cli.samples import SampleError, load, parts, shards
from corral.cli.views.records import describe
from corral.podtools.kafka.client import Record
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.records import labelled, raw_bytes
from corral.podtools.kafka.weights import parts_of


def test_images_are_the_same_for_a_seed_and_can_be_learned() -> None:
    one, same, other = (load("mnist", count=300, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.x, same.x)
    assert np.array_equal(one.y, same.y)
    assert not np.array_equal(one.x, other.x)
    assert one.input_config == {
        "data_type": "float32", "data_reshape": "784", "label_type": "float32",
        "label_reshape": "10",
    }  # fmt: skip
    assert len(raw_bytes(one.x[0])) == 3136
    assert len(raw_bytes(one.y[0])) == 40
    assert load("mnist", count=1).y.shape == load("digits", count=1).y.shape == (1, 10)
    # the nearest sample of another seed has the same class
    near = np.argmin(((other.x[:, None] - one.x[None]) ** 2).sum(2), axis=1)
    assert np.mean(one.y[near].argmax(1) == other.y.argmax(1)) > 0.9


def test_records_are_read_as_their_configuration_says() -> None:
    found = load("digits", count=20, reshape="8 8")
    assert found.input_config["data_reshape"] == "8 8"
    pairs = [(raw_bytes(y), raw_bytes(x)) for x, y in zip(found.x, found.y, strict=True)]
    x, y = labelled(pairs, "RAW", found.input_config)
    assert np.array_equal(x, found.x)
    assert np.array_equal(y, found.y)


def test_files(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("kind,a,b\ncat,1,2\ndog,3,4\ncat,5,6\n")
    found = load(str(table), count=0, label_column="kind")
    assert found.x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.y.argmax(1).tolist() == [0, 1, 0]
    plain = tmp_path / "p.csv"
    plain.write_text("1,2,0.5\n3,4,1.5\n")
    values = load(str(plain), count=0, labels="value")
    assert values.y.tolist() == [0.5, 1.5]
    assert values.input_config["label_reshape"] == "1"
    np.savez(tmp_path / "d.npz", x=np.ones((4, 2, 3)), y=np.arange(4))
    assert load(str(tmp_path / "d.npz"), count=3, labels="index").y.dtype == np.uint8
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    np.save(tmp_path / "y.npy", np.arange(4))
    with_labels = load(str(tmp_path / "x.npy"), count=4, label_file=tmp_path / "y.npy")
    assert with_labels.y.shape == (4, 4)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "1,2\n3\n", "line 2: 1 columns"),
        ("a.csv", "", "empty"),
        ("a.csv", "1\n2\n", "one column"),
        ("a.csv", "a,b\nx,1\n", "cannot be read"),
        ("a.csv", "1,-1\n", "not classes"),
        ("a.txt", "1", "not a .csv"),
        ("a.npy", "junk", "--label-file"),
        ("a.npz", "junk", "cannot be read"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SampleError, match=said):
        load(str(tmp_path / name), count=0)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.array([{}], dtype=object), y=np.arange(1))
    with pytest.raises(SampleError, match="cannot be read"):
        load(str(tmp_path / "d.npz"), count=0)


def test_no_file_and_too_few() -> None:
    with pytest.raises(SampleError, match="is not mnist, digits"):
        load("nowhere.csv", count=0)
    with pytest.raises(SampleError, match="has 1797 samples, but 5000"):
        load("digits", count=5000)


def test_shards_share_everything_once() -> None:
    found = shards(500, 50, parts("0.6,0.3,0.1"))
    assert [len(one.rows) for one in found] == [330, 165, 55]
    assert sorted(n for one in found for n in one.rows) == list(range(550))
    assert [one.test for one in found] == [30, 15, 5]
    assert [len(one.rows) for one in shards(10, 0, parts("3"))] == [3, 4, 3]


@pytest.mark.parametrize("train", [1, 7, 330, 500, 999, 12345])
@pytest.mark.parametrize("test", [0, 1, 50, 77])
def test_clients_train_with_exactly_the_training_samples(train: int, test: int) -> None:
    (one,) = shards(train, test, [1.0])
    assert int((1 - 0.0 - one.test_rate) * (train + test)) == train


@pytest.mark.parametrize("text", ["0", "-1", "x", "1,0", "1,nan", "", "0.5,x", "1,inf"])
def test_what_is_no_split(text: str) -> None:
    with pytest.raises(SampleError):
        parts(text)


def test_shards_without_samples_are_refused() -> None:
    with pytest.raises(SampleError, match="has no sample"):
        shards(2, 0, parts("5"))


def test_ranges_that_follow_each_other_are_one() -> None:
    found = [Range("t", 0, 0, 5), Range("t", 0, 5, 9), Range("t", 0, 10, 12)]
    assert joined(found) == [Range("t", 0, 0, 9), Range("t", 0, 10, 12)]
    assert topic_of("a-{shard}", 3) == "a-3"


def test_records_as_people_read_them() -> None:
    control = Record(4, b"FED-MODEL-a-CLIENT-b", b'{"version": 1}', (), 0.0)
    assert describe(control, partition=0) == [
        "0:4 00:00:00 key=FED-MODEL-a-CLIENT-b", "{", '  "version": 1', "}"
    ]  # fmt: skip
    (part,) = parts_of([np.zeros((3, 2), np.float32)], limit=10_000)
    weights = Record(0, part.key, bytes(part.value), part.headers, 0.0)
    assert "key=0x00 weights[0] float32 3x2" in describe(weights, partition=0)[0]
    data = describe(Record(1, b"\1" * 40, b"\0" * 3136, (), 0.0), partition=1)
    assert data == ["1:1 00:00:00 key=(40 bytes) data, 3136 bytes"]
    assert "pickled, 3 bytes" in describe(Record(0, None, b"\x80\x04.", (), 0.0), partition=0)[0]
    first, *_ = parts_of([np.zeros(300, np.float32)], limit=500)
    chunk = Record(0, first.key, bytes(first.value), first.headers, 0.0)
    assert "part 0/3 float32 300 500 bytes" in describe(chunk, partition=0)[0]


def test_where_kafka_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "KML_CLOUD_BOOTSTRAP_SERVERS", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / "c" / "kubeconfig"
    config.parent.mkdir()
    with pytest.raises(Trouble, match="address of Kafka is not known"):
        bootstrap_of("", config)
    (tmp_path / "c" / "broker.json").write_text(json.dumps({"bootstrap": "127.0.0.1:7"}))
    assert bootstrap_of("", config) == "127.0.0.1:7"
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert bootstrap_of("", None) == "127.0.0.1:7"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "k:1")
    assert bootstrap_of("", config) == "k:1"
    assert bootstrap_of("l:2", config) == "l:2"
