"""The keys of --json: what is written beside what is documented."""

from cli.keys import differences, section, under

import pytest

PHASE = {"name": "of the phase", "cycles, macs": "counted", "stalls?{}": "by cause"}
KEYS = {"lanes": "N", "seed?": "of the texts"} | under("phases[].", PHASE)
SOUND = {"name": "q", "cycles": 3, "macs": [[1, 2]], "stalls": {"norm": 1}}
LACKS = {name: value for name, value in SOUND.items() if name != "macs"}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"lanes": 4, "phases": []}, []),
        ({"lanes": 4, "seed": 1, "phases": [SOUND, SOUND]}, []),
        ({"lanes": None, "phases": None}, []),
        ({"phases": []}, ["lanes is documented, and not written"]),
        ({"lanes": 4, "phases": [], "time": 1}, ["time is not documented"]),
        ({"lanes": {"n": 4}, "phases": []}, ["lanes is not documented as dict"]),
        ({"lanes": 4, "phases": 3}, ["phases is not documented as int"]),
        ({"lanes": 4, "phases": SOUND}, ["phases is not documented as dict"]),
        ({"lanes": 4, "phases": [SOUND, LACKS]}, ["phases[].macs is documented, and not written"]),
        ({"lanes": 4, "phases": [SOUND | {"x": 0}]}, ["phases[].x is not documented"]),
    ],
)
def test_what_is_written_is_held_to_what_is_documented(value, wrong):
    assert differences(KEYS, value) == wrong
    assert differences({"[]": "an inference each"} | KEYS, [value, value]) == 2 * wrong
    assert differences(KEYS, [value]) == ["the file is not documented as list"]


def test_a_phrase_stands_beside_its_paths(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert section("keys", KEYS).splitlines() == [
        "keys:",
        "  lanes                   N",
        "  seed?                   of the texts",
        "  phases[].name           of the phase",
        "  phases[].cycles, .macs  counted",
        "  phases[].stalls?{}      by cause",
    ]
