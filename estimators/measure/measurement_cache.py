"""The cache of measurements: one SQLite file, which any number of processes may use at once."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hespas.estimators.measure.failure import WorkerFailure
from hespas.support.errors import HespasError

NO_FILE = "none"  # in place of a file: results are kept for the run only
CACHE_VARIABLE = "HESPAS_CACHE"
SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 60.0

CREATE_TABLE_SQL = """
CREATE TABLE IF NOT EXISTS results (
  key TEXT PRIMARY KEY, estimator TEXT, version TEXT, device TEXT, name TEXT,
  created_s REAL, failed INTEGER, outcome TEXT
) WITHOUT ROWID
"""


def locate_default_file() -> Path:
    """The file that HESPAS_CACHE names, else ``hespas/measurements.sqlite`` in the user's cache.

    Raises HespasError where there is no such place.
    """
    named = os.environ.get(CACHE_VARIABLE)
    try:
        if named:
            return Path(named).expanduser()
        if sys.platform == "darwin":
            folder = Path.home() / "Library" / "Caches"
        else:
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        message = "there is no home folder to keep the cache of measurements in"
        raise HespasError(
            message, remedy=f"name a file by {CACHE_VARIABLE}, or cache={NO_FILE}"
        ) from None
    return folder / "hespas" / "measurements.sqlite"


def compute_cache_key(
    estimator: str, version: str, payload: dict[str, Any], environment: dict[str, Any]
) -> str:
    """The key of a result: a hash of all that it depends on."""
    parts = json.dumps([estimator, version, payload, environment], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


class MeasurementCache:
    """Results by key. Each is on disk as soon as ``put`` returns; the first of two stays.

    ``file`` "" is the default place, "none" no file at all. Raises HespasError where it cannot be
    used: another program's file, a damaged one, one that may not be written.
    """

    def __init__(self, file: str = "") -> None:
        self.file = (
            None if file == NO_FILE else Path(file).expanduser() if file else locate_default_file()
        )
        with self._convert_errors():
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self.file or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None
            )
            try:
                self._check_schema()
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> MeasurementCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def find_outcome(self, key: str) -> dict[str, Any] | WorkerFailure | None:
        """The answer or the failure of that key, None where there is none."""
        with self._convert_errors():
            row = self._db.execute(
                "SELECT failed, outcome FROM results WHERE key = ?", (key,)
            ).fetchone()
            if row is None:
                return None
            outcome = json.loads(row[1])
            return WorkerFailure.from_json(outcome) if row[0] else outcome

    def store_outcome(
        self,
        key: str,
        outcome: dict[str, Any] | WorkerFailure,
        *,
        estimator: str,
        version: str,
        device: str = "",
        name: str = "",
    ) -> None:
        """Keep an outcome; the rest is for ``hespas measure cache`` to list."""
        failed = isinstance(outcome, WorkerFailure)
        text = json.dumps(outcome.to_json() if isinstance(outcome, WorkerFailure) else outcome)
        row = (key, estimator, version, device, name, time.time(), failed, text)
        with self._convert_errors():
            self._db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def count_grouped_outcomes(self) -> list[tuple[str, str, str, int, int]]:
        """(estimator, version, device, results, failures), by name."""
        with self._convert_errors():
            return self._db.execute(
                "SELECT estimator, version, device, COUNT(*), SUM(failed) FROM results "
                "GROUP BY estimator, version, device ORDER BY estimator, version, device"
            ).fetchall()

    def remove_outcomes(self, estimator: str = "") -> int:
        """Remove the results of an estimator, or all; how many there were."""
        with self._convert_errors():
            where, values = (" WHERE estimator = ?", (estimator,)) if estimator else ("", ())
            removed = self._db.execute(f"DELETE FROM results{where}", values).rowcount
            self._db.execute("VACUUM")
            return removed

    def measure_size_bytes(self) -> int:
        """Bytes of the file, with what SQLite keeps beside it."""
        if self.file is None:
            return 0
        beside = [self.file, *(Path(f"{self.file}{end}") for end in ("-wal", "-shm"))]
        return sum(path.stat().st_size for path in beside if path.exists())

    def _check_schema(self) -> None:
        """Make the table in a new file; raises HespasError for a file with other contents."""
        self._db.execute("BEGIN IMMEDIATE")  # another process may be doing the same
        schema_version = self._db.execute("PRAGMA user_version").fetchone()[0]
        tables = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if schema_version != SCHEMA_VERSION and (schema_version or tables):
            raise HespasError(
                "this is no cache of measurements, or one of another version of hespas",
                where=str(self.file),
                remedy="name another file",
            )
        self._db.execute(CREATE_TABLE_SQL)
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._db.execute("COMMIT")

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            damaged = isinstance(error, ValueError) or type(error) is sqlite3.DatabaseError
            condition = "damaged, or no cache at all" if damaged else "not to be used"
            remedy = (
                "remove it, or name another"
                if damaged
                else f"name another, or cache={NO_FILE} for none"
            )
            raise HespasError(
                f"the cache is {condition}: {error}", where=str(self.file), remedy=remedy
            ) from None
