"""Tables line up."""

from sim.report import table


def test_numbers_stand_to_the_right_and_nothing_is_a_dash():
    text = table(["unit", "cycles", "share"], [["softmax", 12345, 0.98765], ["x", None, 1.0]])
    assert text.splitlines() == [
        "unit     cycles   share",
        "-------  ------  ------",
        "softmax  12,345  0.9877",
        "x             -       1",
    ]
