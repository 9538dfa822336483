"""The parsers of strangers' bytes under a fuzzer guided by coverage: ``python -m bench.fuzzing.guided``.

Needs ``pip install atheris`` and takes libFuzzer's options, such as ``-max_total_time=600``, ``-seed=1`` or a
directory to keep what it finds. Begins with frames of the generator beside it. A frame that raises what is no
refusal, or takes long, ends the run and is written to a file ``crash-…`` or ``slow-unit-…``.
"""

import contextlib
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tidelog.protocol", "tidelog.security", "kio"]):
    import tidelog.protocol
    import tidelog.security

    for package in (tidelog.protocol, tidelog.security):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    from bench.fuzzing.frames import Frames
    from bench.fuzzing.target import REFUSALS, parse
    from tidelog.broker.registry import SERVED
    from tidelog.broker.requests.request import HangUp
    from tidelog.protocol import messages

    # Schemas are imported when they are first used.
    for api_key, api in SERVED.items():
        for version in range(api.oldest, api.newest + 1):
            with contextlib.suppress(*REFUSALS):
                messages.decode(api_key, version, memoryview(b""), 0)

SEEDS = 2_000
FRAME_BYTES_MAX = 4_096
TIMEOUT_S = 5
RESIDENT_MB_MAX = 1_024


def one(data: bytes) -> None:
    with contextlib.suppress(*REFUSALS, HangUp):
        parse(memoryview(data))


def write_corpus(directory: Path) -> None:
    """A frame in each file, without the length before it."""
    source = Frames(1)
    for number in range(SEEDS):
        (directory / f"{number:05}").write_bytes(source.stream(1)[4:])


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        write_corpus(Path(temporary))
        limits = [f"-max_len={FRAME_BYTES_MAX}", f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={RESIDENT_MB_MAX}"]
        # libFuzzer writes what it finds into the first directory.
        directories = [word for word in sys.argv[1:] if not word.startswith("-")] or [temporary]
        options = [word for word in sys.argv[1:] if word.startswith("-")]
        atheris.Setup([sys.argv[0], *limits, *options, *directories, temporary], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
