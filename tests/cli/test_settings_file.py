"""The settings file of a site: what it says holds, and what it cannot say is refused with the setting's name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tocsin.cli.installation import Installation
from tocsin.cli.settings_file import FILE_BYTES_MAX, read_settings
from tocsin.errors import SettingError

WHOLE = """
[site]
tags_max = 7
analysis = {title = "english"}
[site.channels]
public_url = "https://tocsin.example.org"
mail_domains = ["example.org"]
[site.base.query]
query_nesting_max = 9
[web]
heartbeat_seconds = 3
[spark]
master = "local[2]"
ui = true
[spark.more]
"spark.sql.session.timeZone" = "UTC"
[stream]
batch_documents_max = 100
"""


def written(tmp_path, text):
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_what_the_file_says_holds_and_the_rest_keeps_its_default(tmp_path):
    read = read_settings(written(tmp_path, WHOLE), Installation())
    assert read.site.tags_max == 7
    assert read.site.analysis == {"title": "english"}
    assert read.site.channels.public_url == "https://tocsin.example.org"
    assert read.site.channels.mail_domains == ("example.org",)
    assert read.site.base.query.query_nesting_max == 9
    assert (read.web.heartbeat_seconds, type(read.web.heartbeat_seconds)) == (3.0, float)
    assert read.spark.master == "local[2]"
    assert read.spark.ui is True
    assert read.spark.more == {"spark.sql.session.timeZone": "UTC"}
    assert read.stream.batch_documents_max == 100
    assert read.site.quotas == Installation().site.quotas
    assert read.site.base.document == Installation().site.base.document
    assert read_settings(written(tmp_path, ""), Installation()) == Installation()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[site]\ntag_max = 1", "unknown setting site.tag_max: did you mean site.tags_max?"),
        ("[site]\nmail_url = 'x'", "unknown setting site.mail_url: it belongs under [site.channels]"),
        ("[site]\nzzz = 1", "unknown setting site.zzz: docs/reference/settings.md lists them all"),
        ("[sight]\ntags_max = 1", "unknown setting sight: did you mean site?"),
        ("site = 3", "site is a group of settings: write [site], and its settings below it"),
        ("[site]\ntags_max = 'many'", "site.tags_max is a text: it must be a whole number"),
        ("[site]\ntags_max = true", "site.tags_max is True: it must be a whole number"),
        ("[site]\ntags_max = -1", "site.tags_max is -1: it must not be negative or infinite"),
        ("[web]\nheartbeat_seconds = nan", "web.heartbeat_seconds is nan: it must not be negative or infinite"),
        ("[web]\nheartbeat_seconds = inf", "web.heartbeat_seconds is inf: it must not be negative or infinite"),
        ("[spark]\nui = 1", "spark.ui is 1: it must be true or false"),
        ("[spark]\nlog_level = 'loud'", "unknown log_level 'loud'"),
        ("[site.channels]\nmail_domains = 'a'", "site.channels.mail_domains is a text: it must be a list of texts"),
        ("[site.channels]\nmail_url = ['s3cret']", "site.channels.mail_url is a list: it must be a text in quotes"),
        ("[site]\nanalysis = {title = 3}", "site.analysis is a table: it must be a table of texts"),
        ("[site", "is no TOML"),
        ("#" * (FILE_BYTES_MAX + 1), "a file of settings has at most 1,048,576"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(SettingError) as refused:
        read_settings(file, Installation())
    assert message in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_site_with_a_wrong_file_does_not_start(tmp_path):
    """The folder's own file is read; a file that was named and is not there is an error."""
    written(tmp_path, "[site]\ntag_max = 1")
    command = [sys.executable, "-m", "tocsin", "up", "--data", str(tmp_path), "--port", "0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert "did you mean site.tags_max?" in run.stderr
    assert run.stdout == ""
    run = subprocess.run(
        [*command, "--settings", str(tmp_path / "none.toml")], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "none.toml cannot be read: No such file or directory" in run.stderr
