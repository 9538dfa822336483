"""A time line as an image of its own."""

from xml.etree import ElementTree

from tidelog.lab.report.image import image
from tidelog.lab.results import Band, TimeLine


def test_it_is_an_image_with_its_style() -> None:
    drawn = image(
        TimeLine(
            acknowledged=(5, 0, 5),
            received=(5, 0, 5),
            latency_ms=(1.0, None, 2.0),
            leader=(1, -1, 2),
            faults=(Band(name="kill of broker 1", start_s=0.1, end_s=0.2),),
        )
    )
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert any("--writes:" in (each.text or "") for each in root.iter("{http://www.w3.org/2000/svg}style"))
    assert "kill of broker 1" in "".join(root.itertext())


def test_without_events_there_is_none() -> None:
    assert image(TimeLine()) == ""
