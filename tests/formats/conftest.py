import pytest


@pytest.fixture(autouse=True)
def index_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path_factory.mktemp("index-cache")))
