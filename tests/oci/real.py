"""Debian's docker-registry, started for a test; and the token service that one of them asks."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import ipaddress
import json
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

if TYPE_CHECKING:
    from pathlib import Path

USER, PASSWORD = "tester", "s3cr3t-p4ss"
#: bcrypt of PASSWORD
HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuw5aQk7mGFz24sJeGQKeOwzXGqVFZMHG\n"
SERVICE, ISSUER = "patchkit-test", "patchkit-test-issuer"


def free_port() -> int:
    with contextlib.closing(socket.socket()) as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.timezone.utc)
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    kind, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, none)


class Real:
    """A docker-registry process on a port of its own; `host` is its address."""

    def __init__(
        self, program: str, folder: Path, *, auth: str = "", service: TokenService | None = None, tls: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.host = f"{'localhost' if tls else '127.0.0.1'}:{free_port()}"
        self.authority = str(folder / "cert.pem")
        http: dict[str, Any] = {"addr": self.host}
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
            "http": http,
        }
        if tls:
            key = ec.generate_private_key(ec.SECP256R1())
            (folder / "key.pem").write_bytes(pem(key))
            (folder / "cert.pem").write_bytes(certificate(key).public_bytes(serialization.Encoding.PEM))
            http["tls"] = {"certificate": self.authority, "key": str(folder / "key.pem")}
        if auth == "htpasswd":
            (folder / "htpasswd").write_text(HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "demo", "path": str(folder / "htpasswd")}}
        if service is not None:
            (folder / "bundle.pem").write_bytes(service.certificate.public_bytes(serialization.Encoding.PEM))
            told = {"realm": service.url, "service": SERVICE, "issuer": ISSUER}
            config["auth"] = {"token": {**told, "rootcertbundle": str(folder / "bundle.pem")}}
        (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        self._log = (folder / "log").open("wb")
        command = [program, "serve", str(folder / "config.yml")]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def __enter__(self) -> Real:
        name, _, port = self.host.partition(":")
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), contextlib.closing(socket.create_connection((name, int(port)), 1)):
                return self
            assert self._process.poll() is None, "docker-registry ended: see its log"
            assert time.monotonic() < end, "docker-registry does not listen"
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._log.close()


class TokenService:
    """Grants what is asked for to `tester`, `pull` to nobody; `seconds` is how long a token lasts.

    `asked` has the scopes of every request, `logins` who asked. `refuse` grants nothing at all.
    """

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = certificate(self.key)
        self.asked: list[list[str]] = []
        self.logins: list[str] = []
        self.seconds, self.refuse, self.says_seconds = 60.0, False, 60.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                self.answer(query.get("scope", []), self.headers.get("Authorization", ""))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                known = form.get("refresh_token") == ["identity"]
                basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                self.answer(form["scope"][0].split(), f"Basic {basic}" if known else "Basic wrong")

            def answer(self, scopes: list[str], login: str) -> None:
                outer.asked.append(scopes)
                outer.logins.append(login)
                good = login == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                status = 401 if outer.refuse or (login and not good) else 200
                document = {"token": outer.token(scopes, all_rights=good), "expires_in": outer.says_seconds}
                body = json.dumps(document if status == 200 else {"details": "no"}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def token(self, scopes: list[str], *, all_rights: bool) -> str:
        now = int(time.time())
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":", 2)
            granted = [action for action in actions.split(",") if all_rights or action == "pull"]
            access.append({"type": kind, "name": name, "actions": granted})
        # the registry forgives a minute of difference between two clocks
        claims = {"iss": ISSUER, "sub": USER, "aud": SERVICE, "nbf": now - 600, "iat": now, "access": access}
        claims["exp"] = int(now + self.seconds - (60 if self.seconds < 60 else 0))
        chain = base64.b64encode(self.certificate.public_bytes(serialization.Encoding.DER)).decode()
        head = {"typ": "JWT", "alg": "ES256", "x5c": [chain]}
        text = b".".join(packed(json.dumps(part).encode()) for part in (head, claims))
        r, s = utils.decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA256())))
        return (text + b"." + packed(r.to_bytes(32, "big") + s.to_bytes(32, "big"))).decode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
