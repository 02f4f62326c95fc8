"""Which characters the bytes of a document are, and what may stand before its root element.

Bytes are in the encoding that they declare (or UTF-8, or as their byte order mark says); a string has been decoded
already, so the declaration inside it is ignored. An internal DTD subset, and with it every entity declaration, is
refused here, before libxml2 sees it.
"""

from __future__ import annotations

import re

from tocsin.errors import DocumentError
from tocsin.settings import MarkupLimits

_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|utf-?32(?:le|be)?|us-ascii|ascii|iso-?8859-\d+|latin-?\d|windows-\d{3,4}|cp\d{3,4}"
    r"|koi8-[ru]|euc-(?:jp|kr)|shift_jis|iso-2022-jp|gb2312|gbk|gb18030|big5|mac(?:roman|intosh)|tis-620",
    re.IGNORECASE,
)
_MARKS = (  # the longer one first: UTF-32 LE starts as UTF-16 LE does
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\0?\0", "utf-16-le"),
    (b"\0<\0?", "utf-16-be"),
)


def to_utf8(source: bytes | str, limits: MarkupLimits) -> bytes:
    """The document as UTF-8, if it is not too large."""
    if isinstance(source, str):
        try:
            data = source.removeprefix("\ufeff").encode()
        except UnicodeEncodeError as error:
            line = source.count("\n", 0, error.start) + 1
            raise DocumentError(f"line {line}: a lone surrogate is no character") from None
    else:
        data = source if len(source) > limits.markup_bytes_max else _recoded(source)
    if len(data) > limits.markup_bytes_max:
        raise DocumentError(f"the XML has {len(data):,} bytes, at most {limits.markup_bytes_max:,} are allowed")
    return data


def _recoded(data: bytes) -> bytes:
    """The bytes as UTF-8; XML 1.0 §4.3.3 and appendix F say which encoding they are in."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    declared = _DECLARED.match(data.removeprefix(b"\xef\xbb\xbf"))
    if not encoding:
        encoding = declared[1].decode("ascii") if declared else "utf-8"
        if encoding.lower().replace("-", "").startswith(("utf16", "utf32")):
            raise DocumentError(f"line 1: the encoding {encoding} is declared, but the bytes are not in it")
        if not _KNOWN.fullmatch(encoding):
            raise DocumentError(f"line 1: the encoding {encoding!r} is not known")
    elif encoding == "utf-8-sig" and declared and declared[1].lower() not in (b"utf-8", b"utf8"):
        name = declared[1].decode("ascii")
        raise DocumentError(f"line 1: the encoding {name} is declared, but the byte order mark says UTF-8")
    if encoding.lower() in ("utf-8", "utf8", "utf-8-sig"):
        return data.removeprefix(b"\xef\xbb\xbf")  # libxml2 finds bytes that are not UTF-8
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"line {line}: the bytes are not in the encoding {encoding}: {error.reason}") from None
    except LookupError:
        raise DocumentError(f"line 1: the encoding {encoding!r} is not known") from None
    return text.removeprefix("\ufeff").encode()


# --- prolog ---------------------------------------------------------------------------------------------------------

_BEFORE = re.compile(rb"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*)*", re.DOTALL)
_DOCTYPE = re.compile(rb"""<!DOCTYPE(?:[^"'\[>]|"[^"]*"|'[^']*')*\[""")
_ENTITY = re.compile(rb"<!ENTITY")


def check_prolog(data: bytes) -> None:
    """Refuses an internal DTD subset: it could declare entities, and defaults for attributes."""
    start = _BEFORE.match(data).end()  # type: ignore[union-attr]
    found = _DOCTYPE.match(data, start)
    if found is None:
        return
    entity = _ENTITY.search(data, found.end())
    if entity:
        line = data.count(b"\n", 0, entity.start()) + 1
        raise DocumentError(f"line {line}: the DOCTYPE declares an entity: write the characters themselves")
    line = data.count(b"\n", 0, found.end()) + 1
    raise DocumentError(f"line {line}: the DOCTYPE has an internal subset ('['): remove it")


def read_prolog(chunk: bytes) -> bytes:
    """The first chunk as UTF-8, as far as it can be decoded: the prolog is in it."""
    mark = next((name for start, name in _MARKS if chunk.startswith(start)), "utf-8")
    return chunk if mark.startswith("utf-8") else chunk.decode(mark, errors="ignore").encode()
