"""The pictures of the explanations are what their script draws, for light and for dark pages."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from docs_scripts import DOCS, load

DIAGRAMS = DOCS / "diagrams"
draw = load(DIAGRAMS / "draw.py")

each_picture = pytest.mark.parametrize("picture", draw.PICTURES, ids=lambda picture: picture.name)


@each_picture
def test_up_to_date(picture: Any) -> None:
    assert (DIAGRAMS / picture.name).read_text() == draw.rendered(picture), "run `make images`"


@each_picture
def test_one_image_for_light_and_dark_that_some_page_shows(picture: Any) -> None:
    text = (DIAGRAMS / picture.name).read_text()
    ET.fromstring(text)
    assert "prefers-color-scheme: dark" in text
    assert any(f"diagrams/{picture.name}" in page.read_text() for page in DOCS.rglob("*.md"))


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in DIAGRAMS.glob("*.svg")} == {p.name for p in draw.PICTURES}
