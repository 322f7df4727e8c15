"""Requests and replies are told apart in the bytes of a connection, however these are cut."""

import struct

import pytest

from lastgood.testing.faults.exchanges import Exchange, PostgresExchange, RedisExchange

STARTUP = struct.pack("!ii", 8, 3 << 16)
PLEA = struct.pack("!ii", 8, 80877103)
READY = b"Z\0\0\0\5I"


def message(letter: bytes, body: bytes = b"") -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


def played(exchange: Exchange, *steps: tuple[str, bytes]) -> list[bool]:
    """Whether it was settled after each step, the steps being given byte by byte."""
    seen = []
    for who, data in steps:
        for number in range(len(data)):
            getattr(exchange, who)(data[number : number + 1])
        seen.append(exchange.settled)
    return seen


def started() -> PostgresExchange:
    exchange = PostgresExchange()
    assert played(exchange, ("asked", STARTUP), ("answered", READY)) == [False, True]
    return exchange


class TestPostgres:
    def test_a_plea_for_encryption_is_answered_by_a_byte(self) -> None:
        steps = [("asked", PLEA), ("answered", b"N"), ("asked", STARTUP), ("answered", READY)]
        assert played(PostgresExchange(), *steps) == [False, True, False, True]

    def test_every_step_of_a_password_is_a_round_trip(self) -> None:
        steps = [
            ("asked", STARTUP),
            ("answered", message(b"R", b"\0\0\0\x0aSCRAM-SHA-256\0\0")),
            ("asked", message(b"p", b"first")),
            ("answered", message(b"R", b"\0\0\0\x0bmore")),
            ("asked", message(b"p", b"last")),
            ("answered", message(b"R", b"\0\0\0\x0cproof") + message(b"R", bytes(4))),
            ("answered", message(b"S", b"a\0b\0") + READY),
        ]
        settled = [False, True, False, True, False, False, True]
        assert played(PostgresExchange(), *steps) == settled

    def test_a_reply_ends_when_the_server_is_ready(self) -> None:
        row = message(b"D", b"Z\0\0\0\5I")
        steps = [("asked", message(b"Q", b"SELECT 1\0")), ("answered", row), ("answered", READY)]
        assert played(started(), *steps) == [False, False, True]

    def test_a_pipeline_is_open_until_its_sync(self) -> None:
        steps = [
            ("asked", message(b"P") + message(b"B") + message(b"E")),
            ("answered", message(b"1")),
            ("asked", message(b"P") + message(b"S")),
            ("answered", message(b"C") + READY),
        ]
        assert played(started(), *steps) == [False, False, False, True]

    def test_two_syncs_have_two_answers(self) -> None:
        steps = [("asked", message(b"S") * 2), ("answered", READY), ("answered", READY)]
        assert played(started(), *steps) == [False, False, True]

    def test_a_flush_after_a_sync_asks_for_nothing(self) -> None:
        sync, flush = ("asked", message(b"E") + message(b"S")), ("asked", message(b"H"))
        assert played(started(), sync, ("answered", READY), flush) == [False, True, True]
        assert played(started(), sync, flush, ("answered", READY)) == [False, False, True]

    def test_a_flush_may_be_waited_for(self) -> None:
        steps = [("asked", message(b"E") + message(b"H")), ("answered", message(b"D"))]
        assert played(started(), *steps) == [False, True]

    @pytest.mark.parametrize("end", [b"", message(b"S")])
    def test_copying_in_is_two_round_trips(self, end: bytes) -> None:
        steps = [
            ("asked", message(b"Q", b"COPY\0") if not end else message(b"E") + message(b"S")),
            ("answered", message(b"G")),
            ("asked", message(b"d", b"rows")),
            ("asked", message(b"c") + end),
            ("answered", message(b"C") + READY),
            ("asked", message(b"Q", b"x\0")),
            ("answered", READY),
        ]
        assert played(started(), *steps) == [False, True, False, False, True, False, True]


class TestRedis:
    @pytest.mark.parametrize(
        "reply",
        [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$6\r\n\r\n\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$2\r\n\r\n\r\n",
            b"_\r\n",
            b",1.5\r\n",
            b"#t\r\n",
            b"(123\r\n",
            b"!3\r\nERR\r\n",
            b"=5\r\ntxt:a\r\n",
            b"~1\r\n:1\r\n",
            b"%1\r\n+a\r\n*1\r\n:1\r\n",
            b"|1\r\n+ttl\r\n:1\r\n+OK\r\n",
            b">2\r\n+invalidate\r\n*0\r\n+OK\r\n",
        ],
    )
    def test_a_reply_is_whole_at_its_last_byte(self, reply: bytes) -> None:
        exchange = RedisExchange()
        steps = [("asked", b"*1\r\n$4\r\nPING\r\n"), ("answered", reply[:-1])]
        assert played(exchange, *steps) == [False, False]
        assert played(exchange, ("answered", reply[-1:])) == [True]

    def test_every_command_has_a_reply(self) -> None:
        steps = [("asked", b"*1\r\n$4\r\nPING\r\n" * 2), ("answered", b":1\r\n")]
        exchange = RedisExchange()
        assert played(exchange, *steps) == [False, False]
        assert played(exchange, ("answered", b":1\r\n")) == [True]

    def test_a_transaction_is_open_until_its_end(self) -> None:
        steps = [
            ("asked", b"*1\r\n$5\r\nMULTI\r\n"),
            ("answered", b"+OK\r\n"),
            ("asked", b"*1\r\n$4\r\nEXEC\r\n"),
            ("answered", b"*0\r\n"),
        ]
        assert played(RedisExchange(), *steps) == [False, False, False, True]

    def test_what_is_told_unasked_is_no_reply(self) -> None:
        steps = [("answered", b">1\r\n:1\r\n"), ("asked", b"*1\r\n$4\r\nPING\r\n")]
        assert played(RedisExchange(), *steps) == [True, False]
