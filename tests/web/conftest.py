"""One site for all tests of a module: starting costs less than a second, but there are many tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.serving import Serving, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found
