"""Is there a Java that can run Spark? Ends with status 1 if not; `make` then installs one."""

from __future__ import annotations

import sys

from tocsin.errors import JavaError
from tocsin.pipeline.java import find_java


def main() -> int:
    """Looks for it."""
    try:
        find_java()
    except JavaError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
