"""Record the least bytes that ZigZag moves to and from device memory, as a table of ``test/data``.

python test/record_zigzag.py > test/data/zigzag_traffic.csv
"""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime
from importlib.metadata import version

from support.zigzag_traffic import ZIGZAG_ARRAY, search_least_traffic

ROWS = (62, 94, 115, 133, 187, 221, 341, 481, 61, 127, 251)
FOLDS = (1, 2, 3, 5, 7, 6, 10, 15, 21, 35, 14, 22)
FACTOR_COUNT = 4  # so that ZigZag's search tries each order of all prime factors
SHAPE_COUNT = 100
SHARES = (24, 12, 6, 3, 1.5)  # the matrices, with sums of 4 bytes, are so many times the SRAM
LEAST_SRAM_BYTES = 2048


def count_prime_factors(number: int) -> int:
    factor, count = 2, 0
    while number > 1:
        while number % factor == 0:
            number //= factor
            count += 1
        factor += 1
    return count


def draw_shapes() -> list[tuple[int, int, int]]:
    """Draw distinct (M, K, N), always the same ones; M has two prime factors."""
    source = random.Random(16)
    shapes: list[tuple[int, int, int]] = []
    while len(shapes) < SHAPE_COUNT:
        m, k, n = source.choice(ROWS), source.choice(FOLDS), source.choice(FOLDS)
        shape = (m, ZIGZAG_ARRAY * k, ZIGZAG_ARRAY * n)
        counts = [count_prime_factors(each) for each in (m, k, n)]
        if shape not in shapes and counts[0] == 2 and sum(counts) == FACTOR_COUNT:
            shapes.append(shape)
    return shapes


def main() -> None:
    today = datetime.now(UTC).date()
    print(f"# ZigZag {version('zigzag-dse')}, recorded on {today}: bytes of the mapping that moves")
    print(
        f"# the fewest, {ZIGZAG_ARRAY} x {ZIGZAG_ARRAY}, operands and results of 1 byte, sums of 4,"
    )
    print("# double-buffered SRAM. Command: test/record_zigzag.py")
    print("m,k,n,sram_bytes,inputs,weights,sums,results")
    for m, k, n in draw_shapes():
        once_bytes = m * k + k * n + 4 * m * n
        for share in SHARES:
            sram_bytes = int(once_bytes // share // 64 * 64)
            if sram_bytes >= LEAST_SRAM_BYTES:
                traffic = search_least_traffic((m, k, n), sram_bytes)
                print(m, k, n, sram_bytes, *traffic, sep=",", flush=True)


if __name__ == "__main__":
    sys.exit(main())
