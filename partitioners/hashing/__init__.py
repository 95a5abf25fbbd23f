"""The only place that hashes: keys to 64-bit key hashes, key hashes to candidate partitions.

Three hash functions, by the name of the client they agree with:

======== ==================================================================== ====================
name     value                                                                whose default
======== ==================================================================== ====================
murmur3  MurmurHash3 x64 128, first eight bytes (Guava's ``asLong``), 64 bits  ours
murmur2  Kafka's ``Utils.murmur2`` as an unsigned 32-bit number                Java client
crc32    CRC-32 of zlib, unsigned 32 bits                                      librdkafka
======== ==================================================================== ====================

``hash_keys`` works on the offsets and data buffers of Arrow arrays: no Python object is made per
key. A dictionary array has its dictionary hashed once. ``hash_key`` is the same function for one
key, and agrees with it bit for bit.

``candidates`` derives d partitions from a key hash: word j is splitmix64's finaliser of the key
hash, the seed and j; its upper and lower halves give candidates 2j and 2j + 1 by multiply and
shift (no modulo; bias below n / 2**32). The first d candidates of a key are a prefix of its first
d + 1. With ``distinct`` they never coincide, so a key has d real choices even on two partitions
(so does Storm); without it they are independent and may coincide (as in the papers' analysis and
their authors' code).
"""

from partitioners.hashing.derived import (
    candidate_word,
    candidates,
    fill_candidates,
    lower_range,
    mix64,
    seed_word,
    two_candidates,
    upper_range,
)
from partitioners.hashing.many_keys import (
    HashedKeys,
    Key,
    Keys,
    has_nulls,
    hash_chunk,
    hash_keys,
    hash_keys_with_nulls,
    key_chunks,
    null_mask,
)
from partitioners.hashing.one_key import (
    HASH_FUNCTIONS,
    HashFunction,
    hash_key,
    murmur2,
    scalar_hash,
)

__all__ = [
    "HASH_FUNCTIONS",
    "HashFunction",
    "HashedKeys",
    "Key",
    "Keys",
    "candidate_word",
    "candidates",
    "fill_candidates",
    "has_nulls",
    "hash_chunk",
    "hash_key",
    "hash_keys",
    "hash_keys_with_nulls",
    "key_chunks",
    "lower_range",
    "mix64",
    "murmur2",
    "null_mask",
    "scalar_hash",
    "seed_word",
    "two_candidates",
    "upper_range",
]
