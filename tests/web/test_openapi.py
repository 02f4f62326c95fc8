"""schemathesis calls every route as /openapi.json describes it, with good and bad data, and finds no difference.

The stream is left out: it does not end.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.web.serving import ADMIN_TOKEN

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "unsupported_method", "ignored_auth", "use_after_free", "missing_required_header",
)  # fmt: skip
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501]  # a form that is not built yet says so
"""
SECONDS_MAX = 900


@pytest.mark.slow
def test_every_answer_is_as_it_is_described(served, tmp_path):
    pytest.importorskip("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--no-color", "--seed", "7",
        "-H", f"Authorization: Bearer {ADMIN_TOKEN}", "--exclude-path-regex", "stream", "-n", "25",
        "--phases", "coverage,fuzzing", "--checks", ",".join(CHECKS),
    ]  # fmt: skip
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert told.returncode == 0, told.stdout[-8_000:] + told.stderr[-2_000:]
