"""An authority, a broker's certificate from it, and who may log in: for SASL_SSL with SCRAM."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

USER, PASSWORD = "keyspread", 'pa"ss \\ word'
_ITERATIONS = 4096
_EVERYTHING = "*"


class Certificates(NamedTuple):
    """Where they are."""

    folder: Path
    authority: Path
    other_authority: Path


def make_certificates(folder: Path) -> Certificates:
    """Make the broker's key store, its authority, and another that has signed nothing."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    # Kafka reads PKCS #8 alone.
    key = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    store = folder / "keystore.pem"
    store.write_bytes(key + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    paths = Certificates(folder, folder / "authority.pem", folder / "other.pem")
    authority.cert_pem.write_to_path(str(paths.authority))
    trustme.CA().cert_pem.write_to_path(str(paths.other_authority))
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    return paths


def broker_environment() -> dict[str, str]:
    """Variables of a broker that lets in who logs in, and only where a rule allows it."""
    return {
        "KAFKA_SSL_KEYSTORE_TYPE": "PEM",
        "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/kafka/secrets/keystore.pem",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_HOST_SCRAM___SHA___512_SASL_JAAS_CONFIG": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The nodes among themselves, and the tests' own listener for administration.
        "KAFKA_SUPER_USERS": "User:ANONYMOUS",
    }


def let_in(admin_settings: dict[str, str | int], denied: Mapping[str, AclOperation]) -> None:
    """Make the user, and let it use every topic and group, but for what is denied of some topics.

    Args:
        admin_settings: Of a client that may do anything.
        denied: What the user may not do, by topic.
    """
    admin = AdminClient(admin_settings)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([upsertion]).values():
        done.result(30)
    allow, all_of_it = AclPermissionType.ALLOW, AclOperation.ALL
    wanted = [
        (ResourceType.TOPIC, _EVERYTHING, allow, all_of_it),
        (ResourceType.GROUP, _EVERYTHING, allow, all_of_it),
        *(
            (ResourceType.TOPIC, topic, AclPermissionType.DENY, operation)
            for topic, operation in denied.items()
        ),
    ]
    rules = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            operation,
            permission,
        )
        for kind, name, permission, operation in wanted
    ]
    for made in admin.create_acls(rules).values():
        made.result(30)


def client_settings(bootstrap: str, authority: Path) -> dict[str, str | int]:
    """librdkafka settings of that user."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(authority),
        "log_level": 0,
    }
