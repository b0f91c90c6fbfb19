#!/usr/bin/env python3
"""Accuracy over time of several comparisons, side by side in one SVG.

    benchmarks/multiples.py runs/a runs/b --out both.svg

Folders are what `sluice compare --out` wrote; curves are means over the seeds.
"""

import argparse
import json
import pathlib
import sys

import accuracy_plot
from demo import curve


def read_runs(folder):
    """By method, in the table's order, the curves of its seeds."""
    table = folder / "table.json"
    if not table.exists():
        sys.exit(f"[multiples] '{folder}' must be a folder of sluice compare, but has no table.json")
    order = [row["method"] for row in json.loads(table.read_text())["rows"]]
    runs = {method: [] for method in order}
    for path in sorted(folder.glob("*/metrics.jsonl")):
        method = max((m for m in order if path.parent.name.startswith(f"{m}-")), key=len, default=None)
        if method is not None:
            runs[method].append(curve([json.loads(line) for line in path.read_text().splitlines()]))
    return {method: curves for method, curves in runs.items() if curves}


def mean_curve(curves):
    """Point by point, in percent: seeds are evaluated after the same steps."""
    return [
        (sum(x for x, _ in points) / len(points), 100 * sum(y for _, y in points) / len(points))
        for points in zip(*curves)
    ]


def describe(folder):
    config = json.loads(next(folder.glob("*/config.json")).read_text())
    seeds = len({json.loads(p.read_text())["seed"] for p in folder.glob("*/config.json")})
    title = f"{config['model']} on {config['dataset']}, {config['net'].split(',')[-1]}/s"
    rows = json.loads((folder / "table.json").read_text())["rows"]
    densities = sorted({row["density"] for row in rows if row["sparsifier"] != "none"})
    at = ", ".join(f"{100 * density:g} %" for density in densities)
    return title, f"{config['workers']} workers, batch {config['batch_size']} each, {seeds} seeds, density {at}"


def panel(folder, x, y):
    title, subtitle = describe(folder)
    svg = accuracy_plot.draw(
        title, {method: mean_curve(curves) for method, curves in read_runs(folder).items()}, subtitle=subtitle
    )
    return svg.replace("<svg ", f'<svg x="{x}" y="{y}" ', 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", required=True, help="the SVG")
    parser.add_argument("--columns", type=int, default=2)
    options = parser.parse_args()
    width, height = accuracy_plot.WIDTH, accuracy_plot.HEIGHT
    panels = [
        panel(folder, i % options.columns * width, i // options.columns * height)
        for i, folder in enumerate(options.folders)
    ]
    rows = -(-len(panels) // options.columns)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {options.columns * width} {rows * height}">'
    pathlib.Path(options.out).write_text("\n".join([head, *panels, "</svg>\n"]))


if __name__ == "__main__":
    main()
