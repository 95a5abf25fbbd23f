"""Which offsets a batch has, and settings whose files go along to other machines."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioners.errors import InputError
from pipelines.source.files import Shipped
from pipelines.source.offsets import limited


@given(
    st.dictionaries(
        st.integers(0, 30),
        st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 10**6),
)
def test_a_batch_is_bounded_and_takes_alike_of_all(
    places: dict[int, tuple[int, int]], most: int
) -> None:
    starts = {partition: start for partition, (start, _) in places.items()}
    ends = {partition: start + lag for partition, (start, lag) in places.items()}
    total = sum(lag for _, lag in places.values())
    batch = limited(starts, ends, most)
    assert all(starts[p] <= batch[p] <= ends[p] for p in places)
    assert sum(batch[p] - starts[p] for p in places) == min(most, total)
    if total > most:
        for partition, (start, lag) in places.items():
            assert abs((batch[partition] - start) - most * lag / total) < 1


def test_files_are_written_where_they_are_not(tmp_path: Path, monkeypatch) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes(b"an authority")
    shipped = Shipped.of({"ssl.ca.location": str(authority), "sasl.username": "u"})
    assert shipped.settings() == {"ssl.ca.location": str(authority), "sasl.username": "u"}
    shipped = pickle.loads(pickle.dumps(shipped))
    authority.unlink()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    there = Path(shipped.settings()["ssl.ca.location"])
    assert there.read_bytes() == b"an authority"
    assert there.stat().st_mode & 0o077 == there.parent.stat().st_mode & 0o077 == 0
    assert shipped.settings()["ssl.ca.location"] == str(there)
    # A file of that name which is another is not what the settings mean.
    authority.write_bytes(b"another")
    assert shipped.settings()["ssl.ca.location"] == str(there)
    # A folder that others can read is not used.
    there.parent.chmod(0o755)
    elsewhere = Path(shipped.settings()["ssl.ca.location"])
    assert elsewhere.parent != there.parent
    assert elsewhere.read_bytes() == b"an authority"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.pem \(No such file.*mend ssl.key.location"):
        Shipped.of({"ssl.key.location": str(tmp_path / "missing.pem")})
    assert Shipped.of({"ssl.ca.location": "probe"}).contents == {}
    assert Shipped.of({"ssl.ca.location": str(tmp_path)}).contents == {}
    hidden = repr(Shipped({"sasl.password": "secret"}, {"ssl.key.location": b"a key"}))
    assert "secret" not in hidden
    assert "a key" not in hidden
