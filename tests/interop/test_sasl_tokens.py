"""OAUTHBEARER with real clients. That of librdkafka is tested with the other mechanisms."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_java import CONSUMER, JARS, PRODUCER, java
from .test_sasl import AUDIENCE, ISSUER, Issuer, SaslBroker, write

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[SaslBroker]:
    directory = tmp_path_factory.mktemp("tokens")
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.file": str(write(directory / "jwks.json", issuer.jwks())),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    broker = SaslBroker(directory, settings)
    broker.start()
    yield broker
    broker.close()


def test_kafka_python(broker: SaslBroker, issuer: Issuer) -> None:
    kafka = pytest.importorskip("kafka")
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return issuer.token()

    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.secured,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    producer.send("kafka-python", b"hello").get(20)
    producer.close()


def test_aiokafka(broker: SaslBroker, issuer: Issuer) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return issuer.token()

    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.secured,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        await producer.start()
        await producer.send_and_wait("aiokafka", b"hello")
        await producer.stop()

    asyncio.run(produce())


@pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
def test_java(broker: SaslBroker, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = write(tmp_path / "token", issuer.token(scope="all"))
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"
    )
    package = "org.apache.kafka.common.security.oauthbearer"
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={package}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    at = ["--bootstrap-server", broker.secured, "--topic", "java"]
    java(PRODUCER, *at, "--command-config", str(config), stdin="hello\n")
    end = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "60000"]
    assert java(CONSUMER, *at, "--command-config", str(config), *end) == "hello\n"
