"""The pictures of the README are what the command line prints today."""

import importlib.util
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"


def _render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", IMAGES / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["render"] = module
    spec.loader.exec_module(module)
    return module


render = _render()


@pytest.mark.parametrize("picture", render.PICTURES, ids=lambda picture: picture.name)
def test_up_to_date(picture: Any) -> None:
    assert (IMAGES / picture.name).read_text() == render.rendered(picture), "run `make images`"


@pytest.mark.parametrize("picture", render.PICTURES, ids=lambda picture: picture.name)
def test_is_one_image_for_light_and_dark(picture: Any) -> None:
    text = (IMAGES / picture.name).read_text()
    ET.fromstring(text)
    assert "prefers-color-scheme: dark" in text
    assert picture.command in text
    assert picture.name in (ROOT / "README.md").read_text()


def test_no_picture_is_left_over() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text() for page in pages)
    assert [path.name for path in IMAGES.glob("*.svg") if path.name not in shown] == []
