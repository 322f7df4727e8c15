"""The demo keeps what it promises, says so truthfully, and leaves nothing behind."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lastgood import BlockingClient, __version__
from lastgood.cli import COMMANDS, main
from lastgood.cli.demo_agent import AGENT, PAGES, THREAD, state_after, step
from lastgood.cli.demo_checks import Evidence, Findings, claims
from lastgood.cli.demo_process import Attempt
from lastgood.cli.terminal import ASCII, BOXES, Terminal

PROGRAM = "import sys; from lastgood.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Demo:
    code: int
    output: str
    errors: str
    temporary: Path

    @property
    def left_behind(self) -> list[Path]:
        return list(self.temporary.iterdir())


def environment(temporary: Path, **settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "TMPDIR": str(temporary), **settings}


def demo(temporary: Path, *options: str, **settings: str) -> Demo:
    result = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "demo", *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(temporary, **settings),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return Demo(result.returncode, result.stdout, result.stderr, temporary)


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return demo(tmp_path_factory.mktemp("piped"), PYTHONIOENCODING="utf-8")


def processes_in(text: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"\(process (\d+)\)", text)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
class TestInAPipe:
    def test_succeeds_without_a_word_of_complaint(self, piped: Demo) -> None:
        assert (piped.code, piped.errors) == (0, "")

    def test_every_claim_holds_and_none_is_missing(self, piped: Demo) -> None:
        assert len(re.findall(f"^ +{BOXES.good} ", piped.output, re.MULTILINE)) == 6
        assert BOXES.bad not in piped.output
        assert "Every claim above was checked and holds." in piped.output

    def test_kills_one_process_and_starts_another(self, piped: Demo) -> None:
        first, second = processes_in(piped.output)
        assert first != second
        assert f"kill -9 {first}" in piped.output

    def test_shows_progress_timeline_and_sizes(self, piped: Demo) -> None:
        assert f"{PAGES} of {PAGES} saved" in piped.output
        assert re.search(rf"@{PAGES + 1} +page {PAGES} ", piped.output)
        ours, naive = map(float, re.findall(r" ([\d.]+) MB", piped.output))
        assert 0 < ours < naive

    def test_ends_with_a_fork_the_log_as_a_graph_and_a_diff(self, piped: Demo) -> None:
        fork = re.escape(f"lastgood fork {THREAD}@{PAGES - 1} --branch careful --set ")
        assert re.search(fork, piped.output)
        assert re.search(
            rf"{BOXES.node} +@{PAGES + 2} +fork_of_{PAGES - 1} .*\(careful\)", piped.output
        )
        assert re.search(rf"{BOXES.head} +@{PAGES + 1} +page {PAGES} .*\(-> main\)", piped.output)
        assert f"{BOXES.tee}{BOXES.rule}{BOXES.corner}" in piped.output
        assert re.search(r"~ messages\[\d+\].content: \".*\" -> \"Ask a lawyer.\"", piped.output)

    def test_is_plain_text(self, piped: Demo) -> None:
        assert "\x1b" not in piped.output
        assert "\r" not in piped.output

    def test_leaves_no_process_and_no_file(self, piped: Demo) -> None:
        assert [pid for pid in processes_in(piped.output) if b"demo_agent" in command_of(pid)] == []
        assert piped.left_behind == []


@pytest.mark.slow
class TestWithOtherOutputs:
    def test_ascii_where_the_encoding_has_no_boxes_and_keeps_the_file_when_asked(
        self, tmp_path: Path
    ) -> None:
        shown = demo(tmp_path, "--keep", PYTHONIOENCODING="ascii")
        assert shown.code == 0
        assert shown.output.isascii()
        (kept,) = re.findall(r"Kept: (.*)", shown.output)
        with BlockingClient.sqlite(kept) as client:
            newest = client.latest(agent_id=AGENT, session_id=THREAD)
        assert newest is not None
        assert newest.state == state_after(PAGES)

    def test_colour_and_a_moving_line_on_a_terminal(self, tmp_path: Path) -> None:
        output = on_a_terminal(environment(tmp_path, TERM="xterm", COLUMNS="90"))
        assert "\x1b[32;1m" in output
        assert "\r\x1b[K" in output
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("settings", "colour", "live"),
        [
            ({"TERM": "xterm"}, True, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
            ({"TERM": "dumb"}, False, False),
        ],
    )
    def test_colour_is_a_matter_of_the_terminal(
        self, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], colour: bool, live: bool
    ) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        main_end, end = pty.openpty()
        with os.fdopen(main_end, "rb"), os.fdopen(end, "w", encoding="latin-1") as out:
            terminal = Terminal.on(out)
        assert (terminal.colour, terminal.live, terminal.glyphs) == (colour, live, ASCII)


def on_a_terminal(settings: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-c", PROGRAM, "demo"]
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings
        )
        os.close(theirs)
        output = b"".join(reading(screen.fileno()))
        assert process.wait() == 0
    return output.decode()


def reading(terminal: int) -> Iterator[bytes]:
    """A terminal whose other end was closed gives an error on Linux, nothing elsewhere."""
    try:
        while data := os.read(terminal, 65536):
            yield data
    except OSError:
        return


def hears_ctrl_c() -> None:
    """In the child: a shell that started us in the background may have told us to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
class TestInterrupted:
    @pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_ends_at_once_and_cleans_up(
        self, tmp_path: Path, sent: signal.Signals, code: int
    ) -> None:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, "demo"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path, PYTHONIOENCODING="utf-8"),
            preexec_fn=hears_ctrl_c,
        )
        assert process.stdout is not None
        shown = ""
        while "8 of" not in shown:
            shown += process.stdout.readline()
        process.send_signal(sent)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (code, "")
        assert list(tmp_path.iterdir()) == []
        assert [pid for pid in processes_in(shown) if b"demo_agent" in command_of(pid)] == []

    def test_the_agent_does_not_outlive_a_demo_that_was_killed(self, tmp_path: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, "demo"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(tmp_path, PYTHONIOENCODING="utf-8"),
        ) as process:
            assert process.stdout is not None
            shown = ""
            while "16 of" not in shown:
                shown += process.stdout.readline()
            process.kill()
        (agent,) = processes_in(shown)
        wait_until_gone(agent)


def wait_until_gone(pid: int) -> None:
    """No clock: whoever waits too long is ended by the time limit of the test run."""
    while b"demo_agent" in command_of(pid):
        os.sched_yield()


class TestTheChecks:
    """A check that cannot fail proves nothing."""

    VICTIM = 3

    def verdicts(self, evidence: Evidence) -> list[bool]:
        return [holds() for _, holds in claims(evidence, self.VICTIM)]

    @pytest.fixture
    def evidence(self, tmp_path: Path) -> Evidence:
        first = attempt(exit_code=-signal.SIGKILL, number=1, began=[1, 2, 3], saved=[1, 2])
        rest = list(range(3, PAGES + 1))
        second = attempt(exit_code=0, number=2, began=rest, saved=rest)
        with BlockingClient.sqlite(tmp_path / "a.db") as client:
            between = recorded(client, 2)
            end = recorded(client, PAGES)
        return Evidence(first, between, second, end)

    def test_all_hold_for_a_true_story(self, evidence: Evidence) -> None:
        assert self.verdicts(evidence) == [True] * 6

    def test_an_agent_that_ended_by_itself_was_not_killed(self, evidence: Evidence) -> None:
        evidence.first.process.returncode = 0
        assert self.verdicts(evidence) == [False, True, True, True, True, True]

    def test_a_saved_step_that_is_not_on_disk_is_noticed(self, evidence: Evidence) -> None:
        lost = Findings(evidence.between.history[:-1], evidence.between.thread)
        told = Evidence(evidence.first, lost, evidence.second, evidence.end)
        assert self.verdicts(told)[1] is False

    def test_a_step_that_ran_again_is_noticed(self, evidence: Evidence) -> None:
        evidence.second.began.insert(0, 2)
        assert self.verdicts(evidence) == [True, True, False, False, True, True]

    def test_another_run_is_not_a_resumed_one(self, evidence: Evidence) -> None:
        evidence.second.run_id = "another"
        assert self.verdicts(evidence)[2] is False

    def test_a_wrong_final_state_is_noticed(self, evidence: Evidence) -> None:
        evidence.end.history[-1].state["messages"].pop()
        assert self.verdicts(evidence)[4:] == [False, False]

    def test_a_gap_in_the_chain_is_noticed(self, evidence: Evidence) -> None:
        gap = Findings([*evidence.end.history[:5], *evidence.end.history[6:]], evidence.end.thread)
        told = Evidence(evidence.first, evidence.between, evidence.second, gap)
        assert self.verdicts(told)[4:] == [False, False]


def attempt(*, exit_code: int, number: int, began: list[int], saved: list[int]) -> Attempt:
    process = subprocess.Popen[str].__new__(subprocess.Popen)
    process.returncode, process._child_created = exit_code, False  # type: ignore[attr-defined]
    return Attempt(process, "run", number, began, saved)


def recorded(client: BlockingClient, pages: int) -> Findings:
    """The history that the agent leaves after so many pages."""
    with client.run(THREAD, agent_id=AGENT, initial=state_after(0)) as run:
        for page in range(run.state["pages_read"] + 1, pages + 1):
            step(run.state, page)
            run.save(step_name=f"page {page}")
        if pages == PAGES:
            run.finish()
    return Findings(client.timeline(AGENT, THREAD, limit=100)[::-1], client.threads()[0])


class TestTheCommand:
    def test_tells_its_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as leaving:
            main(["--version"])
        assert leaving.value.code == 0
        assert capsys.readouterr().out == f"lastgood {__version__}\n"

    def test_lists_every_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["--help"])
        shown = " ".join(capsys.readouterr().out.split())
        assert [command.name for command in COMMANDS if command.help not in shown] == []

    def test_wants_a_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as leaving:
            main([])
        assert leaving.value.code == 2
        assert capsys.readouterr().err == (
            "lastgood: the following arguments are required: COMMAND. See `lastgood --help`.\n"
        )

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["lgo"], "there is no command 'lgo'. Did you mean 'log'?"),
            (["dance"], "there is no command 'dance'."),
            (
                ["log", "--grpah"],
                "log: unrecognized arguments: --grpah. Did you mean '--graph'? See `lastgood log -",
            ),
            (["log", "--step=x", "y", "--zzz"], "unrecognized arguments: --zzz. See `lastgood log"),
            (["log", "--limit", "x"], "argument --limit: 'x' is not a number from 1 on."),
            (["log", "--before", "x"], "argument --before: 'x' is not a number as `lastgood log`"),
            (["threads", "--status", "idel"], "there is no 'idel'. Did you mean 'idle'?"),
            (["threads", "--sort", "x"], "there is no 'x'. Write updated, created or name."),
        ],
    )
    def test_says_in_one_line_what_it_does_not_know(
        self, capsys: pytest.CaptureFixture[str], words: list[str], said: str
    ) -> None:
        with pytest.raises(SystemExit) as leaving:
            main(words)
        assert leaving.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
