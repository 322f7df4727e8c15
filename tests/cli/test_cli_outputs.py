"""The real command, in a process of its own: through pipes, on a terminal, interrupted."""

import asyncio
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_harness import COMMAND, HOSTILE, Result, environment, on_terminal, piped, screen

from lastgood import BlockingClient, Client, __version__, watching

pytestmark = pytest.mark.slow  # programs of their own, on terminals

Run = Callable[..., Result]

COLOUR = re.compile("\x1b\\[[\\d;]*m")


class TestThroughPipes:
    def test_plain_text_and_exit_codes(self, here: Path) -> None:
        shown = piped("log", "run-001", "--graph", cwd=here)
        assert (shown.code, shown.err) == (0, "")
        assert "\x1b" not in shown.out
        assert "●" in shown.out
        assert piped("show", "nope", cwd=here).code == 3

    @pytest.mark.slow
    def test_ascii_where_the_encoding_has_nothing_else(self, here: Path) -> None:
        shown = piped("log", "run-001", "--graph", cwd=here, PYTHONIOENCODING="ascii")
        assert shown.code == 0
        assert shown.out.isascii()
        assert re.search(r"^\| o +@6 ", shown.out, re.MULTILINE)

    @pytest.mark.slow
    def test_names_that_the_encoding_lacks_are_escaped(self, here: Path) -> None:
        with BlockingClient.sqlite(here / "lastgood.db") as client:
            client.save("a", session_id="größe-大", execution_state={})
        shown = piped("threads", cwd=here, PYTHONIOENCODING="ascii")
        assert r"gr\xf6\xdfe-\u5927" in shown.out

    @pytest.mark.parametrize("word", ["threads", "log", "show", "verify", "doctor", "du"])
    def test_a_pipe_whose_reader_has_gone(self, here: Path, word: str) -> None:
        """That is no answer: it ends as a program does that the signal for it ends."""
        assert unread(word, cwd=here, errors=subprocess.PIPE) == (128 + signal.SIGPIPE, b"")

    def test_a_pipe_for_output_and_errors_whose_reader_has_gone(self, here: Path) -> None:
        words = ("log", "run-001", "--limit", "1")  # there are more, which the errors say
        assert unread(*words, cwd=here, errors=subprocess.STDOUT) == (128 + signal.SIGPIPE, None)

    def test_an_output_that_is_closed_is_wanted_by_nobody(self, here: Path) -> None:
        assert in_shell("rewind single 1 >&-", cwd=here) == (0, "")
        assert in_shell("delete single <&- >&-", cwd=here)[1].endswith("Say so: --yes.\n")
        assert in_shell("verify <&- >&- 2>&-", cwd=here) == (0, "")
        with BlockingClient.sqlite(here / "lastgood.db") as client:
            assert client.restore("single@").step_name == "rewind_to_1"

    def test_an_output_that_is_full_is_one_line(self, here: Path) -> None:
        code, told = in_shell("rewind single 1 >/dev/full", cwd=here)
        assert code == 4
        assert told.startswith("lastgood rewind: the output could not be written: No space left")
        assert told.count("\n") == 1
        assert in_shell("verify >/dev/full 2>/dev/full", cwd=here)[0] == 4

    @pytest.mark.parametrize(
        "words", [["threads", "--store"], ["db", "status", "--store"], ["copy", "lastgood.db"]]
    )
    def test_a_driver_that_is_not_installed_is_one_line(self, here: Path, words: list[str]) -> None:
        path = hiding(here, "psycopg", "raise ModuleNotFoundError(name='psycopg')")
        shown = piped(*words, "postgresql://host/db", cwd=here, PYTHONPATH=path)
        how = 'PostgreSQL support is not installed: pip install "lastgood[postgres]"'
        assert (shown.code, shown.out, shown.err) == (4, "", f"lastgood {words[0]}: {how}\n")

    @pytest.mark.slow
    def test_a_broken_import_of_our_own_is_not_hidden(self, here: Path) -> None:
        path = hiding(here, "psycopg", "raise ModuleNotFoundError(name='lastgood.nothing')")
        shown = piped("threads", "--store", "postgresql://host/db", cwd=here, PYTHONPATH=path)
        assert "ModuleNotFoundError" in shown.err

    @pytest.mark.slow
    def test_the_installed_command_is_the_same(self, here: Path) -> None:
        command = Path(sys.executable).parent / "lastgood"
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == piped("--version", cwd=here).out == f"lastgood {__version__}\n"


class TestOnATerminal:
    def test_colour_unless_it_is_unwanted(self, here: Path) -> None:
        code, shown = screen("log", "run-001", "--graph", cwd=here)
        assert code == 0
        assert "\x1b[33m" in shown
        _, plain = screen("log", "run-001", "--graph", cwd=here, NO_COLOR="1")
        assert "\x1b" not in plain
        assert ages(COLOUR.sub("", shown)) == ages(plain)

    @pytest.mark.slow
    def test_dumb_terminals_get_plain_text(self, here: Path) -> None:
        assert "\x1b" not in screen("threads", cwd=here, TERM="dumb")[1]

    @pytest.mark.slow
    def test_rich_adds_colour_and_changes_no_text(self, here: Path) -> None:
        pytest.importorskip("rich")
        _, with_rich = screen("show", "run-001@3", cwd=here)
        _, without = screen("show", "run-001@3", cwd=here, PYTHONPATH=hiding(here, "rich"))
        assert len(COLOUR.findall(with_rich)) > len(COLOUR.findall(without)) > 0
        assert ages(COLOUR.sub("", with_rich)) == ages(COLOUR.sub("", without))

    @pytest.mark.slow
    def test_long_names_are_cut_to_the_width(self, here: Path) -> None:
        with BlockingClient.sqlite(here / "lastgood.db") as client:
            client.save("agent", session_id="long-" * 40, execution_state={}, step_name="大" * 80)
        _, shown = screen("threads", cwd=here, NO_COLOR="1", COLUMNS="80")
        assert "..." in shown
        assert max(map(len, shown.splitlines())) <= 80
        assert "long-" * 40 in piped("threads", cwd=here).out

    def test_names_of_threads_are_whole_where_there_is_room_for_them(self, here: Path) -> None:
        with BlockingClient.sqlite(here / "lastgood.db") as client:
            unnamed = client.restore(client.save("a", execution_state={})).session_id
            client.save(
                "invoice-processor",
                session_id="customer-4821-conversation-1",
                execution_state={},
                step_name="after_tool_call",
            )
        _, shown = screen("threads", cwd=here, NO_COLOR="1", COLUMNS="80")
        titles, *rows = shown.splitlines()
        assert {"thread", "status", "steps", "changed"} <= set(titles.split())
        assert {"branches", "stored"}.isdisjoint(titles.split())
        assert [row.split()[0] for row in rows[:2]] == ["customer-4821-conversation-1", unnamed]
        assert max(map(len, shown.splitlines())) <= 80
        _, wide = screen("threads", cwd=here, NO_COLOR="1", COLUMNS="130")
        assert {"agents", "branches", "stored"} <= set(wide.splitlines()[0].split())

    def test_hostile_content_leaves_only_our_own_escapes(self, here: Path) -> None:
        _, shown = screen("show", HOSTILE, cwd=here)
        assert "\x1b" not in COLOUR.sub("", shown)
        assert "\u202e" not in shown
        assert r"\u202e" in shown

    def test_what_deletes_says_how_to_keep_it(self, here: Path) -> None:
        with BlockingClient.sqlite(here / "lastgood.db", tenant="t") as client:
            for agent in ("a", "b"):
                client.save(agent, session_id="-two", execution_state={})
        with on_terminal("delete", "--tenant", "t", "--", "-two", cwd=here) as asked:
            shown = asked.until("Type the thread's name")
        assert "This deletes -two: 2 checkpoints on 2 branches.\r\n" in shown
        copy = re.search(r"To keep it first: lastgood (.*?)\r\n", shown)
        assert copy is not None
        assert piped(*shlex.split(copy[1]), cwd=here).code == 0
        assert "-two" in piped("threads", "--store", "copy.db", "--tenant", "t", cwd=here).out

    def test_deleting_what_is_damaged(self, here: Path) -> None:
        with closing(sqlite3.connect("lastgood.db")) as store, store:
            store.execute("UPDATE lastgood_run SET seal = zeroblob(8)")
        with on_terminal("delete", "run-001", cwd=here) as asked:
            asked.until("(run-001): ")
            assert "run-001: damaged, so what is in it cannot be counted." in asked.shown
            asked.type("run-001\n")
            code, shown = asked.end()
        assert (code, "Deleted run-001.\r\n" in shown) == (0, True)

    def test_deleting_asks_for_the_name(self, here: Path) -> None:
        with on_terminal("delete", "single", cwd=here) as asked:
            asked.until("Type the thread's name to delete it (single): ")
            assert "cannot be undone" in asked.shown
            assert "This deletes single: 2 checkpoints on 1 branch, last step two." in asked.shown
            assert "lastgood copy lastgood.db copy.db --thread=single\r\n" in asked.shown
            asked.type("y\n")
            code, shown = asked.end()
        assert code == 1
        assert "nothing was deleted" in shown
        with on_terminal("delete", "single", cwd=here) as asked:
            asked.until("(single): ")
            asked.type("single\n")
            code, shown = asked.end()
        assert code == 0
        assert "Deleted single with 2 checkpoints." in shown

    def test_sweeping_asks(self, here: Path) -> None:
        assert piped("sweep", "--yes", cwd=here).code == 0
        with BlockingClient.sqlite(here / "lastgood.db") as client:
            client.save("a", session_id="over", execution_state={"n": 1}, ttl_seconds=1e-6)
        answers = (("\n", 1, "nothing was removed"), ("y\n", 0, "Removed 1 checkpoint"))
        for answer, code, told in answers:
            with on_terminal("sweep", "--grace", "0", cwd=here) as asked:
                asked.until("Go on? [y/N] ")
                assert "1 checkpoint (1 whole thread)" in asked.shown
                asked.type(answer)
                ended, shown = asked.end()
            assert ended == code
            assert told in shown

    @pytest.mark.slow
    def test_ctrl_c_at_the_question_deletes_nothing(self, here: Path) -> None:
        with on_terminal("delete", "single", cwd=here) as asked:
            asked.until("(single): ")
            asked.interrupt()
            assert asked.end()[0] == 130
        assert piped("show", "single", cwd=here).code == 0


class TestFollow:
    def test_shows_what_comes_and_ends_with_ctrl_c(self, here: Path) -> None:
        with (
            BlockingClient.sqlite(here / "lastgood.db") as client,
            on_terminal("log", "single", "--follow", cwd=here) as followed,
        ):
            followed.until("two")
            client.save("solo", session_id="single", execution_state={}, step_name="third")
            followed.until("third")
            followed.interrupt()
            code, shown = followed.end()
        assert code == 130
        assert "Traceback" not in shown

    @pytest.mark.slow
    def test_json_is_one_checkpoint_per_line(self, here: Path) -> None:
        command = [*COMMAND, "log", "single", "--follow", "--json", "--limit", "1"]
        with (
            BlockingClient.sqlite(here / "lastgood.db") as client,
            subprocess.Popen(
                command, cwd=here, stdout=subprocess.PIPE, text=True, env=environment()
            ) as process,
        ):
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["name"] == "single@2"
            client.save("solo", session_id="single", execution_state={}, step_name="third")
            assert json.loads(process.stdout.readline())["step_name"] == "third"
            process.terminate()

    def test_a_thread_that_is_deleted_is_told(self, here: Path) -> None:
        with (
            BlockingClient.sqlite(here / "lastgood.db") as client,
            on_terminal("log", "single", "--follow", cwd=here) as followed,
        ):
            followed.until("two")
            client.delete("single")
            followed.until("single was deleted.")
            client.save("solo", session_id="single", execution_state={}, step_name="anew")
            followed.until("anew")
            followed.interrupt()
            code, shown = followed.end()
        assert (code, shown.count("was deleted")) == (130, 1)

    def test_a_thread_that_was_deleted_before_the_first_look_is_told(self) -> None:
        told: list[str] = []

        async def look() -> None:
            direct = Client.memory()
            watch = watching.watch(
                direct._core, direct._driver, "t", None, 2, ended=lambda: told.append("ended")
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watch), watching.EVERY * 3)

        asyncio.run(look())
        assert told == ["ended"]

    def test_what_stands_before_is_filtered_too(self, here: Path) -> None:
        with (
            BlockingClient.sqlite(here / "lastgood.db") as client,
            on_terminal("log", "single", "--follow", "--step", "two", cwd=here) as followed,
        ):
            followed.until("two")
            client.save("solo", session_id="single", execution_state={}, step_name="third")
            client.save("solo", session_id="single", execution_state={}, step_name="two")
            followed.until("@4")
            followed.interrupt()
            _, shown = followed.end()
        assert ("one" in shown, "third" in shown) == (False, False)


def unread(*words: str, cwd: Path, errors: int) -> tuple[int, bytes | None]:
    """The exit code of a command whose output nobody reads, and its errors."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=cwd,
            stdout=gone,
            stderr=errors,
            env=environment(),
            check=False,
        )
    return done.returncode, done.stderr


def in_shell(words: str, cwd: Path) -> tuple[int, str]:
    """The exit code of a command whose streams a shell sets, and its errors."""
    line = f"{shlex.join(COMMAND)} {words}"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=cwd,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment(),
        check=False,
    )
    return done.returncode, done.stderr


def ages(text: str) -> list[list[str]]:
    """Lines without what changes with time."""
    return [re.sub(r"(\d+ s ago|now)\s*", "", line).split() for line in text.splitlines()]


def hiding(directory: Path, name: str, instead: str = "raise ImportError('not here')") -> str:
    """A PYTHONPATH on which a package cannot be imported."""
    package = directory / "hidden" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{instead}\n")
    return os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
