"""The reference pages are what the docstrings say today, and leave nothing out."""

import re
from dataclasses import fields
from inspect import Parameter, signature
from types import ModuleType

import pytest

import lastgood
from docs_scripts import DOCS, load
from lastgood.core import Options
from lastgood.opening import ClientOptions

REFERENCE = DOCS / "reference"
OWN = "Some factories have options of their own"


@pytest.fixture(scope="module")
def write() -> ModuleType:
    return load(REFERENCE / "write.py")


def test_the_page_of_the_interface_is_what_would_be_made(write: ModuleType) -> None:
    assert (REFERENCE / "api.md").read_text() == write.api(), "run `make reference`"


def test_the_page_of_errors_is_what_would_be_made(write: ModuleType) -> None:
    assert (REFERENCE / "errors.md").read_text() == write.error_page(), "run `make reference`"


def test_every_public_name_is_described(write: ModuleType) -> None:
    described = {name for s in write.SECTIONS if s.owner is None for name in s.names.split()}
    described |= {error.__name__ for error in write.error_classes()}
    assert set(lastgood.__all__) - described == {"__version__"}


def test_every_method_of_a_client_is_described(write: ModuleType) -> None:
    described = {name for s in write.SECTIONS if s.owner for name in s.names.split()}
    public = {name for name in dir(lastgood.Client) if not name.startswith("_")}
    assert public - described == {"over"}, "`over` is for the other colour of a client alone"


def test_every_option_is_on_its_page_with_its_default() -> None:
    page = (DOCS / "how-to" / "options.md").read_text().partition(OWN)[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    assert rows.keys() == ClientOptions.__annotations__.keys()
    defaults = {f.name: f.default for f in fields(Options)}
    spelled = {"none": None, "64 MiB": 64 << 20}
    shown = {name: spelled.get(text, text.strip("`")) for name, text in rows.items()}
    assert {name: str(shown[name]).strip('"') for name in defaults} == {
        name: f"{default:g}" if isinstance(default, float) else str(default)
        for name, default in defaults.items()
    }


@pytest.mark.parametrize("factory", ["sqlite", "files", "memory", "postgres", "redis", "open"])
def test_every_option_of_a_factory_alone_is_there(factory: str) -> None:
    page = (DOCS / "how-to" / "options.md").read_text().partition(OWN)[2]
    told = {
        option
        for factories, options in re.findall(r"^\| (`.+?`) \| (`.+?`) \|", page, re.MULTILINE)
        if f"`{factory}`" in factories
        for option in re.findall(r"`(\w+)`", options)
    }
    parameters = signature(getattr(lastgood.Client, factory)).parameters.values()
    assert told == {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}


def test_every_error_says_when_and_what_to_do(write: ModuleType) -> None:
    assert {error.__name__ for error in write.error_classes()} == write.NOTES.keys()
