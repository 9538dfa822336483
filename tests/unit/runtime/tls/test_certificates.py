"""Stores of all kinds, contexts made of them, and what happens when files change."""

import logging
import ssl
from pathlib import Path

import pytest

from tidelog.config import BrokerConfig
from tidelog.config.kinds import Raw
from tidelog.errors import InvalidConfig
from tidelog.lab.local.certificates import Authority
from tidelog.runtime.tls.certificates import Certificates, needs_certificates
from tidelog.runtime.tls.stores import stores_of
from unit.runtime.tls.certificates import PASSWORD, Made


def certificates(values: dict[str, Raw], directory: Path = Path("/")) -> Certificates:
    return Certificates(BrokerConfig.parse(values), directory)


def shown_by(context: ssl.SSLContext, made: Made) -> str:
    """The name of the certificate that a server with this context shows."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(made.authority.certificate_path)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    theirs = context.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for each in (ours, theirs):
            try:
                each.do_handshake()
                done.add(each)
            except ssl.SSLWantReadError:
                continue
    certificate = ours.getpeercert()
    assert certificate is not None
    return dict(pair for pairs in certificate["subject"] for pair in pairs)["commonName"]  # type: ignore[misc]


class TestStores:
    def test_one_file_of_pem(self, made: Made) -> None:
        assert shown_by(certificates(made.settings()).server("SSL").context, made) == "broker"

    def test_a_relative_path_starts_at_the_directory_of_the_config_file(self, made: Made) -> None:
        values = made.settings(ssl_keystore_location="broker.pem", ssl_truststore_location="ca.pem")
        found = certificates(values, made.directory)
        assert shown_by(found.server("SSL").context, made) == "broker"

    def test_pem_in_the_settings(self, made: Made) -> None:
        values = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.certificate.chain": made.broker.certificate.read_text(),
            "ssl.keystore.key": made.broker.key.read_text(),
            "ssl.truststore.certificates": made.authority.certificate_path.read_text(),
        }
        config = BrokerConfig.parse(values)
        assert shown_by(Certificates(config, Path("/")).server("SSL").context, made) == "broker"
        assert "PRIVATE" not in repr(config) + repr(stores_of(config, Path("/")))

    def test_pkcs12(self, made: Made) -> None:
        trusted = made.authority.trust_store(PASSWORD)
        values: dict[str, Raw] = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(made.directory / "broker.p12"),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": str(trusted),
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.password": PASSWORD,
            "ssl.client.auth": "required",
        }
        context = certificates(values).server("SSL").context
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert [each["subject"] for each in context.get_ca_certs()] == [
            ((("commonName", "Tidelog test authority"),),)
        ]
        values["ssl.client.auth"] = "none"
        assert shown_by(certificates(values).server("SSL").context, made) == "broker"

    def test_an_encrypted_key(self, made: Made, tmp_path: Path) -> None:
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(made.broker.key.read_bytes(), None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"geheim"),
        )
        store = tmp_path / "broker.pem"
        store.write_bytes(made.broker.certificate.read_bytes() + encrypted)
        values = made.settings(ssl_keystore_location=str(store), ssl_key_password="geheim")
        assert shown_by(certificates(values).server("SSL").context, made) == "broker"
        for wrong in ({"ssl.key.password": "falsch"}, {}):
            with pytest.raises(InvalidConfig, match="its key are not valid"):
                certificates(made.settings(ssl_keystore_location=str(store)) | wrong)

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"ssl_keystore_location": "/nowhere.pem"}, "/nowhere.pem cannot be read: No such file"),
            ({"ssl_keystore_location": "{ca}"}, "there is no private key in it"),
            ({"ssl_keystore_location": "{p12}"}, "there is no certificate in it. Is it PKCS12?"),
            ({"ssl_keystore_location": "{jks}"}, "is a Java key store"),
            ({"ssl_keystore_location": "{mixed}"}, "the private key is not that of the certificate"),
            ({"ssl_keystore_type": "PKCS12"}, "it cannot be opened"),
            ({"ssl_keystore_key": "x"}, "are both set"),
            ({"ssl_truststore_location": "{key}"}, "there is no certificate in it"),
            ({"ssl_truststore_location": "{damaged}"}, "the trust store is not valid"),
            ({"ssl_cipher_suites": "NO-SUCH-SUITE"}, "ssl.cipher.suites=NO-SUCH-SUITE is refused"),
            ({"ssl_principal_mapping_rules": "CN"}, "neither DEFAULT nor RULE"),
        ],
    )
    def test_what_cannot_be_used_is_refused(
        self, made: Made, tmp_path: Path, more: dict[str, str], words: str
    ) -> None:
        (tmp_path / "mixed").write_bytes(made.broker.certificate.read_bytes() + made.client.key.read_bytes())
        (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
        (tmp_path / "damaged").write_text(
            "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG\n-----END CERTIFICATE-----\n"
        )
        files = {
            "ca": made.authority.certificate_path,
            "p12": made.directory / "broker.p12",
            "key": made.broker.key,
            **{name: tmp_path / name for name in ("mixed", "jks", "damaged")},
        }
        with pytest.raises(InvalidConfig) as caught:
            certificates(made.settings(**{name: text.format(**files) for name, text in more.items()}))
        assert words in caught.value.message

    def test_a_wrong_password_of_pkcs12(self, made: Made) -> None:
        values = made.settings(
            ssl_keystore_location=str(made.directory / "broker.p12"),
            ssl_keystore_type="PKCS12",
            ssl_keystore_password="falsch",
        )
        with pytest.raises(InvalidConfig, match="it cannot be opened") as caught:
            certificates(values)
        assert "falsch" not in caught.value.message

    def test_a_listener_without_a_certificate_is_refused(self) -> None:
        with pytest.raises(InvalidConfig, match="a TLS listener needs a certificate"):
            certificates({"listeners": "SSL://127.0.0.1:0"})

    def test_asking_clients_for_certificates_needs_their_authority(self, made: Made) -> None:
        values = made.settings(ssl_client_auth="required")
        del values["ssl.truststore.location"]
        with pytest.raises(InvalidConfig, match="needs the authorities of the clients"):
            certificates(values)


class TestContexts:
    def test_each_listener_has_its_own(self, made: Made) -> None:
        values = made.settings(
            listeners="A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0",
            listener_security_protocol_map="A:SSL,B:SASL_SSL,C:PLAINTEXT",
        )
        values["listener.name.b.ssl.client.auth"] = "requested"
        values["listener.name.b.ssl.enabled.protocols"] = "TLSv1.3"
        values["listener.name.b.ssl.keystore.location"] = str(made.elsewhere.pem)
        found = certificates(values)
        assert found.server("A").context.verify_mode is ssl.CERT_NONE
        assert found.server("B").context.verify_mode is ssl.CERT_OPTIONAL
        assert found.server("A").context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert found.server("B").context.minimum_version is ssl.TLSVersion.TLSv1_3
        with pytest.raises(KeyError):
            found.server("C")

    def test_ciphers_without_forward_secrecy_are_not_there(self, made: Made) -> None:
        names = [each["name"] for each in certificates(made.settings()).server("SSL").context.get_ciphers()]
        of_1_2 = [name for name in names if not name.startswith("TLS_")]
        assert of_1_2
        assert all(name.startswith("ECDHE") for name in of_1_2)

    def test_links_check_the_host_unless_told_not_to(self, made: Made) -> None:
        assert certificates(made.settings()).client("SSL").check_hostname
        without = certificates(made.settings(ssl_endpoint_identification_algorithm=""))
        assert not without.client("SSL").check_hostname
        assert without.client("SSL").verify_mode is ssl.CERT_REQUIRED

    def test_a_broker_has_a_context_for_the_listener_of_controllers_that_it_has_not(self, made: Made) -> None:
        values = made.settings(
            process_roles="broker",
            controller_quorum_voters="9@127.0.0.1:9093",
            listeners="PLAINTEXT://127.0.0.1:0",
            controller_listener_names="CONTROLLER",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        )
        config = BrokerConfig.parse(values)
        assert needs_certificates(config)
        assert Certificates(config, Path("/")).client("CONTROLLER").check_hostname

    def test_plain_listeners_need_no_certificates(self) -> None:
        assert not needs_certificates(BrokerConfig.parse({}))


class TestChanges:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        Authority(tmp_path).issue("broker", ("localhost",))
        return tmp_path

    def of(self, files: Path) -> Certificates:
        return certificates(
            {
                "listeners": "SSL://127.0.0.1:0",
                "ssl.keystore.location": "broker.pem",
                "ssl.truststore.location": "ca.pem",
            },
            files,
        )

    def test_unchanged_files_change_nothing(self, files: Path) -> None:
        found = self.of(files)
        before = found.server("SSL").context
        assert not found.read_again()
        assert found.server("SSL").context is before

    def test_changed_files_are_used(self, files: Path) -> None:
        found = self.of(files)
        before = found.server("SSL").context, found.client("SSL")
        Authority(files).issue("broker", ("localhost",))
        assert found.read_again()
        assert found.server("SSL").context is not before[0]
        assert found.client("SSL") is not before[1]
        assert not found.read_again()

    @pytest.mark.slow
    def test_files_that_are_not_valid_are_not_used(
        self, files: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        found = self.of(files)
        before = found.server("SSL").context
        (files / "broker.pem").write_text("half of a")
        with caplog.at_level(logging.ERROR):
            assert not found.read_again()
            assert not found.read_again()
        assert found.server("SSL").context is before
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        Authority(files).issue("broker", ("localhost",))
        assert found.read_again()

    def test_a_file_that_is_gone_changes_nothing(self, files: Path) -> None:
        found = self.of(files)
        (files / "ca.pem").unlink()
        assert not found.read_again()
        assert found.server("SSL").context is not None
