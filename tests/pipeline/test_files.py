"""Files through Spark: `tocsin match --spark` says, byte for byte, what `tocsin match` says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tocsin.cli import main
from tocsin.files import Input
from tocsin.intake import document_to_json
from tocsin.match.registry import Registry
from tocsin.pipeline import files_job, files_source
from tocsin.pipeline.files_source import PieceReader, divide
from tocsin.query import show
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.workload import random_documents, random_query
from tocsin.text import Analysis

BAD = ['{"id": 1}', "{", "", "   ", '{"id": "x", "a": true}', '{"a": "b"}', "[]", '{"id": "y", "id": "y"}']


class Said(NamedTuple):
    status: int
    output: str
    messages: str


@pytest.fixture
def both(spark, capsys, monkeypatch) -> Callable[..., Said]:
    """Runs `tocsin match` without Spark and with it, in small pieces; they must agree; what was said."""
    monkeypatch.setattr(files_source, "PIECE_BYTES_MIN", 8_000)
    monkeypatch.setattr(files_source, "PIECE_BYTES_MAX", 8_000)

    def run(*arguments: str | Path) -> Said:
        said = []
        for more in ((), ("--spark", "local[2]")):
            status = main(["match", *map(str, arguments), *more])
            captured = capsys.readouterr()
            said.append(Said(status, captured.out, captured.err))
        assert said[1] == said[0]
        return said[0]

    return run


def written(path: Path, lines: Sequence[str | dict]) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_documents_of_every_kind(both, tmp_path, seed) -> None:
    """Words, paths, both, nested; repeats, replacements, conflicts; records that are no documents."""
    rng, tangle = np.random.default_rng([seed, 41]), Tangle(seed)
    lines: list[str | dict] = []
    for number, document in enumerate(random_documents(rng, 100)):
        data = json.loads(document_to_json(document))
        if rng.random() < 0.4:
            data["xml"] = tangle.document() if rng.random() < 0.9 else "<a><b></a>"
        lines.append(data)
        match rng.integers(12):
            case 0:
                lines.append(dict(data))
            case 1:
                lines.append(data | {"title": "another text of the same version"})
            case 2:
                lines.append(data | {"version": 3, "title": f"peer version {number}"})
                lines.append(data | {"version": 2})
            case 3:
                lines.append(
                    str(rng.choice(['{"id": 1}', "{", "", "   ", '{"id": "x", "a": true}', '{"a": "b"}', "[]"]))
                )
    rng.shuffle(lines)
    subscriptions = []
    for number in range(100):
        kind = rng.integers(4)
        entry: dict = {"id": f"é{number}" if number % 2 else f"s{number}"}
        if kind != 1:
            entry["query"] = show(random_query(rng, 2, nested=number % 10 == 0))
        if kind in (1, 2):
            entry |= {"xpath": tangle.query(), "namespaces": NAMESPACES}
        subscriptions.append(entry)
    documents = written(tmp_path / "d.jsonl", lines)
    given = ("-s", written(tmp_path / "s.jsonl", subscriptions), "-d", documents)
    said = both(*given, "--analysis", "title=english", "author=keyword")
    assert said.status == 1
    assert said.output.count("\n") > 200
    assert both(*given, "--explain").output.count('"evidence"') > 200


def test_a_document_whose_xml_is_bad_is_refused_however_its_key_is_written(both, tmp_path) -> None:
    keys = ["xml", "\\u0078ml", "x\\u006Dl", "xm\\u006c"]
    lines = [f'{{"id": "d{n}", "t": "peer", "{key}": "<a><b></a>"}}' for n, key in enumerate(keys)]
    for number, line in enumerate([*lines, '{"id": "good", "t": "peer", "\\u0078ml": "<a/>"}']):
        (tmp_path / f"{number}.jsonl").write_text(f"{line}\n")
    subscriptions = [{"id": "s", "query": "peer"}, {"id": "t", "xpath": "/a"}]
    documents = [part for number in range(5) for part in ("-d", tmp_path / f"{number}.jsonl")]
    said = both("-s", written(tmp_path / "s.txt", subscriptions), *documents)
    assert [json.loads(line)["document"] for line in said.output.splitlines()] == ["good", "good"]
    assert said.messages.count("rejected: ") == 4


def test_all_files_that_tocsin_match_reads(both, tmp_path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    lines = [json.dumps({"id": f"p{n}", "title": f"peer w{n % 7}", "year": n}) for n in range(300)]
    text = "".join(f"{line}\n" for line in lines[:100])
    (folder / "a.jsonl").write_text("\ufeff" + text.removesuffix("\n"), encoding="utf-8")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines[100:150]).encode()))
    (folder / "c.ndjson.zst").write_bytes(zstandard.compress("\n\n{}\n".join(lines[150:200]).encode()))
    (folder / "d.json").write_text("[" + ",\n".join(lines[200:250]) + ', {"id": 7}]')
    (folder / "e.csv").write_text('id,title,year\nx1,"peer, w1",7\nx2,peer\nx3,"w2\npeer",x\n')
    (folder / "f.jsonl.gz").write_bytes(gzip.compress(text.encode())[:-20])
    (folder / "g.jsonl").write_text(text.replace("w", "v"))
    (folder / "readme.txt").write_text("no document")
    (folder / "empty.jsonl").write_text("")
    subscriptions = [{"id": f"s{n}", "query": f"peer w{n} year < {n * 40}"} for n in range(7)]
    said = both("-s", written(tmp_path / "s.jsonl", subscriptions), "-d", folder)
    assert said.status == 1
    assert "readme.txt" in said.messages
    assert "g.jsonl:2" in said.messages
    assert "f.jsonl.gz: the gzip data ends too early" in said.messages
    assert said.output


def test_a_record_of_200_megabytes_is_refused_with_the_reason(both, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files_source, "PIECE_BYTES_MAX", 16 << 20)
    path = tmp_path / "d.jsonl"
    with path.open("wb") as file:
        file.write(b'{"id": "before", "t": "peer"}\n{"id": "large", "t": "')
        for _ in range(200):
            file.write(b"peer " * 200_000)
        file.write(b'"}\n{"id": "after", "t": "peer"}\n{bad\n')
    said = both("-s", written(tmp_path / "s.jsonl", [{"id": "s", "query": "peer"}]), "-d", path)
    assert f"{path}:2: more than 10,485,760 bytes (document_bytes_max)" in said.messages
    assert f"{path}:4: invalid JSON" in said.messages
    assert [json.loads(line)["document"] for line in said.output.splitlines()] == ["before", "after"]


def test_nothing_to_match_and_nothing_to_read(both, tmp_path) -> None:
    documents = written(tmp_path / "d.jsonl", [{"id": "a", "t": "peer"}])
    none = written(tmp_path / "none.jsonl", [])
    assert both("-s", none, "-d", documents) == (0, "", "")
    assert both("-s", written(tmp_path / "s.jsonl", [{"id": "s", "query": "peer"}]), "-d", none) == (0, "", "")


def test_the_output_replaces_its_file(spark, tmp_path) -> None:
    documents = written(tmp_path / "d.jsonl", [{"id": "a", "t": "peer"}])
    subscriptions = written(tmp_path / "s.jsonl", [{"id": "s", "query": "peer"}])
    output = written(tmp_path / "out.jsonl", ["old"])
    given = ["-s", str(subscriptions), "-d", str(documents), "-o", str(output), "--spark", "local[2]"]
    assert main(["match", *given]) == 0
    assert json.loads(output.read_text())["document"] == "a"


@pytest.mark.parametrize("more", [["--engine", "brute"], ["--stats"]])
def test_options_that_mean_nothing_on_spark_are_refused(more, tmp_path, capsys) -> None:
    documents = written(tmp_path / "d.jsonl", [{"id": "a", "t": "peer"}])
    assert main(["match", "-s", str(documents), "-d", str(documents), "--spark", *more]) == 2
    assert "--spark goes with neither" in capsys.readouterr().err


# --- Parquet and XML, which only Spark reads -------------------------------------------------------------------------


def lines_of(spark, paths: list[Path], subscriptions: Sequence[tuple[str, str | None, str | None]], tmp_path: Path):
    registry = Registry()
    for id, query, xpath in subscriptions:
        registry.add(id, query, xpath)
    job = files_job.FilesJob(spark, tmp_path / "job")
    seen = job.look([Input(path.name, path) for path in paths], Analysis(), 2_000)
    question = files_job.Question(registry, [], Analysis())
    job.run(seen, question)
    return seen, [json.loads(line) for line in job.lines(seen, question)]


def test_parquet_with_another_schema_in_each_file(spark, tmp_path) -> None:
    first, second, third = (tmp_path / f"{name}.parquet" for name in "abc")
    ids, titles = [f"a{n}" for n in range(500)], [f"peer w{n % 5}" for n in range(500)]
    pq.write_table(pa.table({"id": ids, "title": titles, "year": [*range(500)]}), first, row_group_size=50)
    tags, times = [["grid", "peer"], None, []], pa.array([0, 1, 2], pa.timestamp("s"))
    pq.write_table(pa.table({"id": ["b0", "b1", "b2"], "tags": tags, "time": times}), second)
    third.write_bytes(b"PAR1 nothing of the kind")
    subscriptions = [
        ("s", "peer year < 100", None),
        ("t", "tags:peer", None),
        ("u", "tags:grid time < 1970-01-02", None),
    ]
    seen, found = lines_of(spark, [first, second, third], subscriptions, tmp_path)
    assert len(seen.pieces) > 4
    assert [(line["subscription"], line["document"]) for line in found] == [
        *(("s", f"a{n}") for n in range(100)),
        ("t", "b0"),
        ("u", "b0"),
    ]
    (refused,) = seen.rejections
    assert (refused.file, refused.line) == ("c.parquet", 0)


def test_a_row_of_parquet_that_is_no_document_is_named(spark, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", None, "c"], "flag": [None, None, True], "t": ["peer", "peer", "peer"]}), path)
    seen, found = lines_of(spark, [path], [("s", "peer", None)], tmp_path)
    assert [line["document"] for line in found] == ["a"]
    assert [(one.file, one.line) for one in seen.rejections] == [("a.parquet", 2), ("a.parquet", 3)]


def test_an_xml_file_is_one_document(spark, tmp_path) -> None:
    good, packed, bad = tmp_path / "one.xml", tmp_path / "two.xml.gz", tmp_path / "three.xml"
    good.write_text("<?xml version='1.0'?><a><b c='1'/></a>")
    packed.write_bytes(gzip.compress(b"<a><d/></a>"))
    bad.write_text("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>")
    seen, found = lines_of(spark, [good, packed, bad], [("b", None, "//b[@c = 1]"), ("a", None, "/a")], tmp_path)
    assert [(line["document"], line["subscription"], line["score"]) for line in found] == [
        ("one", "a", 1.0),
        ("one", "b", 1.0),
        ("two", "a", 1.0),
    ]
    (refused,) = seen.rejections
    assert refused.file == "three.xml"


# --- pieces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1_000])
def test_a_line_is_read_once_wherever_pieces_end(tmp_path, size) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"id":"a"}\n\n{"id":"bcdefghijklmnop"}\n  \n{"id":"c"}\nx\n{"id":"d"}')
    pieces = divide([Input("d", path)], 2, size)
    read = [(record.document and record.document.id) for piece in pieces for record in PieceReader(piece).read()]
    assert read == ["a", "bcdefghijklmnop", "c", None, "d"]
    positions = [record.position for piece in pieces for record in PieceReader(piece).read()]
    assert positions == sorted(set(positions))
    readers = [PieceReader(piece) for piece in pieces]
    assert [list(reader.read()) and None for reader in readers]
    assert sum(reader.lines for reader in readers) == 7


def test_an_unreadable_file_is_told_and_the_others_are_read(spark, tmp_path) -> None:
    good, gone = (written(tmp_path / f"{name}.jsonl", [{"id": name, "t": "peer"}]) for name in ("good", "gone"))
    pieces = divide([Input("gone", gone), Input("good", good)], 2)
    gone.unlink()
    found = files_source.documents(spark, pieces).collect()
    assert [row.id for row in found] == ["good"]
    (refused,) = files_source.rejections(spark, pieces).collect()
    assert (refused.file, refused.reason) == ("gone", "reading stopped: no such file or directory")
