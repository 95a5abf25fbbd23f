import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioners.errors import InputError
from pipelines.panes import Windows

SIZES = st.integers(1, 50)
TIMES = st.integers(-(10**14), 10**14)


@given(TIMES, SIZES, SIZES)
def test_a_record_belongs_to_the_windows_from_first_to_exit(time_ms: int, a: int, b: int) -> None:
    windows = Windows(max(a, b), min(a, b))
    first, exit_ = windows.first_window(time_ms), windows.exit_window(time_ms)
    for window in range(first - 2, exit_ + 2):
        inside = windows.start_ms(window) <= time_ms < windows.end_ms(window)
        assert inside == (first <= window < exit_)


@given(TIMES, SIZES, SIZES)
def test_all_records_of_a_pane_belong_to_the_same_windows(time_ms: int, a: int, b: int) -> None:
    windows = Windows(max(a, b), min(a, b))
    start = time_ms // windows.pane_ms * windows.pane_ms
    assert windows.first_window(start) == windows.first_window(time_ms)
    assert windows.exit_window(start) == windows.exit_window(time_ms)


def test_arrays_and_numbers_agree() -> None:
    windows = Windows(30, 10)
    times = np.arange(-45, 45)
    assert windows.first_window(times).tolist() == [windows.first_window(t) for t in range(-45, 45)]
    assert windows.exit_window(times).tolist() == [windows.exit_window(t) for t in range(-45, 45)]


def test_the_end_of_a_window_does_not_belong_to_it() -> None:
    windows = Windows(30, 30)
    assert (windows.first_window(29), windows.exit_window(29)) == (0, 1)
    assert (windows.first_window(30), windows.exit_window(30)) == (1, 2)


def test_a_slide_that_does_not_divide_the_window_has_shorter_panes() -> None:
    windows = Windows(25, 10)
    assert windows.pane_ms == 5
    assert windows.windows_per_record == 3


@pytest.mark.parametrize(
    ("size_ms", "slide_ms", "text"),
    [(10, 20, "use a slide of at most 10 ms"), (0, 1, "at least 1 ms"), (10, 0, "at least 1 ms")],
)
def test_impossible_windows_are_refused(size_ms: int, slide_ms: int, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Windows(size_ms, slide_ms)
