"""The cache of measurements: one SQLite file, which several processes may use at the same time."""

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

NO_FILE = "none"  # instead of a file: results are kept in memory, for this run only
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
    """Return the file of HESPAS_CACHE, or else ``hespas/measurements.sqlite`` in the user's cache.

    Raises HespasError if the user has no home folder.
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
        message = "there is no home folder for the cache of measurements"
        remedy = f"set {CACHE_VARIABLE} to a file, or use cache={NO_FILE}"
        raise HespasError(message, remedy=remedy) from None
    return folder / "hespas" / "measurements.sqlite"


def compute_cache_key(
    estimator: str, version: str, payload: dict[str, Any], environment: dict[str, Any]
) -> str:
    """Return the key of a result: a hash of everything that it depends on."""
    parts = json.dumps([estimator, version, payload, environment], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


class MeasurementCache:
    """A map from keys to results.

    A result is on disk when ``store_outcome`` returns. A second result for a key is ignored.
    Raises HespasError if the file cannot be used: it belongs to another program, is damaged, or
    cannot be written.

    Args:
        file: "" stands for the default file, "none" for no file.
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
                self._use_write_ahead_log()
                self._db.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> MeasurementCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def find_outcome(self, key: str) -> dict[str, Any] | WorkerFailure | None:
        """Return the answer or failure stored under a key, or None."""
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
        """Store an outcome; ``hespas measure cache`` lists the other arguments."""
        failed = isinstance(outcome, WorkerFailure)
        text = json.dumps(outcome.to_json() if isinstance(outcome, WorkerFailure) else outcome)
        row = (key, estimator, version, device, name, time.time(), failed, text)
        with self._convert_errors():
            self._db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def count_grouped_outcomes(self) -> list[tuple[str, str, str, int, int]]:
        """Return sorted rows of (estimator, version, device, results, failures)."""
        with self._convert_errors():
            return self._db.execute(
                "SELECT estimator, version, device, COUNT(*), SUM(failed) FROM results "
                "GROUP BY estimator, version, device ORDER BY estimator, version, device"
            ).fetchall()

    def remove_outcomes(self, estimator: str = "") -> int:
        """Remove the results of one estimator, or all results; returns their number."""
        with self._convert_errors():
            where, values = (" WHERE estimator = ?", (estimator,)) if estimator else ("", ())
            removed = self._db.execute(f"DELETE FROM results{where}", values).rowcount
            self._db.execute("VACUUM")
            return removed

    def measure_size_bytes(self) -> int:
        """Return the size of the file together with SQLite's auxiliary files."""
        if self.file is None:
            return 0
        files = [self.file, *(Path(f"{self.file}{end}") for end in ("-wal", "-shm"))]
        return sum(path.stat().st_size for path in files if path.exists())

    def _check_schema(self) -> None:
        """Create the table in a new file; raises HespasError if the file has other contents."""
        self._db.execute("BEGIN IMMEDIATE")  # another process may be doing the same
        schema_version = self._db.execute("PRAGMA user_version").fetchone()[0]
        tables = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if schema_version != SCHEMA_VERSION and (schema_version or tables):
            raise HespasError(
                "this is not a cache of measurements of this version of hespas",
                where=str(self.file),
                remedy="use another file",
            )
        self._db.execute(CREATE_TABLE_SQL)
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._db.execute("COMMIT")

    def _use_write_ahead_log(self) -> None:
        """Let readers and a writer work at the same time.

        SQLite does not apply its timeout to this change: it fails at once while another process
        uses a new file, so that the change is tried again here.
        """
        deadline_s = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.01)

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            damaged = isinstance(error, ValueError) or type(error) is sqlite3.DatabaseError
            problem = "is damaged, or not a cache" if damaged else "cannot be used"
            remedy = (
                "remove it, or use another file"
                if damaged
                else f"use another file, or cache={NO_FILE} for no cache"
            )
            raise HespasError(
                f"the cache {problem}: {error}", where=str(self.file), remedy=remedy
            ) from None
