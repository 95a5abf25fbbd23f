import numpy as np
import pyarrow as pa
import pytest

from partitioners.hashing import hash_keys
from pipelines.shards import shard_labels, shard_of_keys, spark_partition


@pytest.mark.parametrize("num_shards", [1, 2, 3, 5, 8, 31])
def test_labels_fall_one_to_a_state_partition(num_shards: int) -> None:
    labels = shard_labels(num_shards)
    assert [spark_partition(label, num_shards) for label in labels] == list(range(num_shards))


def test_spark_hash_is_murmur3_of_the_int() -> None:
    # SELECT hash(0), hash(1), hash(42)
    hashes = {0: 933211791, 1: -559580957, 42: 29417773}
    for label, value in hashes.items():
        for num_partitions in (1, 2, 10, 97):
            assert spark_partition(label, num_partitions) == value % num_partitions


def test_a_key_has_one_shard_wherever_it_stands() -> None:
    keys = pa.array([b"a", None, b"", b"\xff\x00", b"x" * 100_000], type=pa.binary())
    whole = shard_of_keys(keys, 7)
    for i in range(len(keys)):
        assert shard_of_keys(keys[i : i + 1], 7)[0] == whole[i]
    assert ((whole >= 0) & (whole < 7)).all()


def test_keys_of_one_topic_partition_spread_over_shards() -> None:
    names = pa.array([b"key-%d" % i for i in range(4000)], type=pa.binary())
    of_partition = names.filter(pa.array(np.asarray(hash_keys(names)) % 4 == 1))
    counts = np.bincount(shard_of_keys(of_partition, 4), minlength=4)
    assert counts.min() > 0.8 * counts.mean()
