"""A process killed at a named point of an operation: it is there, whole, or it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failpoint_driver import OPERATIONS
from stores import is_files, is_redis

from lastgood.testing.faults.kills import POINTS, REMOTE_POINTS


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, driver: Callable[..., Any]) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("failpoints")
    return driver("failpoint_driver", base=str(directory), what="operations")


@pytest.fixture(scope="module")
def files_report(
    tmp_path_factory: pytest.TempPathFactory, driver: Callable[..., Any]
) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("failpoints")
    return driver("failpoint_driver", base=f"files:{directory}", what="operations")


@pytest.fixture(scope="module")
def server_report(postgres_url: str, driver: Callable[..., Any]) -> dict[str, str]:
    return driver("failpoint_driver", base=postgres_url, what="operations")


@pytest.fixture(scope="module")
def redis_report(valkey_url: str, driver: Callable[..., Any]) -> dict[str, str]:
    return driver("failpoint_driver", base=valkey_url, what="operations")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("operation", [operation.__name__ for operation in OPERATIONS])
def test_a_kill_leaves_all_or_nothing(operation: str, point: str, report: dict[str, str]) -> None:
    assert report[f"{operation}/{point}"] == ""


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("operation", [operation.__name__ for operation in OPERATIONS])
def test_a_kill_leaves_all_or_nothing_in_files(
    operation: str, point: str, files_report: dict[str, str]
) -> None:
    assert files_report[f"{operation}/{point}"] == ""


def test_a_kill_before_any_step_on_the_disk_leaves_all_or_nothing(
    place: Path, driver: Callable[..., Any]
) -> None:
    """Half of a file is written, a file is in its place, a name is not synced, ..."""
    report = driver("failpoint_driver", base=f"files:{place}", what="steps")
    assert {step: wrong for step, wrong in report.items() if wrong} == {}
    assert {step.partition("/")[0] for step in report} == {each.__name__ for each in OPERATIONS}
    assert len(report) > 3 * len(OPERATIONS)


@pytest.mark.parametrize("point", REMOTE_POINTS)
@pytest.mark.parametrize("operation", [operation.__name__ for operation in OPERATIONS])
def test_a_kill_of_a_client_leaves_all_or_nothing_on_its_server(
    operation: str, point: str, server_report: dict[str, str]
) -> None:
    assert server_report[f"{operation}/{point}"] == ""


@pytest.mark.parametrize("point", REMOTE_POINTS)
@pytest.mark.parametrize("operation", [operation.__name__ for operation in OPERATIONS])
def test_a_kill_of_a_client_leaves_all_or_nothing_in_redis(
    operation: str, point: str, redis_report: dict[str, str]
) -> None:
    assert redis_report[f"{operation}/{point}"] == ""


@pytest.mark.parametrize("what", ["first read", "first save"])
def test_a_kill_anywhere_in_the_first_open_of_a_new_store_leaves_it_usable(
    what: str, base: str, driver: Callable[..., Any]
) -> None:
    report = driver("failpoint_driver", base=base, what=what)
    least = (what == "first save") * 10 if is_files(base) else 10 if is_redis(base) else 20
    assert len(report) >= least, "every statement of the first open had its turn"
    assert {nth: wrong for nth, wrong in report.items() if wrong} == {}
