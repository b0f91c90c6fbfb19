#!/usr/bin/env python3
"""Accuracy over time, or over epochs, of several comparisons, side by side in one SVG.

    benchmarks/multiples.py runs/a runs/b --out both.svg
    benchmarks/multiples.py runs/a --epochs --titles "ResNet-20 on icons" --out a.svg

Folders are what `sluice compare --out` wrote; curves are means over the seeds. `--epochs` is for runs whose times are
not comparable.
"""

import argparse
import json
import pathlib
import sys

import accuracy_plot
from demo import curve


def epochs(rows):
    """(epoch, accuracy) at each evaluation."""
    return [(row["epoch"], row["accuracy"]) for row in rows if row["kind"] == "eval"]


def read_table(folder):
    path = folder / "table.json"
    if not path.exists():
        sys.exit(f"[multiples] '{folder}' must be a folder of sluice compare, but has no table.json")
    return json.loads(path.read_text())


def read_runs(folder, points):
    """By method, in the table's order, the curves of its seeds; if densities differ, the names have them."""
    table = read_table(folder)
    several = len(densities_in(table["rows"])) > 1
    names = {}
    for row in table["rows"]:
        sparse = several and row["sparsifier"] != "none"
        names[row["method"], row["density"]] = f"{row['method']} {100 * row['density']:g} %" if sparse else row["method"]
    runs = {name: [] for name in names.values()}
    for run in table["runs"]:
        path = folder / pathlib.Path(run["folder"]).name / "metrics.jsonl"
        name = names.get((run["method"], run["density"]))
        if name is not None and path.exists():
            runs[name].append(points([json.loads(line) for line in path.read_text().splitlines()]))
    return {name: curves for name, curves in runs.items() if curves}


def densities_in(rows):
    return sorted({row["density"] for row in rows if row["sparsifier"] != "none"})


def mean_curve(curves):
    """Point by point, in percent: seeds are evaluated after the same steps."""
    return [
        (sum(x for x, _ in points) / len(points), 100 * sum(y for _, y in points) / len(points))
        for points in zip(*curves)
    ]


def describe(folder):
    config = json.loads(next(folder.glob("*/config.json")).read_text())
    seeds = len({json.loads(p.read_text())["seed"] for p in folder.glob("*/config.json")})
    title = f"{config['model']} on {config['dataset']}"
    if config["net"]:
        title += f", {config['net'].split(',')[-1]}/s"
    at = ", ".join(f"{100 * density:g} %" for density in densities_in(read_table(folder)["rows"]))
    return title, f"{config['workers']} workers, batch {config['batch_size']} each, {seeds} seeds, density {at}"


def panel(folder, options, i):
    title, subtitle = describe(folder)
    runs = read_runs(folder, epochs if options.epochs else curve)
    curves = {method: mean_curve(curves) for method, curves in runs.items()}
    title = options.titles[i] if options.titles else title
    along = {"along": "epochs"} if options.epochs else {}
    svg = accuracy_plot.draw(title, curves, subtitle=subtitle, **along)
    x, y = i % options.columns * accuracy_plot.WIDTH, i // options.columns * accuracy_plot.HEIGHT
    return svg.replace("<svg ", f'<svg x="{x}" y="{y}" ', 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", required=True, help="the SVG")
    parser.add_argument("--columns", type=int, default=2)
    parser.add_argument("--epochs", action="store_true", help="accuracy over epochs, not seconds")
    parser.add_argument("--titles", nargs="+", help="one for each folder; by default its model and data")
    options = parser.parse_args()
    if options.titles and len(options.titles) != len(options.folders):
        parser.error(f"--titles needs {len(options.folders)} titles, one for each folder; it has {len(options.titles)}")
    width, height = accuracy_plot.WIDTH, accuracy_plot.HEIGHT
    options.columns = min(options.columns, len(options.folders))
    panels = [panel(folder, options, i) for i, folder in enumerate(options.folders)]
    rows = -(-len(panels) // options.columns)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {options.columns * width} {rows * height}">'
    pathlib.Path(options.out).write_text("\n".join([head, *panels, "</svg>\n"]))


if __name__ == "__main__":
    main()
