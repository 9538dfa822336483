"""Client settings of Spark's options: OAUTHBEARER, and key stores in PEM and PKCS12."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tidelog.client.settings import ClientSettings, OAuthSettings
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options

BOTH = ("truststore", "keystore")


def settings(**given: str) -> ClientSettings:
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return client_settings(Options({"kafka.bootstrap.servers": "127.0.0.1:9092", **options}))


def oauth(**given: str) -> OAuthSettings:
    sasl = settings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", **given).sasl
    assert sasl is not None and sasl.oauth is not None
    return sasl.oauth


URL = "https://login.example.org/token"


def test_the_names_of_the_login_module() -> None:
    jaas = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="s" scope="read write" extension_logicalCluster="lkc";'
    )
    assert oauth(sasl_jaas_config=jaas, sasl_oauthbearer_token_endpoint_url=URL) == OAuthSettings(
        URL, "me", "s", "read write", (("logicalCluster", "lkc"),)
    )


@pytest.mark.parametrize("prefix", ["client_credentials_client_", "client_"])
def test_the_names_of_kafka_4_and_of_librdkafka(prefix: str) -> None:
    given = {f"sasl_oauthbearer_{prefix}id": "me", f"sasl_oauthbearer_{prefix}secret": "s"}
    found = oauth(**given, sasl_oauthbearer_token_endpoint_url=URL, sasl_oauthbearer_extensions="a=b, c=d")
    assert found == OAuthSettings(URL, "me", "s", "", (("a", "b"), ("c", "d")))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(OptionError, match=r"token.endpoint.url is ''; OAUTHBEARER needs"):
        oauth()
    with pytest.raises(OptionError, match="no clientId and clientSecret"):
        oauth(sasl_oauthbearer_token_endpoint_url=URL)
    assert oauth(sasl_oauthbearer_token_endpoint_url="file:/run/token").token_url == "file:/run/token"
    assert oauth(sasl_jaas_config='x required unsecuredLoginStringClaim_sub="ann";').subject == "ann"


# -- stores -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``both.pem`` and ``key.p12`` have a key and its certificate, ``trust.p12`` has the certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is not installed")
    directory = tmp_path_factory.mktemp("stores")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=directory)

    new = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1"
    openssl(*new.split())
    export = ["pkcs12", "-export", "-in", "cert.pem", "-passout", "pass:change"]
    openssl(*export, "-inkey", "key.pem", "-out", "key.p12")
    openssl(*export, "-nokeys", "-out", "trust.p12")
    both = (directory / "key.pem").read_text() + (directory / "cert.pem").read_text()
    (directory / "both.pem").write_text(both)
    return directory


@pytest.mark.parametrize("named", [True, False])
def test_pkcs12_stores_become_pem(stores: Path, named: bool) -> None:
    """Also without the option that names the form: Java looks into the file, too."""
    pytest.importorskip("cryptography")
    kinds = {f"ssl_{store}_type": "PKCS12" for store in BOTH} if named else {}
    tls = settings(
        security_protocol="SSL",
        ssl_truststore_location=str(stores / "trust.p12"),
        ssl_truststore_password="change",
        ssl_keystore_location=str(stores / "key.p12"),
        ssl_keystore_password="change",
        **kinds,
    ).tls
    assert tls is not None and tls.chain_path is None and tls.trusted_path is None
    certificate = (stores / "cert.pem").read_text()
    assert tls.trusted == certificate and tls.chain == certificate
    assert tls.key is not None and "PRIVATE KEY" in tls.key


def test_a_store_that_does_not_open(stores: Path) -> None:
    pytest.importorskip("cryptography")
    given = {"security_protocol": "SSL", "ssl_keystore_location": str(stores / "key.p12")}
    with pytest.raises(OptionError, match=r"keystore\.password does not open"):
        settings(**given, ssl_keystore_password="wrong")
    given["ssl_keystore_location"] = str(stores / "trust.p12")
    with pytest.raises(OptionError, match="has no key"):
        settings(**given, ssl_keystore_password="change")


def test_pem_is_recognised(stores: Path) -> None:
    file = str(stores / "both.pem")
    tls = settings(security_protocol="SSL", ssl_truststore_location=file, ssl_keystore_location=file).tls
    assert tls is not None and tls.trusted_path == file and tls.chain_path == file


@pytest.mark.parametrize("store", BOTH)
def test_java_stores_are_to_be_converted(store: str, tmp_path: Path) -> None:
    file = tmp_path / "store.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    given = {"security_protocol": "SSL", f"ssl_{store}_location": str(file)}
    with pytest.raises(OptionError, match=rf"{store}.type is JKS.* keytool -importkeystore"):
        settings(**given)
    with pytest.raises(OptionError, match=rf"{store}.type is BCFKS; allowed: PEM, PKCS12"):
        settings(**given, **{f"ssl_{store}_type": "BCFKS"})
    file.unlink()
    with pytest.raises(OptionError, match="which cannot be read: No such file"):
        settings(**given)


def test_a_password_with_quotes_is_escaped_as_in_java() -> None:
    jaas = r'x.ScramLoginModule required username="ann" password="say \"hi\" \\ there";'
    found = settings(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas
    )
    assert found.sasl is not None
    assert found.sasl.password == 'say "hi" \\ there'
