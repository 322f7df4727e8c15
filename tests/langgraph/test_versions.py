"""Versions come back as they were, whatever they look like."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lastgood.adapters.langgraph.versions import shortened, whole

padded = st.builds(lambda n, r: f"{n:032}.{r:016}", st.integers(0, 10**33), st.floats(0, 1))
versions = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), padded)
table = st.dictionaries(st.text(), versions, max_size=5)


@given(table, st.dictionaries(st.text(), table, max_size=3))
def test_round_trip(channels: dict[str, Any], seen: dict[str, Any]) -> None:
    fields = {"id": "x", "channel_versions": channels, "versions_seen": seen, "other": None}
    found = whole(shortened(fields))
    assert found == fields
    assert [type(v) for v in found["channel_versions"].values()] == [
        type(v) for v in channels.values()
    ]


def test_is_short() -> None:
    version = f"{7:032}.{0.25:016}"
    fields = {"channel_versions": dict.fromkeys("abc", version), "versions_seen": {"n": {"a": 7}}}
    assert shortened(fields)["versions"] == [f"7.{0.25:016}", 7]
