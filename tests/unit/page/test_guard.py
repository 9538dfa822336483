"""Who may ask the page."""

import pytest

from tidelog.page.guard import CONTENT_SECURITY_POLICY, refusal


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "localhost:9999", "[::1]:8080"])
def test_this_machine_by_its_names(host: str) -> None:
    assert not refusal("GET", {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"})


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "192.168.1.5:8080", "[::1", "a@b"],
)
def test_a_foreign_name_that_resolves_to_this_machine(host: str) -> None:
    assert "only under 127.0.0.1" in refusal("GET", {"host": host})


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
def test_scripts_of_other_pages(origin: str) -> None:
    assert "Other sites" in refusal("GET", {"host": "127.0.0.1:8080", "origin": origin})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_parts_that_other_pages_load(site: str) -> None:
    cross = {"host": "127.0.0.1:8080", "sec-fetch-site": site}
    assert refusal("GET", cross | {"sec-fetch-mode": "no-cors"})
    assert not refusal("GET", cross | {"sec-fetch-mode": "navigate"})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(method: str) -> None:
    assert refusal(method, {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"})


TOKEN = "t0ken"
CHANGE = {
    "host": "127.0.0.1:8080",
    "origin": "http://127.0.0.1:8080",
    "content-type": "application/json",
    "x-tidelog-token": TOKEN,
}


def test_a_change_of_this_page_with_its_token() -> None:
    assert not refusal("POST", CHANGE, TOKEN)
    assert not refusal("POST", CHANGE | {"sec-fetch-site": "same-origin"}, TOKEN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "evil.example"),
        ("origin", None),
        ("origin", "https://evil.example"),
        ("origin", "http://127.0.0.1:9999"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("content-type", "text/plain"),
        ("content-type", None),
        ("x-tidelog-token", None),
        ("x-tidelog-token", ""),
        ("x-tidelog-token", "t0kem"),
        ("x-tidelog-token", "tökén"),
    ],
)
def test_a_change_that_does_not_prove_itself(name: str, value: str | None) -> None:
    headers = {key: each for key, each in (CHANGE | {name: value}).items() if each is not None}
    assert refusal("POST", headers, TOKEN)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_token_is_for_posts_only(method: str) -> None:
    assert refusal(method, CHANGE, TOKEN)


def test_a_page_without_a_token_takes_no_empty_one() -> None:
    assert refusal("POST", CHANGE | {"x-tidelog-token": ""}, "")


def test_no_inline_scripts_or_styles() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY
