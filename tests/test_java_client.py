"""What the producer is told about TLS and SASL reaches Spark's reader too."""

from __future__ import annotations

from pathlib import Path

import pytest

from partitioners.errors import InputError
from pipelines.java_client import java_client_settings


def test_sasl() -> None:
    told = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'with "quotes" and \\',
        "compression.type": "zstd",
    }
    assert java_client_settings(told) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="alice" password="with \\"quotes\\" and \\\\";'
        ),
    }
    plain = java_client_settings({"sasl.mechanisms": "PLAIN"})
    assert "plain.PlainLoginModule" in plain["sasl.jaas.config"]


def test_certificates_go_along_as_text(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    told = {"ssl.ca.location": str(pem), "ssl.endpoint.identification.algorithm": "none"}
    assert java_client_settings(told) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\n",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_what_cannot_be_handed_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="GSSAPI cannot be handed on to Spark"):
        java_client_settings({"sasl.mechanism": "GSSAPI"})
    with pytest.raises(InputError, match="name a PEM file"):
        java_client_settings({"ssl.ca.location": str(tmp_path / "missing.pem")})
