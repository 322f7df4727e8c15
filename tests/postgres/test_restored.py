"""A store that was put back from a backup under clients that are at work."""

import psycopg
import pytest

from lastgood import BlockingClient
from lastgood.backends.remote import attempts


def put_back(url: str, schema: str) -> None:
    """A backup of the moment at which the tables were made."""
    with psycopg.connect(url) as connection:
        for table in ("thread", "lane", "branch", "checkpoint"):
            connection.execute(f"DELETE FROM {schema}.{table}")
        for sequence in ("thread_key", "stream_key"):
            connection.execute(f"ALTER SEQUENCE {schema}.{sequence} RESTART")


def test_keys_in_reserve_that_are_somebody_elses_by_now(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are given up together: one by one, a save would take longer than anybody waits."""
    monkeypatch.setattr(attempts, "PATIENCE", 2.0)
    with (
        BlockingClient.postgres(postgres_url, schema=schema) as one,
        BlockingClient.postgres(postgres_url, schema=schema) as other,
    ):
        one.save("a", session_id="lost", execution_state=0)
        put_back(postgres_url, schema)
        for number in range(70):
            other.save("a", session_id=f"theirs-{number}", execution_state=number)
        one.save("a", session_id="ours", execution_state=1)
        assert one.restore("ours@").state == 1
        assert len(other.threads(limit=100)) == 71
        assert other.verify().clean
