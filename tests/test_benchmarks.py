"""The benchmark's own machinery: workloads run, gates judge, the page tells all of it.

Nothing here looks at a clock. The page and the pictures are made from a stored result of a small
run; workloads run at a hundredth of their size, each in a process of its own, as they always do.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as main
from benchmarks import bulk, charts, page, readme
from benchmarks.figures import Outcome, durable, require_equal
from benchmarks.gates import Gate, Limit, Share, Times, Within, judge
from benchmarks.report import LeftOut, Measurement, Run, medians, show, spelled, verdicts
from benchmarks.scenarios import Scenario, window
from benchmarks.stores import DESCRIPTIONS, STEPS
from benchmarks.workloads import WORKLOADS
from lastgood import BlockingClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SAMPLE = Path(__file__).parent / "golden" / "benchmark-result.json"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SAMPLE.read_text())
    return found


def measured(workload: str, **figures: list[dict[str, float]]) -> list[Measurement]:
    """What the rounds of each store gave."""
    return [
        Measurement(workload, store.replace("_", "-"), number, Outcome(values, "wal FULL"))
        for store, rounds in figures.items()
        for number, values in enumerate(rounds)
    ]


class TestGates:
    @pytest.mark.parametrize(
        ("gate", "value", "met"),
        [
            (Times("seconds", "ours", "peer", 3), 4, True),
            (Times("seconds", "ours", "peer", 5), 4, False),
            (Within("seconds", "ours", "peer", 0.3), 0.25, True),
            (Within("seconds", "ours", "peer", 0.2), 0.25, False),
            (Share("bytes", "seconds", "ours", 5), 5, True),
            (Share("bytes", "seconds", "ours", 4.9), 5, False),
            (Limit("bytes", "ours", 10), 10, True),
            (Limit("bytes", "ours", 9), 10, False),
        ],
    )
    def test_a_bound_is_met_or_not(self, gate: Gate, value: float, met: bool) -> None:
        figures = {"ours": {"seconds": 2, "bytes": 10}, "peer": {"seconds": 8, "bytes": 40}}
        verdict = judge("w", gate, [figures])
        assert verdict is not None
        assert (verdict.value, verdict.met) == (value, met)

    def test_a_ratio_is_formed_inside_a_round(self) -> None:
        rounds = measured(
            "w1",
            lastgood_save=[{"seconds": 1, "bytes": 1}, {"seconds": 10, "bytes": 1}],
            langgraph_sqlite=[{"seconds": 4, "bytes": 1}, {"seconds": 20, "bytes": 1}],
        )
        gate = Times("seconds", "lastgood-save", "langgraph-sqlite", 3)
        figures = [
            {m.store: m.outcome.figures for m in rounds if m.repetition == n} for n in (0, 1)
        ]
        verdict = judge("w1", gate, figures)
        assert verdict is not None
        assert (verdict.value, verdict.lowest, verdict.highest) == (3, 2, 4)

    def test_a_store_that_was_not_measured_gives_no_verdict(self) -> None:
        assert judge("w1", Times("seconds", "ours", "peer", 1), [{"ours": {"seconds": 1}}]) is None

    def test_the_gates_of_a_workload_name_its_stores(self) -> None:
        for name, workload in WORKLOADS.items():
            for gate in workload.gates:
                stores = {getattr(gate, field, None) for field in ("ours", "peer", "store")} - {
                    None
                }
                assert stores <= set(workload.stores), name
            assert workload.once <= set(workload.stores), name


class TestFigures:
    def test_what_differs_is_no_result(self) -> None:
        with pytest.raises(AssertionError, match="something else"):
            require_equal("store", {"n": 1}, {"n": 2})

    @pytest.mark.parametrize(
        ("promised", "pragmas", "fine"),
        [
            (2, {("wal", 2)}, True),
            (2, {("wal", 3), ("delete", 2)}, True),
            (2, {("wal", 1)}, False),
            (2, {("wal", 2), ("wal", 1)}, False),
            (1, {("wal", 1)}, True),
            (1, {("wal", 2)}, False),
            (2, set(), False),
        ],
    )
    def test_every_connection_keeps_the_promise(
        self, promised: int, pragmas: set[tuple[str, int]], fine: bool
    ) -> None:
        if fine:
            assert durable("store", promised, pragmas)
        else:
            with pytest.raises(AssertionError, match="does not commit"):
                durable("store", promised, pragmas)

    def test_the_median_of_the_rounds(self) -> None:
        rounds = measured("w3", lastgood=[{"seconds": s, "bytes": 1} for s in (5, 1, 3)])
        assert medians("w3", rounds) == {"lastgood": {"seconds": 3, "bytes": 1}}
        assert verdicts("w3", rounds) == []


def test_a_peer_that_does_not_run_is_named(result: dict[str, Any]) -> None:
    run = Run(1, measured("w3", lastgood=[{"seconds": 1}]), [LeftOut("w1", "dbos", "no SQLite")])
    assert "LEFT OUT w1 dbos: no SQLite" in show(run)
    result["left_out"] = [{"workload": "w1", "store": "dbos", "reason": "no SQLite"}]
    assert "**dbos** did not run w1 here: no SQLite" in page.page(result)


class TestScenarios:
    def test_steps_are_applied_to_a_state_of_their_own(self) -> None:
        scenario = Scenario({"a": [1], "d": {}}, [[["extend", "a", [2]], ["put", "d", "k", 3]]])
        assert scenario.after(1) == {"a": [1, 2], "d": {"k": 3}}
        assert scenario.first == {"a": [1], "d": {}}

    def test_a_window_stays_a_window(self) -> None:
        scenario = window(0.2)
        lengths = [len(scenario.after(n)["messages"]) for n in (100, 140, 149, 150, 180)]
        assert lengths == [102, 182, 200, 151, 200]


ON_SERVERS = [
    pytest.param(workload, store, marks=pytest.mark.server)
    for workload, store in (
        ("w1-postgres", "lastgood-postgres-append"),
        ("w4-postgres", "lastgood-postgres"),
        ("w5-postgres", "lastgood-postgres-uncached"),
    )
]


def runnable() -> list[tuple[str, str]]:
    """Every store of W1 that needs no peer's library, and one of ours on the other workloads."""
    own = ("floor", "json-rows", "lastgood-append", "lastgood-save", "pickle-files")
    others = (
        *("w1-relaxed", "w1b", "w2", "w6", "w7", "w8", "w3", "w5", "w4", "look", "diff", "w10"),
        "w11",
    )
    firsts = [next(s for s in WORKLOADS[name].stores if "lastgood" in s) for name in others]
    return [*(("w1", store) for store in own), *zip(others, firsts, strict=True)]


@pytest.mark.parametrize(("workload", "store"), [*runnable(), *ON_SERVERS])
def test_a_workload_runs_and_compares_what_it_restores(
    workload: str, store: str, tmp_path: Path
) -> None:
    arguments = ["--scale", "0.01", "--measure", workload, store, str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcome = Outcome(**json.loads(done.stdout))
    shown = set(WORKLOADS[workload].columns)
    assert shown <= set(outcome.figures)
    assert ("NORMAL" in outcome.durability) == store.endswith("relaxed")


@pytest.mark.parametrize("way", ["sqlite3", "sqlite3.dbapi2"])
def test_connections_are_seen_whichever_way_a_store_opens_them(way: str, tmp_path: Path) -> None:
    """SQLAlchemy takes the driver from the second: unseen, its stores cannot be asked."""
    code = (
        "import sys, importlib; from benchmarks.stores.spy import spy; seen = spy();"
        "kept = importlib.import_module(sys.argv[1]).connect(sys.argv[2]); print(seen.pragmas())"
    )
    command = [sys.executable, "-c", code, way, str(tmp_path / "x.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{('delete', 2)}"


def test_a_measurement_that_does_not_end_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "PATIENCE", 0.5)
    done = main._completed([sys.executable, "-c", "import time; time.sleep(60)"])
    assert (done.returncode, done.stderr) == (1, "no end after 0.5 seconds")


def test_a_store_made_in_bulk_reads_like_a_real_one(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    bulk.fill(path, 3, 120)
    with BlockingClient.sqlite(path) as client:
        headers, after = [], None
        while not headers or after:
            found = client.log(bulk.thread_name(2), after=after)
            headers, after = [*headers, *found], found.next
        assert [header.seq for header in headers] == list(range(120, 0, -1))
        assert [info.checkpoints for info in client.threads()] == [120] * 3
        assert client.verify(data=True).clean


class TestPage:
    def test_it_has_every_workload_every_goal_and_every_store(self, result: dict[str, Any]) -> None:
        made = page.page(result)
        for about in result["workloads"].values():
            assert about["title"] in made
            assert all(gate["gate"] in made for gate in about["gates"])
            assert all(f"- **{store}**: " in made for store in about["medians"])

    def test_a_missed_goal_is_named_where_we_lose(self, result: dict[str, Any]) -> None:
        missed = [gate for gate in page.gates(result) if not gate["met"]]
        losses = page.page(result).partition("## Where we lose")[2].partition("## Every")[0]
        assert missed
        assert all(f"{gate['workload']}, {gate['gate']};" in losses for gate in missed)

    def test_a_figure_in_which_a_peer_is_ahead_is_named_too(self, result: dict[str, Any]) -> None:
        medians = result["workloads"]["w1"]["medians"]
        medians["langgraph-sqlite"]["middle_ms"] = 1e-3
        losses = page.page(result).partition("## Where we lose")[2].partition("## Every")[0]
        assert "w1, middle ms: langgraph-sqlite 0.001" in losses

    def test_nothing_to_confess(self, result: dict[str, Any]) -> None:
        for about in result["workloads"].values():
            about["gates"] = []
            about["medians"] = {s: f for s, f in about["medians"].items() if "lastgood" in s}
        assert "Nowhere in this run" in page.page(result)

    def test_tables_are_rectangular(self, result: dict[str, Any]) -> None:
        widths: set[int] = set()
        for line in [*page.page(result).splitlines(), ""]:
            if line.startswith("|"):
                widths.add(line.count("|"))
            else:
                assert len(widths) <= 1
                widths = set()

    def test_a_small_run_makes_no_page(self, result: dict[str, Any]) -> None:
        assert not page.complete(result)
        assert page.complete({**result, "scale": 1})
        assert not page.complete({"scale": 1, "workloads": {"w1": {}}})
        with pytest.raises(SystemExit, match="make bench first"):
            page.chosen(SAMPLE)

    def test_every_store_is_described(self) -> None:
        used = {store for workload in WORKLOADS.values() for store in workload.stores}
        assert used == set(DESCRIPTIONS)
        assert set(STEPS) <= used

    def test_a_result_file_is_json_with_a_measurement_per_line(
        self, result: dict[str, Any]
    ) -> None:
        text = spelled(result)
        assert json.loads(text) == result
        lines = [line for line in text.splitlines() if '"workload": "w1", "store"' in line]
        assert len(lines) == len(result["measurements"])


class TestReadme:
    def test_its_figures_are_replaced_and_nothing_else(self, result: dict[str, Any]) -> None:
        text = (ROOT / "README.md").read_text()
        once = readme.with_figures(text, readme.readme_figures(result))
        assert readme.with_figures(once, readme.readme_figures(result)) == once
        assert text.partition(readme.BEGIN)[0] == once.partition(readme.BEGIN)[0]
        assert text.partition(readme.END)[2] == once.partition(readme.END)[2]
        seconds = result["workloads"]["w1"]["medians"]["lastgood-save"]["seconds"]
        assert f"{seconds:.2f} s" in once

    def test_without_its_marks_it_is_left_alone(self) -> None:
        with pytest.raises(ValueError, match="no place"):
            readme.with_figures("# Title", "figures")


class TestPictures:
    @pytest.mark.parametrize("name", charts.CHARTS)
    def test_a_curve_and_a_label_for_every_store(self, name: str, result: dict[str, Any]) -> None:
        root = ET.fromstring(charts.pictures(result)[name])
        stores = set(result["workloads"]["w1"]["medians"])
        curves = {line.get("class", "").split()[0] for line in root.iter(f"{SVG}polyline")}
        labels = [text for text in root.iter(f"{SVG}text") if "label" in text.get("class", "")]
        assert curves == {text.get("class", "").split()[0] for text in labels} == stores

    @pytest.mark.parametrize("name", charts.CHARTS)
    def test_no_label_covers_another(self, name: str, result: dict[str, Any]) -> None:
        root = ET.fromstring(charts.pictures(result)[name])
        labels = [text for text in root.iter(f"{SVG}text") if "label" in text.get("class", "")]
        places = [float(text.get("y", "")) for text in labels]
        gaps = [below - above for above, below in pairwise(places)]
        assert min(gaps) >= charts.LABEL - 0.11
        assert max(places) < charts.HEIGHT

    @pytest.mark.parametrize("name", charts.CHARTS)
    def test_it_speaks_to_all_readers(self, name: str, result: dict[str, Any]) -> None:
        text = charts.pictures(result)[name]
        root = ET.fromstring(text)
        assert root.get("role") == "img"
        assert root.findtext(f"{SVG}title") == charts.CHARTS[name].title
        assert "lastgood-append" in (root.findtext(f"{SVG}desc") or "")
        assert "prefers-color-scheme: dark" in text

    @pytest.mark.parametrize("name", charts.CHARTS)
    def test_every_point_lies_inside_the_picture(self, name: str, result: dict[str, Any]) -> None:
        root = ET.fromstring(charts.pictures(result)[name])
        for line in root.iter(f"{SVG}polyline"):
            for point in line.get("points", "").split():
                x, y = map(float, point.split(","))
                assert charts.LEFT <= x <= charts.WIDTH - charts.RIGHT
                assert charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM

    def test_larger_values_stand_higher(self) -> None:
        scale = charts.Scale([charts.Curve("floor", [1, 100], [0.01, 300])])
        assert scale.y(0.01) > scale.y(1) > scale.y(300)
        assert scale.ticks() == [0.01, 0.1, 1, 10, 100]
        assert charts.Scale([charts.Curve("floor", [1], [2, 40])]).ticks() == [2, 5, 10, 20, 50]
