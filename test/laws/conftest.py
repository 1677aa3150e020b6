"""Fixtures of the laws."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.random_costs import install_random_estimator

from hespas.estimators import registry


@pytest.fixture(autouse=True, scope="module")
def random_estimator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The estimator of random costs is known by its name, also to workers, in the laws alone."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        install_random_estimator(tmp_path_factory.mktemp("package"), monkeypatch)
        yield
    registry.find_plugins.cache_clear()
