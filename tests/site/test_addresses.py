"""Where a webhook may be: no address leads into the site's own network."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from tocsin.site.addresses import Closed, check_url, is_open, open_addresses, resolve
from tocsin.site.problems import Invalid
from tocsin.site.settings import DeliverySettings

STRICT = DeliverySettings(delivery_allows_http=True)

CLOSED_HOSTS = """
127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 0 0.0.0.0 0.0.0.1 0.1.2.3 localhost LOCALHOST localhost. foo.localhost
10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 169.254.169.254 169.254.0.1 100.64.0.1
100.127.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.175.48.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
2130706433 017700000001 0x7f000001 0x7f.0.0.1 0x7f.1 0177.0.0.1 0177.1 127.0.0.0x1 3232235521 0xa9fea9fe
0251.0376.0251.0376 2852039166 127.0.0.01 1 1.1 00.0.0.0
[::1] [::] [::ffff:127.0.0.1] [::ffff:10.0.0.1] [::ffff:169.254.169.254] [::ffff:7f00:1] [::127.0.0.1] [::7f00:1]
[0:0:0:0:0:ffff:127.0.0.1] [0:0:0:0:0:0:0:1] [::ffff:0:127.0.0.1] [2002:7f00:1::] [2002:a00:1::1] [2002:c0a8:101::]
[2002:a9fe:a9fe::] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b::10.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::1]
[fc00::1] [fd00::1] [fd12:3456:789a::1] [fe80::1] [fe80::1%25eth0] [fec0::1] [ff02::1] [ff0e::1] [2001:db8::1] [2001::1]
[2001:0:7f00:1::] [2001:10::1] [2001:20::1] [100::1] [3fff::1] [5f00::1] [4000::1] [::ffff:0.0.0.0]
router.local metadata.google.internal intranet db db. host.lan printer.home.arpa x.localdomain x.onion
""".split()


@pytest.mark.parametrize("host", CLOSED_HOSTS)
def test_a_closed_host_is_refused_when_it_is_saved_and_when_it_is_called(host):
    for url in (f"https://{host}/hook", f"http://{host}:8080/hook"):
        with pytest.raises(Invalid) as caught:
            check_url(url, STRICT)
        assert (caught.value.kind, caught.value.field) == ("webhook_refused", "channel")
    with pytest.raises((Closed, OSError, ValueError)):
        asyncio.run(open_addresses(host.replace("%25", "%"), 80, STRICT, resolve))


def test_there_are_at_least_eighty_of_them():
    assert len(set(CLOSED_HOSTS)) >= 80


FORMS = [
    *"""
ftp://example.org/ file:///etc/passwd gopher://example.org/ //example.org/ example.org https:///hook https://
https://.org/ https://a..b/ https://example.org:0/ https://example.org:99999/ https://example.org:x/
https://user@example.org/ https://user:secret@example.org/ https://example.org/#there https://exa%6dple.org/
https://example.org\\@127.0.0.1/ https://[::1 https://ex_ample!.org/ https://example.org/ü https://пример.рф/
https://127.0.0.1.:80@example.org/ javascript:alert(1) data:text/plain,x https://①②⑦.⓪.⓪.①/ https://127。0。0。1/
""".split(),
    "",
    " https://example.org/",
    "https://example.org/a b",
    "https://example.org/\n",
    "https://example.org/\x00",
]


@pytest.mark.parametrize("url", FORMS, ids=ascii)
def test_a_form_that_could_be_read_in_two_ways_is_refused(url):
    with pytest.raises(Invalid):
        check_url(url, STRICT)


@pytest.mark.parametrize("value", [None, 7, [], {}, "https://example.org/" + "a" * 2_000])
def test_what_is_no_address_is_refused(value):
    with pytest.raises(Invalid):
        check_url(value, STRICT)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/hook",
        "https://hooks.example.co.uk:8443/a/b?c=d",
        "https://93.184.216.34/",
        "https://[2606:2800:220:1:248:1893:25c8:1946]/hook",
        "HTTPS://Example.org/",
        "https://xn--e1afmkfd.xn--p1ai/",
    ],
)
def test_an_open_address_is_taken(url):
    assert check_url(url, DeliverySettings()) == url


def test_plain_http_needs_a_setting():
    with pytest.raises(Invalid, match="delivery_allows_http"):
        check_url("http://example.org/", DeliverySettings())
    assert check_url("http://example.org/", STRICT)
    private = DeliverySettings(delivery_allows_private=True)
    assert check_url("http://127.0.0.1:8080/", private)


def test_every_address_of_a_name_must_be_open():
    async def ask(host: str, port: int) -> list[str]:
        return {
            "good.example.org": ["93.184.216.34", "2606:2800:220:1::1"],
            "mixed.example.org": ["93.184.216.34", "10.0.0.1"],
            "mapped.example.org": ["::ffff:10.0.0.1"],
            "scoped.example.org": ["fe80::1%eth0"],
        }[host]

    def call(host: str) -> list[str]:
        return asyncio.run(open_addresses(host, 443, STRICT, ask))

    assert call("good.example.org") == ["93.184.216.34", "2606:2800:220:1::1"]
    for host in ("mixed.example.org", "mapped.example.org", "scoped.example.org"):
        with pytest.raises(Closed):
            call(host)


def test_what_is_open_is_global_and_stands_for_nothing_else():
    for text in ("1.1.1.1", "8.8.8.8", "2606:4700::1111", "2002:808:808::", "64:ff9b::808:808", "::ffff:8.8.8.8"):
        assert is_open(ip_address(text)), text
