"""The stored form of a released version never changes: data written today is read for ever.

`tests/golden/codec-v1.json` lists values in text spelling with their bytes. When a kind is added,
add a line; a line that is there is never edited. Run as a script, this file prints all lines.
"""

import json
from pathlib import Path

import pytest
from codec_samples import SAMPLES, same

from lastgood.codec import FORMAT, Codec
from lastgood.codec.decoder import KINDS
from lastgood.codec.kinds import Number

GOLDEN = Path(__file__).parents[1] / "golden" / f"codec-v{FORMAT}.json"
# Other libraries decide which fields these have.
FOREIGN = {"messages"}
codec = Codec()


def golden() -> dict[str, dict[str, object]]:
    return json.loads(GOLDEN.read_text("utf-8"))


@pytest.mark.parametrize("name", golden())
def test_the_bytes_and_the_text_of_a_value_are_what_they_always_were(name):
    row = golden()[name]
    packed = bytes.fromhex(row["hex"])
    text = json.dumps(row["text"])
    assert same(codec.unpack(packed), SAMPLES[name])
    assert same(codec.loads_text(text), SAMPLES[name])
    assert codec.pack(SAMPLES[name]).hex() == row["hex"]
    assert json.loads(codec.dumps_text(SAMPLES[name])) == row["text"]


def test_every_sample_is_in_the_golden_file():
    assert set(golden()) == set(SAMPLES) - FOREIGN


def test_no_number_or_tag_of_a_kind_is_used_twice():
    numbers = [value for name, value in vars(Number).items() if name.isupper()]
    assert len(numbers) == len(set(numbers))
    assert len({kind.tag for kind in KINDS.values()}) == len(KINDS)


def rows() -> dict[str, dict[str, object]]:
    """What the golden file would hold if it were written now."""
    return {
        name: {"text": json.loads(codec.dumps_text(value)), "hex": codec.pack(value).hex()}
        for name, value in SAMPLES.items()
        if name not in FOREIGN
    }


if __name__ == "__main__":
    print(json.dumps(rows(), indent=1, ensure_ascii=False))
