"""The files for browsers: small, complete, and without the ways in which text becomes markup."""

import re

from tidelog.page.assets import DIRECTORY, load

BYTES_MAX = 300_000
# Every way in which a browser turns text into markup or code.
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser"
    r"|createContextualFragment|javascript:"
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/)|//cdn|@import|url\(")


def test_they_are_small() -> None:
    assert sum(len(asset.body) for asset in load().values()) < BYTES_MAX


def test_no_text_becomes_markup() -> None:
    for path, asset in load().items():
        if path.endswith(".js"):
            assert not SINKS.search(asset.body.decode()), path


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path, asset in load().items():
        assert not ELSEWHERE.search(asset.body.decode()), path


def test_the_document_has_no_inline_script_or_style() -> None:
    document = load()["index.html"].body.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", document)


def test_every_module_that_is_imported_is_there() -> None:
    assets = load()
    for path, asset in assets.items():
        for found in re.findall(r'from "(\.[^"]+)"', asset.body.decode()):
            target = (DIRECTORY / path).parent.joinpath(found).resolve()
            assert target.relative_to(DIRECTORY).as_posix() in assets, (path, found)
