"""XPath subscriptions: tree, parser, printer, cost and meaning (XML filtering paper §2)."""

from tocsin.query.xpath.ast import Path, cost
from tocsin.query.xpath.parse import UnsupportedXPath, parse_xpath
from tocsin.query.xpath.semantics import evidence_xpath, holds_xpath, select_xpath
from tocsin.query.xpath.show import show_xpath

__all__ = [
    "Path",
    "UnsupportedXPath",
    "cost",
    "evidence_xpath",
    "holds_xpath",
    "parse_xpath",
    "select_xpath",
    "show_xpath",
]
