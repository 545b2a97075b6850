import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from quant.foreign.tokenizer import Tokens
from quant.measure.compare import TensorError
from quant.measure.tasks import Evaluation
from quant.page import overview

pytestmark = pytest.mark.slow

# Labels 0 0 1 1 and none. The first is right, the second changed, the third wrong in both models,
# the fourth right, the fifth changed.
RESULT = Evaluation(
    names=("no", "<yes>"),
    labels=np.array([0, 0, 1, 1, -1]),
    float_logits=np.array([[2, 1], [2, 1], [2, 1], [1, 2], [2, 1.9]], np.float32),
    integer_logits=np.array([[200, 100], [100, 130], [200, 190], [100, 200], [200, 210]]),
    logit_scale=0.01,
    tokens=40,
    errors={
        "fine": TensorError(1000, 0, 2e4, 1.0, 2.0, 0.5),
        "bad": TensorError(1000, 10, 10.0, 1.0, 2.0, 0.5, np.array([1, 1, 50.0])),
    },
    traced=5,
)
TEXTS = [
    Tokens(np.arange(4), np.zeros(4), ("[CLS]", f"text{i}", "<b>un", "##said", "[SEP]"))
    for i in range(5)
]


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_the_verdict_names_what_is_poor() -> None:
    html = overview.verdict(RESULT)
    assert parsed(html)[0].attrib["class"] == "verdict poor"
    assert "gives 60.00% of 5 texts the class" in html
    assert "Accuracy 75.00% float, 50.00% integer (-25.00 points)." in html
    assert "bad: SQNR 10.0 dB, below 15" in html
    good = replace(RESULT, integer_logits=RESULT.float_logits, errors={})
    assert parsed(overview.verdict(good))[0].attrib["class"] == "verdict good"


@pytest.mark.parametrize(
    ("right", "labels", "guesses"),
    [
        (150, [0] * 150 + [1] * 150, True),
        (167, [0] * 150 + [1] * 150, True),  # two deviations of a half of 300 texts: 17.3
        (168, [0] * 150 + [1] * 150, False),
        (270, [0] * 270 + [1] * 30, True),  # as often as the more frequent class
        (299, [0] * 270 + [1] * 30, False),
        (100, [0] * 100 + [1] * 100 + [2] * 100, True),
        (150, [0] * 100 + [1] * 100 + [2] * 100, False),
        (14, [0] * 14 + [1] * 15, False),  # too few to tell
        (300, [1] * 300, False),  # one class alone tells nothing
        (30, [0] * 30 + [1] * 30 + [-1] * 500, True),  # texts without a label do not count
    ],
)
def test_a_model_that_guesses_is_said_to(right: int, labels: list[int], guesses: bool) -> None:
    names = ("no", "<yes>", "other")
    found = np.array(labels)
    answers = found.copy()
    answers[right : np.count_nonzero(found >= 0)] = (
        found[right : np.count_nonzero(found >= 0)] + 1
    ) % 3
    logits = np.eye(3)[answers]
    result = Evaluation(
        names=names,
        labels=found,
        float_logits=logits.astype(np.float32),
        integer_logits=(100 * logits).astype(int),
        logit_scale=0.01,
        tokens=40,
        errors={"a<b": TensorError(1000, 0, 4e3, 1.0), "c": TensorError(1000, 0, 2e5, 1.0)},
        traced=5,
    )
    html = overview.verdict(result)
    assert ("no better than always answering" in html) == guesses
    assert parsed(html)[0].attrib["class"] == f"verdict {'poor' if guesses else 'good'}"
    assert ("a model that guesses" in html) == guesses
    assert "noise, a&lt;b, has 36.0 dB of signal to it, where 15 are enough." in html
    if guesses:
        most = np.bincount(found[found >= 0]).max() / np.count_nonzero(found >= 0)
        assert f"which is right on {100 * most:.2f}%" in html
    poor = overview.verdict(replace(result, errors=RESULT.errors))
    assert "<b>Poor quantization.</b>" in poor
    assert ("no better than always answering" in poor) == guesses


def test_texts_without_labels_say_nothing_of_accuracy() -> None:
    html = overview.verdict(replace(RESULT, labels=np.full(5, -1)))
    assert "The texts have no labels" in html
    assert "Accuracy" not in html


def test_tensors_come_worst_first_and_the_rest_is_folded() -> None:
    errors = {f"t{i:02}": TensorError(10, 0, 10.0 ** (9 - i / 2), 1.0) for i in range(15)}
    html = overview.tensors(replace(RESULT, errors=errors | RESULT.errors))
    names = re.findall(r"<tr><td>(.*?)</td>", html)
    assert names[0] == "bad"
    by_name = [f"t{i:02}" for i in range(14, -1, -1)]
    assert names[1:] == [*by_name[:5], "fine", *by_name[5:]]  # fine has 43 dB, t10 40, t09 45
    before, folded = html.split("<details>")
    assert before.count("<td>bad</td>") == 1
    assert "<summary>5 better tensors</summary>" in folded
    assert "<td>2 (50x)</td>" in before
    assert "<td>10.0</td><td>4.0</td><td>1.000%</td>" in before
    parsed(html)


def test_counts_of_a_matrix_have_the_colour_that_its_shade_asks_for() -> None:
    cells = [e for e in parsed(overview.confusions(RESULT)).iter("text") if e.text in "0123"]
    assert {e.attrib["style"] for e in cells} == {"fill:#fff", "fill:#222"}
    # The style of the page sets the fill of text: an attribute has no say.
    assert not [e for e in cells if "fill" in e.attrib]


def test_wrong_texts_begin_with_those_that_quantization_changed() -> None:
    html = overview.wrong_texts(RESULT, TEXTS)
    root = parsed(html)
    assert "Quantization changed the class of 2; 1 others are wrong in both models." in html
    before, folded = html.split("<details>")
    assert (before.count("<li>"), folded.count("<li>")) == (2, 1)
    assert "<summary>Texts that are wrong in both models: 1 of 1</summary>" in folded
    items = [" ".join("".join(item.itertext()).split()) for item in root.iter("li")]
    assert items == [
        "changed by quantization: label no label, float no, integer <yes>, margin 0.100"
        "text4 <b>unsaid",
        "changed by quantization: label no, float no, integer <yes>, margin 0.300text1 <b>unsaid",
        "wrong in both models: label <yes>, float no, integer no, margin 0.100text2 <b>unsaid",
    ]
    right = replace(RESULT, labels=np.array([0, 1, 0, 1, -1]), float_logits=RESULT.integer_logits)
    assert overview.wrong_texts(right, TEXTS) == "<p>None.</p>"


def test_only_so_many_texts_and_characters_are_shown() -> None:
    long = Tokens(np.arange(4), np.zeros(4), ("[CLS]", *["word"] * 300, "[SEP]"))
    many = replace(
        RESULT,
        labels=np.zeros(50, int),
        float_logits=np.tile(np.float32([2, 1]), (50, 1)),
        integer_logits=np.tile([100, 101], (50, 1)),
    )
    html = overview.wrong_texts(many, [long] * 50)
    assert html.count("<li>") == overview.SHOWN_TEXTS
    assert "<p>30 more are not shown.</p>" in html
    assert all(len(quote) < 420 for quote in re.findall(r"<blockquote>(.*?)<", html))


def test_bars_are_as_long_as_their_values() -> None:
    html = overview.bars([("a<b", 1.0, "1 B"), ("c", 4.0, "4 B"), ("d", 0.0, "0 B")])
    assert re.findall(r"width:([\d.]+)%", html) == ["25.0", "100.0", "0.0"]
    parsed(html)
