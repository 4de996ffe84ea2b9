"""HTTP against real servers: what is asked, what is accepted, and how failures are told."""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import struct
import time
import traceback
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError
from patchkit.io.http import Http, HttpError, RangesRefusedError, redact, without_credentials

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

DATA = bytes(range(256)) * 400
SECRET = "s3cr3t-p4ss"


def quick(**options: Any) -> Http:
    return Http(**{"read_timeout": 0.4, "connect_timeout": 1.0, "backoff": 0.01, **options})


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def whole_text(error: BaseException) -> str:
    """Everything that anybody could print of an error."""
    parts = ["".join(traceback.format_exception(error)), repr(error), str(getattr(error, "hint", ""))]
    for chained in (error.__cause__, error.__context__):
        parts += [whole_text(chained)] if chained is not None else []
    return "\n".join(parts)


def test_get_returns_body_headers_and_counts_bytes_on_the_wire(server: Any, kit: Any) -> None:
    packed = gzip.compress(b"x" * 10_000)
    server.routes["/a"] = kit.status(200, packed, Content_Encoding="gzip", X_Kind="demo")
    with quick() as http:
        answer = http.get(server.url("/a"), {"Accept": "text/x-demo"})
        assert (answer.status, answer.body, answer.headers["x-kind"]) == (200, b"x" * 10_000, "demo")
        assert http.bytes_received == len(packed)
    assert server.seen[0].headers["accept"] == "text/x-demo"


def test_chunked_body(server: Any) -> None:
    def chunked(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")

    server.routes["/a"] = chunked
    with quick() as http:
        assert [http.get(server.url("/a")).body for _ in range(2)] == [b"hello world"] * 2
        assert http.bytes_received == 22


@pytest.mark.parametrize("code", [404, 410])
def test_not_found_is_an_answer_not_a_failure(server: Any, kit: Any, code: int) -> None:
    server.routes["/a"] = kit.status(code, b"no")
    with quick() as http:
        assert http.get(server.url("/a")).status == code


@pytest.mark.parametrize(("code", "hint"), [(401, "netrc"), (403, "credentials"), (418, "refuses")])
def test_other_statuses_are_failures(server: Any, kit: Any, code: int, hint: str) -> None:
    server.routes["/a"] = kit.status(code)
    with quick() as http, pytest.raises(UnreachableError, match=f"/a: expected 200, found {code}") as caught:
        http.get(server.url("/a"))
    assert hint in caught.value.hint
    assert caught.value.exit_code == 6
    assert len(server.seen) == 1


def test_statuses_that_the_caller_wants(server: Any, kit: Any) -> None:
    server.routes["/a"] = kit.status(304)
    with quick() as http:
        assert http.get(server.url("/a"), statuses=(304,)).status == 304


def test_one_connection_serves_pages_ranges_and_redirects(server: Any, kit: Any) -> None:
    server.serve("/data", DATA)
    server.routes["/moved"] = kit.status(302, b"elsewhere", Location="/data")
    with quick() as http:
        http.get(server.url("/data"))
        for start in range(5):
            assert http.get_range(server.url("/moved"), start, start + 10) == DATA[start : start + 10]
        assert http.get(server.url("/nothing")).status == 404
    assert len({seen.connection for seen in server.seen}) == 1


def test_get_range_and_tail(server: Any) -> None:
    url = server.serve("/data", DATA)
    with quick() as http:
        assert http.get_range(url, 7, 1000, total=len(DATA)) == DATA[7:1000]
        assert http.get_tail(url, 100) == (DATA[-100:], len(DATA))
        assert http.get_tail(url, 10**9) == (DATA, len(DATA))
        assert http.bytes_received == 993 + 100 + len(DATA)


def test_no_ranges_is_told_without_reading_the_whole(server: Any) -> None:
    url = server.serve("/data", DATA, ranges=False)
    with quick() as http:
        with pytest.raises(RangesRefusedError, match="expected 206 with bytes 0-9 of any size, found 200"):
            http.get_range(url, 0, 10)
        with pytest.raises(RangesRefusedError):
            http.get_tail(url, 10)
        assert http.bytes_received == 0


@pytest.mark.parametrize(
    "header", ["bytes 1-10/102400", "bytes 0-8/102400", "bytes 0-9/5", "0-9", "bytes 0-9/*", "bytes 9-0/102400"]
)
def test_wrong_content_range(server: Any, kit: Any, header: str) -> None:
    server.routes["/data"] = kit.status(206, DATA[:10], Content_Range=header)
    with quick() as http, pytest.raises(HttpError, match=r"expected 206 .*found Content-Range: ") as caught:
        http.get_range(server.url("/data"), 0, 10, total=len(DATA))
    assert header in str(caught.value)
    assert not isinstance(caught.value, RangesRefusedError)


@pytest.mark.parametrize(
    "header", ["bytes 0-9/10000", "bytes 0-9999/10000", "bytes 9990-9999/*", "bytes 9989-9998/10000"]
)
def test_wrong_tail(server: Any, kit: Any, header: str) -> None:
    server.routes["/data"] = kit.status(206, DATA[:10], Content_Range=header)
    with quick() as http, pytest.raises(HttpError, match="expected 206 with the last 10 bytes, found Content-Range"):
        http.get_tail(server.url("/data"), 10)


@pytest.mark.parametrize("size", [9, 11])
def test_range_with_another_number_of_bytes(server: Any, kit: Any, size: int) -> None:
    server.routes["/data"] = kit.status(206, DATA[:size], Content_Range=f"bytes 0-9/{len(DATA)}")
    with quick() as http, pytest.raises(HttpError, match=r"found (9|more than 10) bytes"):
        http.get_range(server.url("/data"), 0, 10)


def test_unsatisfiable_range(server: Any, kit: Any) -> None:
    server.routes["/data"] = kit.status(416, Content_Range="bytes */5")
    with quick() as http, pytest.raises(HttpError, match="found 416"):
        http.get_range(server.url("/data"), 10, 20)


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_overload_is_tried_again(server: Any, kit: Any, code: int) -> None:
    server.routes["/a"] = kit.in_turn(kit.status(code), kit.status(code, Retry_After="0"), kit.status(200, b"fine"))
    with quick() as http:
        assert http.get(server.url("/a")).body == b"fine"
    assert len(server.seen) == 3


def test_retries_are_bounded(server: Any, kit: Any) -> None:
    server.routes["/a"] = kit.status(503)
    with quick(attempts=3) as http, pytest.raises(HttpError, match=r"found 503 .*\(3 attempts\)"):
        http.get(server.url("/a"))
    assert len(server.seen) == 3


def test_retry_after_is_obeyed(server: Any, kit: Any) -> None:
    server.routes["/a"] = kit.in_turn(kit.status(429, Retry_After="1"), kit.status(200, b"fine"))
    begin = time.monotonic()
    with quick() as http:
        assert http.get(server.url("/a")).body == b"fine"
    assert 1.0 <= time.monotonic() - begin < 3


@pytest.mark.parametrize("value", ["3600", formatdate(time.time() + 3600, usegmt=True)], ids=["seconds", "date"])
def test_retry_after_is_bounded(server: Any, kit: Any, value: str) -> None:
    server.routes["/a"] = kit.status(429, Retry_After=value)
    with quick() as http, pytest.raises(HttpError, match="found 429") as caught:
        http.get(server.url("/a"))
    assert "asks to wait 3" in caught.value.hint
    assert len(server.seen) == 1


def test_reset_is_tried_again(server: Any, kit: Any) -> None:
    server.routes["/a"] = kit.in_turn(reset, kit.status(200, b"fine"))
    with quick() as http:
        assert http.get(server.url("/a")).body == b"fine"


def test_reset_for_ever(server: Any) -> None:
    server.routes["/a"] = reset
    with quick(attempts=2) as http, pytest.raises(HttpError, match=r"found the connection was reset \(2 attempts\)"):
        http.get(server.url("/a"))


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        quick() as http,
        pytest.raises(HttpError, match=rf"127.0.0.1:{port}/x: expected 200, found Connection refused") as caught,
    ):
        http.get(f"http://127.0.0.1:{port}/x")
    assert caught.value.status is None
    assert caught.value.hint


def test_proxy_that_refuses(server: Any, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", server.url(user=f"user:{SECRET}"))
    monkeypatch.setenv("NO_PROXY", "")
    with quick() as http, pytest.raises(HttpError, match="found the proxy does not serve: ") as caught:
        http.get("https://index.invalid/x")
    assert SECRET not in whole_text(caught.value)
    server.routes["/a"] = kit.status(200, b"direct")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with quick() as http:
        assert http.get(server.url("/a")).body == b"direct"  # loopback needs no proxy


def test_stall_before_the_answer(server: Any) -> None:
    server.routes["/a"] = lambda handler: time.sleep(5)
    begin = time.monotonic()
    with quick() as http, pytest.raises(HttpError, match=r"found a stall: no byte for 0.4 s"):
        http.get(server.url("/a"))
    assert time.monotonic() - begin < 3


@pytest.mark.parametrize("pause", [5.0, 0.1])
def test_stall_and_drip_within_the_body(server: Any, pause: float) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"x")
            time.sleep(pause)

    server.routes["/a"] = drip
    begin = time.monotonic()
    with quick() as http, pytest.raises(HttpError, match="found a stall"):
        http.get(server.url("/a"))
    assert time.monotonic() - begin < 3


def short_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"x" * 500)
    handler.close_connection = True


def test_truncated_body(server: Any, kit: Any, tmp_path: Path) -> None:
    server.routes["/a"] = short_body
    target = tmp_path / "out"
    with quick(attempts=2) as http:
        with pytest.raises(HttpError, match="found a body that ends early"):
            http.get(server.url("/a"))
        with pytest.raises(HttpError, match="found a body that ends early"):
            http.stream_to(server.url("/a"), str(target), sha256="0" * 64)
        server.routes["/a"] = kit.in_turn(short_body, kit.status(200, b"whole"))
        assert http.get(server.url("/a")).body == b"whole"
    assert list(tmp_path.iterdir()) == []


def test_body_over_the_limit(server: Any, kit: Any) -> None:
    server.serve("/a", DATA)
    server.routes["/bomb"] = kit.status(200, gzip.compress(b"\0" * 10**6), Content_Encoding="gzip")
    with quick() as http:
        for path in ("/a", "/bomb"):
            with pytest.raises(HttpError, match="more than 50000 bytes"):
                http.get(server.url(path), limit=50_000)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"x"), ("gzip", b"plain"), ("gzip", gzip.compress(b"x")[:-9])],
    ids=["unknown", "plain", "cut off"],
)
def test_unreadable_encodings(server: Any, kit: Any, encoding: str, body: bytes) -> None:
    server.routes["/a"] = kit.status(200, body, Content_Encoding=encoding)
    with quick(attempts=1) as http, pytest.raises(HttpError):
        http.get(server.url("/a"))


def test_stream_to_path_and_file(server: Any, tmp_path: Path) -> None:
    url = server.serve("/data", DATA)
    sha256, told, target = hashlib.sha256(DATA).hexdigest(), [], tmp_path / "out"
    with quick() as http:
        assert http.stream_to(url, str(target), sha256=sha256, progress=lambda *at: told.append(at)) == len(DATA)
        handle = io.BytesIO(b"before")
        handle.seek(6)
        http.stream_to(url, handle, sha256=sha256.upper())
    assert target.read_bytes() == DATA
    assert handle.getvalue() == b"before" + DATA
    assert told[-1] == (len(DATA), len(DATA))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_stream_to_keeps_what_was_there_if_the_sha256_is_wrong(server: Any, tmp_path: Path) -> None:
    url = server.serve("/data", DATA)
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with quick() as http, pytest.raises(HttpError) as caught:
        http.stream_to(url, str(target), sha256="0" * 64)
    assert f"expected sha256 {'0' * 64}, found sha256 {hashlib.sha256(DATA).hexdigest()}" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert target.read_bytes() == b"old"


def test_stream_to_a_place_that_is_not_there(server: Any, tmp_path: Path) -> None:
    url = server.serve("/data", DATA)
    with quick() as http, pytest.raises(RefusedByMachineError, match="cannot be written"):
        http.stream_to(url, str(tmp_path / "no" / "out"), sha256="0" * 64)
    with quick() as http, pytest.raises(HttpError) as caught:
        http.stream_to(server.url("/nothing"), str(tmp_path / "out"), sha256="0" * 64)
    assert caught.value.status == 404


# addresses, redirects and credentials


@pytest.mark.parametrize("url", ["http://192.0.2.1/a", "ftp://127.0.0.1/a", "file:///etc/passwd", "https:///a", "x"])
def test_only_https_and_loopback(url: str) -> None:
    with quick() as http, pytest.raises(UnreachableError, match="not https"):
        http.get(url)


def test_tls_is_verified(secure: Any, kit: Any, authority: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secure.routes["/a"] = kit.status(200, b"fine")
    with quick(ca_bundle=authority) as http:
        assert http.get(secure.url("/a")).body == b"fine"
    with quick() as http, pytest.raises(UnreachableError, match=r"found TLS refused: .*certificate") as caught:
        http.get(secure.url("/a", host="localhost"))
    assert "pip's `cert`" in caught.value.hint
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    with quick() as http:
        assert http.get(secure.url("/a")).body == b"fine"


def test_the_variables_that_name_certificates(
    secure: Any, kit: Any, authority: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each is heard, and pip's own before all others."""
    secure.routes["/a"] = kit.status(200, b"fine")
    other = tmp_path / "empty.pem"
    other.write_text("")
    names = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
    for number, name in enumerate(names):
        for weaker in names[:number]:
            monkeypatch.setenv(weaker, str(other))
        monkeypatch.setenv(name, authority)
        with quick() as http:
            assert http.get(secure.url("/a")).body == b"fine"
    monkeypatch.setenv("PIP_CERT", "/no/such")
    with pytest.raises(ConfigError, match="/no/such: expected a file") as caught:
        quick()
    assert "PIP_CERT" in caught.value.hint


def test_certificate_for_another_host(secure: Any, authority: Any) -> None:
    with quick(ca_bundle=authority) as http, pytest.raises(UnreachableError, match="found TLS refused"):
        http.get(secure.url("/a", host="127.0.0.1"))


def test_ca_bundle_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="/no/such: expected a file with certificate authorities, found nothing"):
        Http(ca_bundle="/no/such")


def test_redirect_from_https_to_plain_http_is_refused(secure: Any, server: Any, kit: Any, authority: Any) -> None:
    server.routes["/b"] = kit.status(200, b"plain")
    secure.routes["/a"] = kit.status(302, Location=server.url("/b"))
    with quick(ca_bundle=authority) as http, pytest.raises(UnreachableError, match="a redirect to http://"):
        http.get(secure.url("/a"))
    assert server.seen == []


@pytest.mark.parametrize("target", ["http://192.0.2.1/b", "file:///etc/passwd", "ftp://127.0.0.1/"])
def test_redirect_out_of_loopback_without_tls_is_refused(server: Any, kit: Any, target: str) -> None:
    server.routes["/a"] = kit.status(302, Location=target)
    with quick() as http, pytest.raises(UnreachableError, match="found a redirect to"):
        http.get(server.url("/a"))


def test_redirects_in_a_circle(server: Any, kit: Any) -> None:
    server.routes["/a"] = kit.status(302, Location="/a")
    with quick() as http, pytest.raises(UnreachableError, match="more than 10 redirects"):
        http.get(server.url("/a"))


@pytest.mark.parametrize("how", ["header", "url", "netrc"])
def test_authorization_stays_with_its_host(server: Any, other: Any, kit: Any, how: str, tmp_path: Path) -> None:
    server.routes["/a"] = kit.status(302, Location="/b")
    server.routes["/b"] = kit.status(302, Location=other.url("/c", host="localhost"))
    other.routes["/c"] = kit.status(200, b"fine")
    url, headers = server.url("/a"), {}
    if how == "header":
        headers = {"Authorization": f"Bearer {SECRET}", "Cookie": SECRET}
    if how == "url":
        url = server.url("/a", user=f"user:{SECRET}")
    if how == "netrc":
        (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login user password {SECRET}\n")
    with quick() as http:
        assert http.get(url, headers).body == b"fine"
    assert all("authorization" in seen.headers for seen in server.seen)
    assert "authorization" not in other.seen[0].headers
    assert "cookie" not in other.seen[0].headers


def test_another_port_is_another_host(server: Any, other: Any, kit: Any) -> None:
    server.routes["/a"] = kit.status(302, Location=other.url("/c"))
    other.routes["/c"] = kit.status(200, b"fine")
    with quick() as http:
        http.get(server.url("/a", user=f"user:{SECRET}"))
    assert "authorization" not in other.seen[0].headers


def test_learned_credentials_are_used_for_their_host_only(server: Any, other: Any, kit: Any) -> None:
    for each in (server, other):
        each.routes["/a"] = kit.status(200)
    with quick() as http:
        http.learn_credentials(server.url("/", user=f"user:{SECRET}"))
        http.get(server.url("/a"))
        http.get(other.url("/a"))
    assert server.seen[0].headers["authorization"] == "Basic dXNlcjpzM2NyM3QtcDRzcw=="
    assert "authorization" not in other.seen[0].headers


def test_no_failure_shows_credentials(server: Any, secure: Any, kit: Any, tmp_path: Path) -> None:
    user = f"user:{SECRET}"
    server.routes.update(
        {
            "/401": kit.status(401),
            "/503": kit.status(503),
            "/reset": reset,
            "/short": short_body,
            "/stall": lambda handler: time.sleep(2),
            "/to": kit.status(302, Location=f"http://{user}@192.0.2.1/?token={SECRET}"),
            "/bad": kit.status(302, Location=f"http://{user}@127.0.0.1:99999/"),
            "/fine": kit.status(200, b"x"),
        }
    )
    urls = [server.url(f"{path}?token={SECRET}", user=user) for path in server.routes if path != "/fine"]
    urls += [f"http://{user}@192.0.2.1/", f"https://{user}@no-such-host.invalid/", f"https://{user}/x@127.0.0.1/"]
    urls += [secure.url("/a", user=user), f"http://{user}@127.0.0.1:1/?sig={SECRET}", f"https://user:{SECRET}#@h/"]
    for url in urls:
        with quick(attempts=1) as http:
            for call in (http.get, lambda url: http.get_range(url, 0, 1), lambda url: http.get_tail(url, 1)):
                with pytest.raises(UnreachableError) as caught:
                    call(url)
                assert SECRET not in whole_text(caught.value), url
    with quick() as http, pytest.raises(UnreachableError) as caught:
        http.stream_to(server.url("/fine", user=user), str(tmp_path / "out"), sha256="0" * 64)
    assert SECRET not in whole_text(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://u:p@host/a", "https://***@host/a"),
        ("https://token@host:8443/a?x=1#y", "https://***@host:8443/a?***"),
        ("https://u:p@ss@host/a", "https://***@host/a"),
        ("https://u:p/q@host/a", "https://***@host/a"),
        ("https://host:8443/@scope/a", "https://host:8443/@scope/a"),
        ("see 'https://u:p@host/a?b=c' and https://x:y@z", "see 'https://***@host/a?***' and https://***@z"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_without_credentials() -> None:
    assert without_credentials("https://u:p@host:1/a?b=c") == "https://host:1/a?b=c"
    with pytest.raises(UnreachableError, match="cannot be parsed"):
        without_credentials("https://host:port/")
