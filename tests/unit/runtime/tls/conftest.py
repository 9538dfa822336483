from pathlib import Path

import pytest

from unit.runtime.tls.certificates import Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    pytest.importorskip("cryptography")
    return make(Path(tmp_path_factory.mktemp("tls")))
