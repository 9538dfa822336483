"""A time line as an image of its own, for documents that are not the lab's page."""

from tidelog.lab.report.chart import chart
from tidelog.lab.report.style import PATTERNS, STYLE
from tidelog.lab.results import TimeLine


def image(time_line: TimeLine) -> str:
    """SVG with its style in it; empty: there were no events."""
    drawn = chart(time_line)
    if not drawn.startswith("<svg "):
        return ""
    head, _, rest = drawn.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}><style>{STYLE}</style>{PATTERNS}{rest}\n"
