"""Security settings of librdkafka, in the words of the Java client that Spark reads with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from partitioners.errors import InputError

_LOGIN_MODULE = "org.apache.kafka.common.security"


def java_client_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """Translate what the producer was told about TLS and SASL; leave out the rest.

    Args:
        kafka: librdkafka settings.

    Raises:
        InputError: A certificate or key cannot be read, or a mechanism has no translation.

    Example:
        >>> java_client_settings({"security.protocol": "SASL_SSL", "linger.ms": "5"})
        {'security.protocol': 'SASL_SSL'}
    """
    settings: dict[str, str] = {}
    if protocol := kafka.get("security.protocol"):
        settings["security.protocol"] = protocol.upper()
    if mechanism := kafka.get("sasl.mechanisms") or kafka.get("sasl.mechanism"):
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = _jaas(mechanism, kafka)
    if authority := kafka.get("ssl.ca.location"):
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.certificates"] = _text(authority)
    if certificate := kafka.get("ssl.certificate.location"):
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.certificate.chain"] = _text(certificate)
    if key := kafka.get("ssl.key.location"):
        settings["ssl.keystore.key"] = _text(key)
    if password := kafka.get("ssl.key.password"):
        settings["ssl.key.password"] = password
    if check := kafka.get("ssl.endpoint.identification.algorithm"):
        settings["ssl.endpoint.identification.algorithm"] = "" if check == "none" else check
    return settings


def _jaas(mechanism: str, kafka: Mapping[str, str]) -> str:
    if mechanism == "PLAIN":
        module = f"{_LOGIN_MODULE}.plain.PlainLoginModule"
    elif mechanism.startswith("SCRAM-"):
        module = f"{_LOGIN_MODULE}.scram.ScramLoginModule"
    else:
        raise InputError(
            f"sasl.mechanism {mechanism} cannot be handed on to Spark: use PLAIN, SCRAM-SHA-256 or "
            "SCRAM-SHA-512"
        )
    name, password = (
        kafka.get(option, "").replace("\\", "\\\\").replace('"', '\\"')
        for option in ("sasl.username", "sasl.password")
    )
    return f'{module} required username="{name}" password="{password}";'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}; name a PEM file") from error
