"""The report in a real browser, if one is installed: it lays out, nothing sticks out, nothing is fetched."""

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidelog.lab.report import document
from unit.lab.report.made_up import results

pytestmark = pytest.mark.slow

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
BROWSER = os.environ.get("TIDELOG_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)

# Runs in the page, which has no script of its own; what it finds becomes the text of an element.
MEASURE = """<script>addEventListener("load",()=>{
const svgs=[...document.querySelectorAll("section svg")];
const outside=svgs.flatMap(svg=>{const box=svg.getBoundingClientRect();
return [...svg.querySelectorAll("text")].filter(text=>{const t=text.getBoundingClientRect();
return t.left<box.left-1||t.right>box.right+1||t.top<box.top-1||t.bottom>box.bottom+1})
.map(text=>text.textContent)});
const cell=name=>getComputedStyle(document.querySelector("td."+name));
const found={drawings:svgs.filter(svg=>svg.getBoundingClientRect().height>100).length,outside,
wide:document.documentElement.scrollWidth-innerWidth,
fetched:performance.getEntriesByType("resource").length,
hatch:getComputedStyle(document.querySelector("svg .fault")).fill,
patterns:[cell("broken").backgroundImage!=="none",cell("allowed").backgroundImage!=="none",
cell("kept").backgroundImage!=="none"],
cards:[...document.querySelectorAll("td a[href]")].every(a=>document.querySelector(a.getAttribute("href")))};
const out=document.createElement("pre");out.id="measured";out.textContent=JSON.stringify(found);
document.body.append(out)})</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if BROWSER is None:
        pytest.skip("no Chromium is installed; TIDELOG_TEST_BROWSER names one")
    path = tmp_path_factory.mktemp("report") / "report.html"
    document.write(results(), path)
    return path


def browse(page: Path, *words: str) -> str:
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", profile, *words, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout


@pytest.mark.parametrize("width", [1200, 800])
def test_the_page_lays_out(page: Path, width: int) -> None:
    measured = page.with_name(f"measured-{width}.html")
    measured.write_text(page.read_text().replace("</head>", f"{MEASURE}</head>"))
    shown = browse(measured, f"--window-size={width},1000", "--virtual-time-budget=2000", "--dump-dom")
    match = re.search(r'<pre id="measured">(.*?)</pre>', shown)
    assert match is not None, shown[-500:]
    found: dict[str, Any] = json.loads(match[1].replace("&gt;", ">").replace("&amp;", "&"))
    assert found["drawings"] == 7 and found["outside"] == [] and found["cards"]
    assert found["wide"] <= 0 and found["fetched"] == 0
    assert "hatch" in found["hatch"]  # patterns, not only colours
    assert found["patterns"] == [True, True, False]


def test_a_picture_of_it(page: Path) -> None:
    """``TIDELOG_TEST_PICTURES`` keeps it, to be looked at."""
    directory = Path(os.environ.get("TIDELOG_TEST_PICTURES") or page.parent)
    picture = directory / "lab-report.png"
    browse(page, "--window-size=1200,2400", "--hide-scrollbars", f"--screenshot={picture}")
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 2400)
    assert len(data) > 100_000  # an empty page has a few thousand
