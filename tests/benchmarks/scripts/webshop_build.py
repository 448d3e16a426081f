"""What building a whole catalogue takes: `python -m tests.benchmarks.scripts.webshop_build`.

Reading, checking and storing the products and indexing them, as at the first use of a public
catalogue. The files have the form of the public ones. Their products are those of `small_1000`
where $WEBSHOP_DATA names its folder, else those of the built-in shop, over and over under new
numbers, so that the vocabulary does not grow; `webshop_search` measures the index with one that
does. Every size has a process of its own; times are CPU times.

The last row extrapolates to the 1.18 million products of the full data set, in a straight line
through the last two.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.webshop.data import catalogue
from tasks.webshop.data.catalogues import SMALL, builtin_products, data_files, is_there
from tasks.webshop.data.files import DataFiles, read_listings
from tests.benchmarks.scripts.webshop_search import FULL
from tests.support.measured import alone, cost

Row = tuple[int, float, float, float, float]
"""Products, MiB of source, CPU seconds, MiB added to the memory at most, MiB on the disk."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    sizes = parser.parse_args().sizes
    print("products of", "small_1000" if is_there(SMALL) else "the built-in shop")
    print(f"{'products':>10} {'source MiB':>11} {'build s':>8} {'peak MiB':>9} {'disk MiB':>9}")
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            source = _write(size, Path(folder))
            rows.append(alone(_build, size, source, Path(folder) / "catalogue"))
        print(_line(rows[-1]))
    if len(rows) > 1:
        print(_line(_extrapolated(*rows[-2:])), "(extrapolated)")


def _write(size: int, folder: Path) -> DataFiles:
    """Write files of the public form with so many products."""
    paths = (folder / "items.json", folder / "attributes.json", folder / "people.json")
    items, attributes = _sources()
    with paths[0].open("w") as products, paths[1].open("w") as known:
        for number in range(size):
            asin, item = f"B{number:09}", items[number % len(items)]
            products.write(("," if number else "[") + json.dumps({**item, "asin": asin}))
            known.write(("," if number else "{") + f'"{asin}":')
            known.write(json.dumps(attributes.get(item["asin"], {})))
        products.write("]")
        known.write("}")
    paths[2].write_text("{}")
    return DataFiles(*paths)


def _sources() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if is_there(SMALL):
        files = data_files(SMALL)
        return json.loads(files.items.read_text()), json.loads(files.attributes.read_text())
    items = list(_as_public())
    return items, {}


def _as_public() -> Iterator[dict[str, Any]]:
    for product in builtin_products():
        yield {
            "asin": product.asin,
            "name": product.title,
            "full_description": product.description,
            "small_description": list(product.bullets),
            "pricing": "".join(f"${price}" for price in product.prices),
            "customization_options": {
                name: [{"value": value} for value in values]
                for name, values in product.options.items()
            },
            "category": product.category,
            "query": product.query,
            "product_category": product.product_category,
        }


def _build(size: int, source: DataFiles, folder: Path) -> Row:
    spent, peak = cost(lambda: catalogue.build(read_listings(source), folder))
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return (
        size,
        sum(path.stat().st_size for path in source.paths) / 2**20,
        spent,
        peak,
        disk / 2**20,
    )


def _extrapolated(small: Row, large: Row) -> Row:
    factor = (FULL - large[0]) / (large[0] - small[0])
    source, spent, peak, disk = (
        b + (b - a) * factor for a, b in zip(small[1:], large[1:], strict=True)
    )
    return FULL, source, spent, peak, disk


def _line(row: Row) -> str:
    products, source, spent, peak, disk = row
    return f"{products:>10,} {source:>11,.0f} {spent:>8.1f} {peak:>9,.0f} {disk:>9,.0f}"


if __name__ == "__main__":
    main()
