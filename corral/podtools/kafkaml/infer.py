"""``python -m corral.podtools.kafkaml.infer``: answers what comes on a topic with a trained model.

The model answers in a confined process of its own, which is kept (`answering`). Offsets are
committed when all answers before them are stored: after a crash some are given again, none is lost.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaException as Failure
from numpy.typing import NDArray

from corral.podtools.confine import ConfineError, NotStarted
from corral.podtools.kafka.client import Access, KafkaError, Topic, ensure
from corral.podtools.kafka.records import RecordError, decoder
from corral.podtools.models.answering import Answers

__all__ = ["InferenceSettings", "Worker", "main"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
BATCH: Final = 256
"""Messages that are answered together at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSettings:
    """What the environment says (the contract's variables)."""

    inputs: Access
    outputs: Access
    input_topic: str
    output_topic: str
    group: str
    input_format: str
    input_config: Mapping[str, Any]
    model: Path
    source: Path | None = None
    limit: float | None = None
    upper: str = ""
    seconds: float = 120.0
    """For the answers to a batch."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> InferenceSettings:
        """Raises KafkaError, ValueError, KeyError for what is missing or cannot be meant."""
        source = env.get("KAFKAML_MODEL_CODE_DIR")
        limit = env.get("LIMIT")
        return cls(
            inputs=Access.from_environment(env, "INPUT_BOOTSTRAP_SERVERS"),
            outputs=Access.from_environment(env, "OUTPUT_BOOTSTRAP_SERVERS", login="OUTPUT_KAFKA"),
            input_topic=env["INPUT_TOPIC"],
            output_topic=env["OUTPUT_TOPIC"],
            group=env["GROUP_ID"],
            input_format=env.get("INPUT_FORMAT") or "RAW",
            input_config=json.loads(env.get("INPUT_CONFIG") or "{}"),
            model=Path(env.get("FL_DIR") or "/fl") / "model",
            source=Path(source) if source else None,
            limit=float(limit) if limit else None,
            upper=env.get("OUTPUT_UPPER") or "",
            seconds=float(env.get("KAFKAML_ANSWER_SECONDS") or 120),
        )


class Worker:
    """One replica of an inference: reads, answers and commits."""

    def __init__(self, settings: InferenceSettings, stop: threading.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._decode = decoder(settings.input_format, settings.input_config, "data")
        self._model = Answers(settings.model, settings.source, seconds=settings.seconds)
        self.answered = 0

    def run(self) -> None:
        """Until it is asked to stop. Raises KafkaError, NotStarted, ConfineError."""
        try:
            self._model.start()
            self._run()
        finally:
            self._model.close()

    def _run(self) -> None:
        settings = self._settings
        ensure(settings.inputs, [Topic(settings.input_topic, 10_000_000)])
        ensure(settings.outputs, [Topic(settings.output_topic, 10_000_000)])
        consumer = Consumer(
            {
                **settings.inputs.settings(),
                "group.id": settings.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # a batch that is asked again in halves takes its time
                "max.poll.interval.ms": 3_600_000,
            }
        )
        producer = Producer({**settings.outputs.settings(), "enable.idempotence": True})
        try:
            consumer.subscribe([settings.input_topic])
            logger.info("answering what comes on %s", settings.input_topic)
            while not self._stop.is_set():
                found = consumer.consume(BATCH, timeout=0.5)
                messages = [message for message in found if message.error() is None]
                if messages:
                    self._answer(messages, producer)
                    self._commit(consumer, messages)
        except Failure as error:
            raise KafkaError(str(error.args[0])) from error
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        last: dict[tuple[str, int], int] = {}
        for message in messages:
            record: Any = message
            last[record.topic(), record.partition()] = record.offset() + 1
        places = [TopicPartition(topic, part, offset) for (topic, part), offset in last.items()]
        consumer.commit(offsets=places, asynchronous=False)

    def _answer(self, messages: Sequence[Message], producer: Producer) -> None:
        samples: list[Array] = []
        batch: list[Message] = []
        for message in messages:
            record: Any = message
            try:
                samples.append(self._sample(record.value() or b""))
                batch.append(message)
            except RecordError as error:
                logger.warning("message %d is left out: %s", record.offset(), error)
        if not batch:
            return
        answers = self._model.ask(np.stack(samples))
        failed: list[str] = []

        def stored(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        count = 0
        for message, values in zip(batch, answers, strict=True):
            if isinstance(values, str):
                place: Any = message
                logger.warning("message %d has no answer: %s", place.offset(), values)
            else:
                self._send(producer, message, values, stored)
                count += 1
        left = producer.flush(120)
        if failed or left:
            raise KafkaError(f"answers were not stored: {failed[0] if failed else 'in time'}")
        self.answered += count

    def _sample(self, data: bytes) -> Array:
        """Raises RecordError where it is none that the model takes."""
        found, shape = self._decode(data), self._model.shape
        if shape is None:
            return found
        if found.size != math.prod(shape):
            raise RecordError(f"its shape is {list(found.shape)}; the model takes {list(shape)}")
        return found.reshape(shape)

    def _send(self, producer: Producer, message: Message, values: Array, stored: Any) -> None:
        settings, record = self._settings, message
        value: Any = json.dumps({"values": values.tolist()})
        topic = settings.output_topic
        if settings.limit is not None and float(values.max()) < settings.limit:
            topic, value = settings.upper, record.value()
        headers: Any = record.headers()
        producer.produce(topic, value=value, headers=headers, on_delivery=stored)
        producer.poll(0)


def main() -> int:
    """Answer messages until SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        Worker(InferenceSettings.from_environment(os.environ), stop).run()
    except NotStarted as error:
        logger.error("the model does not answer: %s", error)
        return 1
    except (KafkaError, ConfineError, RecordError, ValueError, KeyError, OSError) as error:
        logger.error("%s: %s", type(error).__name__, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
