import pytest

from kubextend.server.admission import Admission, Share
from kubextend.server.reply import RefusedError


def test_shares_are_admitted_up_to_the_limit_and_what_is_given_back_counts_no_more() -> None:
    admission = Admission(100)
    first, second = Share(admission), Share(admission)
    first.take(60)
    second.take(40)
    assert admission.in_flight_bytes == 100
    with pytest.raises(RefusedError) as refused:
        second.take(1)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1)
    assert admission.in_flight_bytes == 100
    second.give_back()
    second.give_back()
    assert admission.in_flight_bytes == 60
    first.take(40)
    first.give_back()
    assert admission.in_flight_bytes == 0
