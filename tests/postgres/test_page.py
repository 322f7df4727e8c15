"""The how-to page about PostgreSQL, on a real one."""

import re
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "postgres.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_blocks_of_the_page_run(block: str, postgres_url: str) -> None:
    name = f"page_{uuid4().hex[:12]}"
    assert "postgresql://app@db.example/agents" in block
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            mine = postgres_url.replace("/postgres?", f"/{name}?")
            exec(block.replace("postgresql://app@db.example/agents", mine), {})
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
