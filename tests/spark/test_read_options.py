"""Options that cannot be meant are refused by name, with what is allowed. No session is needed here."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from tidelog.client.sasl import AuthenticationFailed, Scram
from tidelog.spark.client_settings import client_settings
from tidelog.spark.java import JavaMissing, require_java
from tidelog.spark.options import OptionError, Options
from tidelog.spark.reading.columns import check_schema, default_schema
from tidelog.spark.reading.settings import read_settings

GOOD = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}

BAD: dict[str, tuple[dict[str, str | None], str]] = {
    "no servers": ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers is missing"),
    "no port": ({"kafka.bootstrap.servers": "localhost"}, "'localhost' is not an address"),
    "no topic": ({"subscribe": None}, "exactly one of assign, subscribe, subscribePattern"),
    "two choices": ({"subscribePattern": "a.*"}, "given: subscribe and subscribePattern"),
    "no pattern": ({"subscribe": None, "subscribePattern": "(("}, "which is not a valid pattern"),
    "no list": ({"subscribe": None, "assign": '{"orders":0}'}, 'such as {"orders":[0,1]}'),
    "misspelt": ({"startingOfsets": "earliest"}, "no option 'startingofsets'; there are assign, "),
    "a word": ({"startingOffsets": "soonest"}, "startingOffsets is 'soonest'; allowed: earliest or JSON"),
    "latest": ({"startingOffsets": "latest"}, "startingOffsets is 'latest'; allowed: earliest or JSON"),
    "earliest": ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest'; allowed: latest or JSON"),
    "end by -2": ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets is"),
    "no JSON": ({"startingOffsets": '{"orders":'}, 'JSON such as {"orders":{"0":23,"1":-2}}'),
    "a text": ({"startingOffsets": '{"orders":{"0":"1"}}'}, "startingOffsets is"),
    "a flag": ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'; allowed: true, false"),
    "a number": ({"minPartitions": "0"}, "minPartitions is '0'; allowed: a whole number, 1 or more"),
    "a time": (
        {"startingTimestamp": "yesterday"},
        "startingTimestamp is 'yesterday'; allowed: a whole number",
    ),
    "isolation": ({"kafka.isolation.level": "none"}, "allowed: read_uncommitted, read_committed"),
    "protocol": ({"kafka.security.protocol": "TLS"}, "allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    "a path": ({"path": "/tmp"}, "option subscribe says which topics"),
    "for streams": ({"maxOffsetsPerTrigger": "5"}, "does not apply to a batch read"),
    "Java's store": (
        {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": "/t.jks",
            "kafka.ssl.truststore.type": "JKS",
        },
        "convert the store with keytool -importkeystore -srckeystore /t.jks",
    ),
    "no store": (
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/t.jks"},
        "kafka.ssl.truststore.location is '/t.jks', which cannot be read: No such file",
    ),
    "mechanism": (
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"},
        "allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "no id": ({"topicIds": '{"orders":"7"}'}, "topicIds: '7' is not a topic id, which has 22 characters"),
    "ids": ({"topicIds": '{"orders":7}'}, "topicIds is '{\"orders\":7}'; allowed: JSON such as"),
    "ids or not": ({"topicIds": "{}", "checkTopicIds": "false"}, "exclude each other"),
    "tasks": ({"minPartitions": "9", "maxPartitions": "5"}, "minPartitions is 9, more than maxPartitions, 5"),
    "sizes": ({"maxRecordsPerPartition": "9", "maxPartitions": "5"}, "exclude each other"),
    "nobody": ({"kafka.security.protocol": "SASL_PLAINTEXT"}, "names no user"),
}

BAD_STREAM: dict[str, tuple[dict[str, str], str]] = {
    "an end": ({"endingOffsets": "latest"}, "does not apply to a stream"),
    "a delay": ({"maxTriggerDelay": "soon"}, "allowed: a time such as 500ms, 30s, 15m or 2h"),
    "more than most": (
        {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
        "minOffsetsPerTrigger is 9, more than maxOffsetsPerTrigger, 5",
    ),
}


def with_options(changes: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in (GOOD | changes).items() if value is not None}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_option_is_named(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(OptionError) as refused:
        read_settings(with_options(changes), streaming=False)
    assert message in str(refused.value)


@pytest.mark.parametrize("case", BAD_STREAM)
def test_a_bad_option_of_a_stream_is_named(case: str) -> None:
    changes, message = BAD_STREAM[case]
    with pytest.raises(OptionError) as refused:
        read_settings(with_options(changes), streaming=True)
    assert message in str(refused.value)


def test_a_schema_chooses_columns_and_does_not_change_them() -> None:
    check_schema(default_schema({"includeHeaders": "true"}))
    with pytest.raises(OptionError, match="There is no column 'values'; there are key, value, topic"):
        check_schema(StructType().add("values", "binary"))
    with pytest.raises(OptionError, match="The column value is binary; the schema asks for string"):
        check_schema(StructType().add("value", "string"))
    with pytest.raises(OptionError, match="Option columns names 'velue'; allowed: key, value"):
        default_schema({"columns": "key,velue"})
    with pytest.raises(OptionError, match="each once"):
        default_schema({"columns": "key,key"})


def test_settings_of_the_java_client_that_mean_nothing_here_are_named_once() -> None:
    options = Options(GOOD | {"kafka.metrics.sample.window.ms": "5", "kafka.max.poll.records": "10"})
    with pytest.warns(UserWarning, match="kafka.metrics.sample.window.ms means nothing") as told:
        client_settings(options)
        client_settings(options)
    assert len(told) == 1


def test_security_settings_under_their_java_names() -> None:
    settings = client_settings(
        Options(
            {
                "kafka.bootstrap.servers": "SASL_SSL://[::1]:9093, b.example:9094",
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": 'ScramLoginModule required username="ann" password="s3";',
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": "/etc/ca.pem",
                "kafka.ssl.endpoint.identification.algorithm": "",
            }
        )
    )
    assert settings.bootstrap == (("::1", 9093), ("b.example", 9094))
    assert settings.sasl is not None and settings.tls is not None
    assert (settings.sasl.mechanism, settings.sasl.username, settings.sasl.password) == (
        "SCRAM-SHA-512",
        "ann",
        "s3",
    )
    assert "s3" not in repr(settings)
    assert (settings.tls.trusted_path, settings.tls.check_host) == ("/etc/ca.pem", False)


def test_scram_as_in_its_standard() -> None:
    """The exchange that RFC 7677 shows."""
    scram = Scram("sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert scram.last(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(AuthenticationFailed):
        scram.finish(b"v=AAAA")


def test_without_java_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="needs Java 17 or newer, and none was found: install one"):
        require_java()
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(JavaMissing, match="is Java 11: install a newer one"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is .*nowhere, where none is"):
        require_java()
