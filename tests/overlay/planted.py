"""Bugs that are planted on purpose in more than one placement: the checks of each must catch them."""

from __future__ import annotations

import pytest

from tocsin.overlay.delivery import Delivery, Notice


def takes_a_notice_twice(patch: pytest.MonkeyPatch) -> None:
    """A subscriber keeps no memory of what it was told."""

    def keep(self: Delivery, notice: Notice) -> bool:
        self._outbox.append(notice)
        return True

    patch.setattr(Delivery, "_keep", keep)
