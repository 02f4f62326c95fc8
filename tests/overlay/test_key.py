"""Keys: distances and ranges on a ring that closes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.overlay.key import MASK, distance, hashed, host_of, is_between, virtual_addresses

KEYS = st.integers(0, MASK) | st.sampled_from([0, 1, MASK - 1, MASK, 1 << 63])


@given(KEYS, KEYS, KEYS)
def test_a_key_is_in_a_range_or_in_the_rest(key, low, high):
    if low == high:
        assert is_between(key, low, high)  # the whole ring
    else:
        assert is_between(key, low, high) != is_between(key, high, low)
        assert is_between(key, low, high) == (0 < distance(low, key) <= distance(low, high))


@given(KEYS, KEYS)
def test_a_range_has_its_end_and_not_its_start(low, high):
    assert is_between(high, low, high)
    assert is_between(low, low, high) == (low == high)


def test_a_word_and_a_node_of_one_name_have_nothing_in_common():
    assert hashed("word", "a") != hashed("node", "a")
    assert 0 <= hashed("node", "a") <= MASK


def test_virtual_nodes_share_a_host():
    assert virtual_addresses("h:1", 3) == ("h:1#0", "h:1#1", "h:1#2")
    assert {host_of(address) for address in virtual_addresses("h:1", 3)} == {"h:1"}
    assert virtual_addresses("h:1", 1) == ("h:1",)
