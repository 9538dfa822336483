"""Who may ask the page, and what a browser may do with its answers. Pure: headers in, a refusal out.

The page listens on the loopback interface only. That does not keep other web pages out, which run in the same
browser, so every request is checked:

- the host has to be this machine by name, which stops a foreign name that resolves to 127.0.0.1;
- a request that another page causes is refused (Origin and Sec-Fetch-Site), except that a link may lead here;
- whatever is not a read is refused, unless it is a POST that proves to come from this page: it has this page
  as its origin, and the token of the printed address in a header that no other page can set.
"""

from collections.abc import Mapping
from hmac import compare_digest
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
READS = frozenset({"GET", "HEAD"})
FOREIGN = frozenset({"cross-site", "same-site"})
TOKEN_HEADER = "x-tidelog-token"
JSON = "application/json"

# No inline scripts and styles: a name or payload that got into the markup could not run.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "font-src 'self'",
        "connect-src 'self'", "manifest-src 'self'", "base-uri 'none'", "form-action 'none'",
        "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
    )
)  # fmt: skip

HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


def refusal(method: str, headers: Mapping[str, str], token: str = "") -> str:
    """Why the request is refused, as one sentence; empty: it is not. Names of headers are in lower case.
    ``token``: of the printed address; empty: nothing can be changed here.
    """
    if method not in READS and not (token and method == "POST"):
        return "This page is for reading only."
    host = host_of(headers.get("host", ""))
    if host not in LOOPBACK:
        return "This page answers only under 127.0.0.1 and localhost."
    origin = headers.get("origin")
    if origin is not None and not _is_own(origin, headers.get("host", "")):
        return "Other sites may not read this page."
    # Same site: another port of this machine, where another program has its pages.
    if headers.get("sec-fetch-site") in FOREIGN and headers.get("sec-fetch-mode") != "navigate":
        return "Other sites may not load parts of this page."
    return "" if method in READS else _refusal_of_change(headers, token)


def _refusal_of_change(headers: Mapping[str, str], token: str) -> str:
    if "origin" not in headers or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "Changes come from this page only."
    if headers.get("content-type", "").partition(";")[0].strip() != JSON:
        return "Changes are JSON."
    if not compare_digest(headers.get(TOKEN_HEADER, "").encode(), token.encode()):
        return "The token is not that of this page: open the address that was printed when the page started."
    return ""


def host_of(header: str) -> str:
    """The name without its port; empty if it is no name."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_own(origin: str, host: str) -> bool:
    return origin in (f"http://{host}", f"https://{host}")
