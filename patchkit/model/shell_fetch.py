"""What a `curl` or `wget` command line fetches, and where to."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.model import shell_options
from patchkit.model.shell_types import Word

if TYPE_CHECKING:
    from patchkit.model.shell_options import Parsed
    from patchkit.model.shell_types import Command

_CURL_SHORT = "oHAuxmCwbcdDeFXETKQrtyYzPU"
_CURL_LONG = [
    "output",
    "header",
    "user-agent",
    "user",
    "proxy",
    "retry",
    "retry-delay",
    "retry-max-time",
    "connect-timeout",
    "max-time",
    "cacert",
    "capath",
    "cert",
    "cert-type",
    "key",
    "key-type",
    "pass",
    "continue-at",
    "write-out",
    "cookie",
    "cookie-jar",
    "data",
    "data-raw",
    "data-binary",
    "data-ascii",
    "data-urlencode",
    "json",
    "form",
    "form-string",
    "referer",
    "request",
    "output-dir",
    "resolve",
    "connect-to",
    "limit-rate",
    "rate",
    "range",
    "proto",
    "proto-default",
    "proto-redir",
    "ciphers",
    "tls-max",
    "tls13-ciphers",
    "max-redirs",
    "max-filesize",
    "speed-limit",
    "speed-time",
    "interface",
    "dump-header",
    "proxy-user",
    "noproxy",
    "unix-socket",
    "url",
    "upload-file",
    "config",
    "netrc-file",
    "oauth2-bearer",
    "stderr",
    "trace",
    "trace-ascii",
    "time-cond",
    "create-file-mode",
    "parallel-max",
    "keepalive-time",
    "socks5",
    "socks5-hostname",
    "dns-servers",
    "aws-sigv4",
    "doh-url",
    "etag-compare",
    "etag-save",
    "local-port",
    "pinnedpubkey",
    "variable",
]
_WGET_SHORT = "OPTtoaUwQeiBDARlIX"
_WGET_LONG = [
    "output-document",
    "directory-prefix",
    "timeout",
    "tries",
    "output-file",
    "append-output",
    "header",
    "user-agent",
    "ca-certificate",
    "ca-directory",
    "certificate",
    "private-key",
    "wait",
    "waitretry",
    "quota",
    "post-data",
    "post-file",
    "method",
    "body-data",
    "body-file",
    "http-user",
    "http-password",
    "user",
    "password",
    "limit-rate",
    "referer",
    "input-file",
    "base",
    "cut-dirs",
    "level",
    "accept",
    "reject",
    "domains",
    "execute",
    "save-cookies",
    "load-cookies",
    "dns-timeout",
    "connect-timeout",
    "read-timeout",
    "progress",
    "start-pos",
    "backups",
    "default-page",
    "secure-protocol",
    "bind-address",
    "include-directories",
    "exclude-directories",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A download: `output` is the file it goes to, None for the standard output."""

    url: Word | None
    output: Word | None
    insecure: tuple[str, ...] = ()
    more: tuple[Word, ...] = ()

    def target(self, command: Command) -> Word | None:
        """The file that the answer is kept in, by an option or by the last redirection; None for no file."""
        if self.output is not None:
            return self.output
        kept = [redirect.target for redirect in command.redirects if redirect.writes and redirect.fd in (None, 1)]
        return kept[-1] if kept else None


def parsed_fetch(command: Command) -> Parsed | None:
    """The options and operands of a curl or wget command; None where it is neither."""
    if command.program == "curl":
        return shell_options.parse(command.argv[1:], short=_CURL_SHORT, long=_CURL_LONG)
    if command.program == "wget":
        return shell_options.parse(command.argv[1:], short=_WGET_SHORT, long=_WGET_LONG)
    return None


def fetch(command: Command) -> Fetch | None:
    """What a curl or wget command downloads; None where it is neither."""
    parsed = parsed_fetch(command)
    if parsed is None:
        return None
    if command.program == "curl":
        insecure = tuple(o.name for o in parsed.options if o.name in ("-k", "--insecure"))
        output = parsed.last("-o", "--output")
        remote = parsed.has("-O", "--remote-name", "--remote-name-all")
        folder = parsed.last("--output-dir")
    else:
        insecure = tuple(o.name for o in parsed.options if o.name == "--no-check-certificate")
        output = parsed.last("-O", "--output-document")
        remote = output is None
        folder = parsed.last("-P", "--directory-prefix")
    named = parsed.last("--url") if command.program == "curl" else None
    urls = parsed.operands if named is None else (named.argument, *parsed.operands)
    url = next(iter(urls), None)
    target = None if output is None else output.argument
    if remote and url is not None:
        last = None if url.text is None else url.text.split("?")[0].rsplit("/", 1)[-1]
        target = Word(text=last, raw=url.raw if last is None else last, why=url.why)
    if folder is not None and target is not None and target.text is not None:
        name, target = target.text, folder.argument
        if folder.value is not None:
            joined = posixpath.join(folder.value, name)
            target = Word(text=joined, raw=joined)
    if target is not None and target.text == "-":
        target = None
    return Fetch(url=url, output=target, insecure=insecure, more=urls[1:])
