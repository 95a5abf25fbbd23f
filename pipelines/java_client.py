"""The Java client that Spark reads with: librdkafka's security settings in its words; topics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from partitioners.errors import InputError

_LOGIN_MODULE = "org.apache.kafka.common.security"
ANSWER_SECONDS = 30


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


def check_topic(
    spark: SparkSession, settings: Mapping[str, str], topic: str, num_partitions: int
) -> int | None:
    """See that a topic is there with the partitions a query is started for.

    It is asked with the client, and so with the settings, that Spark will read it with.

    Args:
        spark: Its JVM asks.
        settings: Of the Java client, `bootstrap.servers` among them.
        topic: Its name.
        num_partitions: What it has to have.

    Returns:
        How many bytes a batch of its records has at most; None where the servers do not tell.

    Raises:
        InputError: There is no such topic, it has another number, or no server answers.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    properties = jvm.java.util.Properties()
    for name, value in settings.items():
        properties.put(name, value)
    admin = None
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        names = jvm.java.util.Collections.singleton(topic)
        seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
        described = admin.describeTopics(names).allTopicNames().get(ANSWER_SECONDS, seconds)
        have = int(described[topic].partitions().size())
        max_message_bytes = _max_message_bytes(jvm, admin, topic)
    except Py4JJavaError as error:
        reason = str(error.java_exception)
        if "UnknownTopicOrPartition" in reason:
            raise InputError(f"there is no topic {topic}: make it, or name another") from None
        raise InputError(
            f"Kafka at {settings['bootstrap.servers']} does not describe topic {topic} "
            f"({reason.splitlines()[0][:200]}): check that it runs, and your permission"
        ) from None
    finally:
        if admin is not None:
            admin.close()
    if have != num_partitions:
        raise InputError(
            f"topic {topic} has {have} partitions, not {num_partitions}: say {have}, or name "
            "another topic"
        )
    return max_message_bytes


def _max_message_bytes(jvm: Any, admin: Any, topic: str) -> int | None:
    resources = jvm.org.apache.kafka.common.config.ConfigResource
    resource = resources(resources.Type.TOPIC, topic)
    seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
    try:
        asked = admin.describeConfigs(jvm.java.util.Collections.singleton(resource)).all()
        entry = asked.get(ANSWER_SECONDS, seconds)[resource].get("max.message.bytes")
    except Py4JJavaError:
        # To read a topic does not take the right to see its settings.
        return None
    return None if entry is None else int(entry.value())


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
