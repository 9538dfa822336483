"""--config client.properties: whose file counts, what it means, and what is never shown."""

from pathlib import Path

import pytest

from tidelog.cli import client_config as config
from tidelog.cli import main
from tidelog.cli.app import command_line
from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.run import source_options
from tidelog.cli.profile import store
from tidelog.cli.reach import addresses_of
from tidelog.client.settings import SaslSettings
from tidelog.lab.local.certificates import Authority

SECRET = "hunter2-never-shown"
SCRAM = f"""
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="alice" password="{SECRET}";
acks=all
"""


@pytest.fixture(autouse=True)
def nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(store.VARIABLE, raising=False)
    monkeypatch.delenv(config.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "_chosen", None)
    monkeypatch.setattr(config, "_named", None)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_every_command_with_bootstrap_has_it() -> None:
    without = []

    def look(command: object, words: str) -> None:
        names = [option.name for option in command.params]  # type: ignore[attr-defined]
        if "bootstrap" in names and "config" not in names:
            without.append(words)
        for name, one in getattr(command, "commands", {}).items():
            look(one, f"{words} {name}")

    look(command_line(), "tidelog")
    assert not without
    assert "config" not in [option.name for option in command_line().params]


@pytest.mark.parametrize(
    "text",
    [
        SCRAM,
        # librdkafka's names
        f"security.protocol=sasl_plaintext\nsasl.mechanisms=SCRAM-SHA-256\nsasl.username=alice\n"
        f"sasl.password={SECRET}\n",
    ],
)
def test_both_spellings_of_a_login(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    config.choose(written(tmp_path / "c.properties", text))
    found = config.client_config("far:1")
    assert found.security.sasl == SaslSettings("SCRAM-SHA-256", "alice", SECRET)
    assert found.librdkafka == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": SECRET,
    }
    assert SECRET not in repr(found)
    assert capsys.readouterr().err == ""


JAVA = """security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={ca}
ssl.keystore.type=PEM
ssl.keystore.location={pem}
"""
LIBRDKAFKA = """security.protocol=ssl
ssl.ca.location={ca}
ssl.certificate.location={crt}
ssl.key.location={key}
ssl.endpoint.identification.algorithm=none
"""


@pytest.mark.parametrize(("text", "checks"), [(JAVA, True), (LIBRDKAFKA, False)])
def test_both_spellings_of_certificates(tmp_path: Path, text: str, checks: bool) -> None:
    authority = Authority(tmp_path / "tls")
    issued = authority.issue("alice")
    names = {
        "ca": authority.certificate_path,
        "pem": issued.pem,
        "crt": issued.certificate,
        "key": issued.key,
    }
    config.choose(written(tmp_path / "c.properties", text.format(**names)))
    found = config.client_config()
    tls = found.security.tls
    assert tls is not None
    assert tls.trusted_path == str(authority.certificate_path)
    assert tls.check_host == checks
    assert found.librdkafka["ssl.endpoint.identification.algorithm"] == ("https" if checks else "none")
    assert found.librdkafka["security.protocol"] == "SSL"


def test_keys_in_the_file_are_not_in_its_repr(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    issued = authority.issue("alice")
    folded = "\\\n".join(issued.key.read_text().replace("\n", "\\n\n").splitlines())
    chain = "\\\n".join(issued.certificate.read_text().replace("\n", "\\n\n").splitlines())
    text = (
        f"security.protocol=SSL\nssl.truststore.location={authority.certificate_path}\n"
        f"ssl.keystore.key={folded}\nssl.keystore.certificate.chain={chain}\n"
    )
    config.choose(written(tmp_path / "c.properties", text))
    found = config.client_config()
    assert found.security.tls is not None
    assert "PRIVATE KEY" in str(found.security.tls.key)
    assert "PRIVATE KEY" not in repr(found)


def test_whose_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.config_path() is None
    beside = written(tmp_path / ".tidelog" / config.NAME, "bootstrap.servers=local:1\n")
    of_profile = written(tmp_path / "p.properties", SCRAM)
    chosen = written(tmp_path / "c.properties", "bootstrap.servers=named:3\n")
    assert config.config_path() == Path(".tidelog") / beside.name
    assert addresses_of(config.DEFAULT_BOOTSTRAP) == [("local", 1)]
    assert config.config_path("far:1") is None
    assert main(["profile", "add", "p", "--bootstrap", "b:2", "--config", str(of_profile)]) == 0
    assert main(["profile", "add", "bare", "--bootstrap", "b:4"]) == 0
    monkeypatch.setenv(store.VARIABLE, "bare")
    assert config.config_path() is None
    monkeypatch.setenv(store.VARIABLE, "p")
    assert config.config_path() == of_profile
    assert addresses_of(config.DEFAULT_BOOTSTRAP) == [("b", 2)]
    assert SECRET not in store.path().read_text()
    config.choose(chosen)
    assert config.config_path("far:1") == chosen
    assert addresses_of(config.DEFAULT_BOOTSTRAP) == [("named", 3)]
    assert addresses_of("far:1") == [("far", 1)]


def test_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(config.VARIABLE, str(tmp_path / "missing"))
    assert main(["topic", "list"]) == 1
    assert f"{tmp_path / 'missing'} cannot be read" in capsys.readouterr().err
    # The next command in this process begins without it.
    monkeypatch.delenv(config.VARIABLE)
    main(["topic", "list", "--bootstrap", "127.0.0.1:1"])
    assert config.config_path("far:1") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("security.protocol=TLS", "security.protocol is 'TLS'; allowed: PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism is 'GSSAPI'; allowed: PLAIN"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config names no user"),
        (
            "security.protocol=SSL\nssl.truststore.location=/no/ca.pem",
            "ssl.truststore.location is '/no/ca.pem', which",
        ),
        ("security.protocol=SSL\nenable.ssl.certificate.verification=false", "who answers is verified"),
        ("=x", "line 1 is not of the form"),
    ],
)
def test_what_is_wrong_is_said_in_the_names_of_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    config.choose(written(tmp_path / "c.properties", f"{text}\nsasl.password={SECRET}\n"))
    with pytest.raises(CommandFailed) as caught:
        config.client_config()
    assert sentence in str(caught.value)
    assert "kafka." not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_key_whose_password_is_missing_does_not_ask(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    authority = Authority(tmp_path / "tls")
    issued = authority.issue("alice")
    key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRET.encode()),
        )
    )
    text = (
        f"security.protocol=SSL\nssl.ca.location={authority.certificate_path}\n"
        f"ssl.certificate.location={issued.certificate}\nssl.key.location={locked}\n"
    )
    config.choose(written(tmp_path / "c.properties", text))
    with pytest.raises(CommandFailed, match="key or its password"):
        config.client_config()
    config.choose(written(tmp_path / "d.properties", f"{text}ssl.key.password={SECRET}\n"))
    assert config.client_config().security.tls is not None


def test_unknown_names_of_security_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.choose(written(tmp_path / "c.properties", "ssl.crl.location=/x\nlinger.ms=5\n"))
    config.client_config()
    assert "ssl.crl.location is not known here" in capsys.readouterr().err


def test_pipelines_get_it_as_options(tmp_path: Path) -> None:
    config.choose(written(tmp_path / "c.properties", SCRAM))
    found = source_options("far:1", ["kafka.sasl.mechanism=PLAIN", "startingOffsets=latest"])
    assert found["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert found["kafka.sasl.mechanism"] == "PLAIN"  # --option comes last
    assert found["startingOffsets"] == "latest"
    assert "kafka.acks" not in found


def test_what_cannot_use_a_file_does_not_ignore_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(written(tmp_path / "c.properties", SCRAM))
    words = ["--target", "external", "--bootstrap", "far:1", "--config", file]
    assert main(["lab", "run", "leader-killed", *words]) == 2
    assert main(["pipeline", "transform", "x.yaml", "--config", file]) == 2
    assert capsys.readouterr().err.count("is not possible here") == 2


def test_a_command_does_not_get_the_file_of_an_earlier_one(tmp_path: Path) -> None:
    config.choose(written(tmp_path / "c.properties", f"bootstrap.servers=far:1\n{SCRAM}"))
    assert main(["profile", "list"]) == 0
    assert addresses_of(config.DEFAULT_BOOTSTRAP)[0] == ("127.0.0.1", 9092)


def test_who_names_brokers_of_this_directorys_cluster_gets_its_file(tmp_path: Path) -> None:
    beside = written(
        tmp_path / ".tidelog" / config.NAME, f"bootstrap.servers={config.DEFAULT_BOOTSTRAP},one:2\n"
    )
    assert config.config_path("one:2") == beside.relative_to(tmp_path)
    assert config.config_path("one:2,three:3") is None


def test_who_names_the_default_address_does_not_get_the_file_of_others(tmp_path: Path) -> None:
    written(tmp_path / ".tidelog" / config.NAME, "bootstrap.servers=one:2\n")
    assert config.config_path() is not None
    config.name_bootstrap(config.DEFAULT_BOOTSTRAP)
    assert config.config_path(config.DEFAULT_BOOTSTRAP) is None


def test_a_directory_that_is_named_has_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for `tidelog broker stop --dir` and the page of `tidelog up`: a profile is about other addresses."""
    assert main(["profile", "add", "bare", "--bootstrap", "b:4"]) == 0
    monkeypatch.setenv(store.VARIABLE, "bare")
    its = written(tmp_path / "elsewhere" / config.NAME, "bootstrap.servers=one:2\n")
    config.choose_of(tmp_path / "elsewhere")
    assert config.config_path("one:2") == its
    chosen = written(tmp_path / "c.properties", SCRAM)
    config.choose(chosen)
    config.choose_of(tmp_path / "elsewhere")
    assert config.config_path("one:2") == chosen
