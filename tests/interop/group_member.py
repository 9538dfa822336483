"""A consumer as a process of its own: one member of a group, to be killed, frozen and stopped by tests.

    python -m interop.group_member CLIENT '{"bootstrap": …, "group": …, "topic": …, "instance": …}'

Writes what happens to it as JSON, one line each: ``assigned`` and ``revoked`` partitions, and every
``record`` after its offset is committed. Ends by itself, leaving the group, when it gets SIGTERM.
"""

import asyncio
import json
import signal
import sys
from typing import Any

SESSION_MS = 3_000
HEARTBEAT_MS = 300

stopping = False


def say(event: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def stop(*_: object) -> None:
    global stopping
    stopping = True


def confluent(options: dict[str, Any]) -> None:
    import confluent_kafka

    settings: dict[str, Any] = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if options.get("protocol") == "consumer":
        settings["group.protocol"] = "consumer"  # The broker says when its sessions end.
        settings["group.remote.assignor"] = options.get("strategy", "uniform")
    else:
        settings["session.timeout.ms"] = options.get("session_ms", SESSION_MS)
        settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        settings["partition.assignment.strategy"] = options.get("strategy", "range")
    if options.get("instance"):
        settings["group.instance.id"] = options["instance"]
    consumer = confluent_kafka.Consumer(settings)

    def report(event: str) -> Any:
        def told(_: Any, partitions: list[Any]) -> None:
            say(event, partitions=sorted(place.partition for place in partitions))

        return told

    consumer.subscribe(
        [options["topic"]],
        on_assign=report("assigned"),
        on_revoke=report("revoked"),
        on_lost=report("revoked"),
    )
    try:
        while not stopping:
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            try:
                consumer.commit(message=message, asynchronous=False)
            except confluent_kafka.KafkaException as refusal:
                say("refused", error=refusal.args[0].name())
                continue
            say("record", partition=message.partition(), offset=message.offset())
    finally:
        if not options.get("stays"):
            consumer.close()


def kafka_python(options: dict[str, Any]) -> None:
    from kafka.errors import KafkaError

    import kafka

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", partitions=sorted(place.partition for place in assigned))

        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", partitions=sorted(place.partition for place in revoked))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options.get("instance"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.get("session_ms", SESSION_MS),
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([options["topic"]], listener=Listener())
    while not stopping:
        for records in consumer.poll(timeout_ms=100).values():
            try:
                consumer.commit()
            except KafkaError as refusal:
                say("refused", error=type(refusal).__name__)
                continue
            for record in records:
                say("record", partition=record.partition, offset=record.offset)
    if not options.get("stays"):
        consumer.close()


def aio_kafka(options: dict[str, Any]) -> None:
    import aiokafka
    from aiokafka.errors import KafkaError

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", partitions=sorted(place.partition for place in assigned))

        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", partitions=sorted(place.partition for place in revoked))

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            group_id=options["group"],
            group_instance_id=options.get("instance"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options.get("session_ms", SESSION_MS),
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        consumer.subscribe([options["topic"]], listener=Listener())
        await consumer.start()
        while not stopping:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                try:
                    await consumer.commit()
                except KafkaError as refusal:
                    say("refused", error=type(refusal).__name__)
                    continue
                for record in records:
                    say("record", partition=record.partition, offset=record.offset)
        if not options.get("stays"):
            await consumer.stop()

    asyncio.run(run())


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aio_kafka}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    say("started")
    CLIENTS[sys.argv[1]](json.loads(sys.argv[2]))
    say("ended")
