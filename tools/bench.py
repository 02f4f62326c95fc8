"""Run every benchmark and print one JSON line for each.

A benchmark is a file `benchmarks/bench_NAME.py`, one for each promise of the README. It takes `--size small` (seconds,
on any machine) or `--size full`, and prints one JSON object on standard output; this tool adds its name, how long it
took and where it ran. A benchmark that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def benchmarks(root: Path = ROOT) -> list[Path]:
    """The benchmark files, by name; other files of the folder are what they share."""
    return sorted((root / "benchmarks").glob("bench_*.py"))


def run(file: Path, size: str) -> dict[str, Any]:
    """One benchmark's result, or the last line of its complaint."""
    start = time.perf_counter()
    command = [sys.executable, str(file), "--size", size]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    line: dict[str, Any] = {"benchmark": file.stem, "size": size, "seconds": round(time.perf_counter() - start, 2)}
    if process.returncode:
        complaint = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        return line | {"error": complaint[-1]}
    try:
        return line | {"result": json.loads(process.stdout)}
    except json.JSONDecodeError as error:
        return line | {"error": f"standard output is not one JSON object: {error}"}


def main(arguments: list[str] | None = None) -> int:
    """Run them all; exit 1 if one failed."""
    parser = argparse.ArgumentParser(prog="tools.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=["small", "full"], default="small", help="seconds, or the real thing")
    size = parser.parse_args(arguments).size
    files = benchmarks()
    if not files:
        print("There is no benchmark yet: each is a file benchmarks/bench_NAME.py.", file=sys.stderr)
        return 0
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    failed = 0
    for file in files:
        print(f"{file.stem} …", file=sys.stderr, flush=True)
        line = run(file, size) | machine
        failed += "error" in line
        print(json.dumps(line, ensure_ascii=False), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
