"""Accuracy over seconds, or another unit, as one SVG, in the colours of sluice/report/palette.json."""

import html
import json
import math
import pathlib
import re

PALETTE = json.loads((pathlib.Path(__file__).resolve().parent.parent / "sluice/report/palette.json").read_text())
WIDTH, HEIGHT = 760, 430
LEFT, TOP, RIGHT, BOTTOM = 64, 66, 130, 50
MOST_COLOURS = 7
DASHES = ["", "6 3", "2 2", "9 3 2 3"]
LETTER = 6.4  # a character of a label, roughly


def find_colour(method):
    """Its place in the palette, as Palette::find of sluice/report has it; None if it has none."""
    if method.startswith("attach-"):
        method = method.removeprefix("attach-")
    known = [
        (len(name), i)
        for i, entry in enumerate(PALETTE["colours"])
        for name in entry["names"]
        if re.match(re.escape(name) + "(?![a-zA-Z_])", method)
    ]
    return max(known)[1] if known else None


def assign(methods):
    """A place in the palette for each: its own, or one that is left."""
    known = [find_colour(method) for method in methods]
    left = [i for i in range(len(PALETTE["colours"])) if i not in known]
    return [left.pop(0) if colour is None else colour for colour in known]


def tone(name):
    """What gives a thing that colour, on light and on dark paper."""
    light = PALETTE["colours"][name]["colour"][0] if isinstance(name, int) else PALETTE[name][0]
    return f'class="{f"c{name}" if isinstance(name, int) else name}" color="{light}"'


def dark_css():
    rules = [f"svg .{name}{{color:{PALETTE[name][1]}}}" for name in ("paper", "ink", "muted", "grid")]
    rules += [f"svg .c{i}{{color:{entry['colour'][1]}}}" for i, entry in enumerate(PALETTE["colours"])]
    return "".join(rules)


def round_step(span, count):
    """A round number that divides the span into about so many parts."""
    size = 10 ** math.floor(math.log10(span / count))
    return min((size * m for m in (1, 2, 5, 10)), key=lambda step: abs(span / step - count))


def ticks(low, high, count):
    step = round_step(high - low, count)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def line(x1, y1, x2, y2, more):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" {more}/>'


def text(x, y, words, more='text-anchor="middle"'):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def fine(points):
    """The line as points so close that a label cannot slip between them."""
    out = []
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        steps = max(1, int(math.dist((x1, y1), (x2, y2)) / 4))
        out += [(x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(steps + 1)]
    return out


def candidates(points):
    """(x, y, anchor) of a label: beside the end of its line, else along it."""
    x, y = points[-1]
    beside = [(x + 6, y + 4 + away, "start") for away in (0, 8, -8, 14, -14)]
    along = [points[int(share * (len(points) - 1))] for share in (0.85, 0.7, 0.5, 0.3)]
    return beside + [(x, y + away, "middle") for x, y in along for away in (-7, 15)]


def place_labels(lines):
    """By name, where it covers nothing; a name that finds no such place is left out."""
    walls = [point for points in lines.values() for point in fine(points)]
    taken, places = [], {}
    for name, points in lines.items():
        width = LETTER * len(name)
        for x, y, anchor in candidates(points):
            left = x - (width / 2 if anchor == "middle" else 0)
            box = (left, y - 10, left + width, y + 4)
            inside = LEFT < box[0] and box[2] < WIDTH and TOP < box[1] and box[3] < HEIGHT - BOTTOM + 4
            hit = any(box[0] <= px <= box[2] and box[1] <= py <= box[3] for px, py in walls)
            met = any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in taken)
            if inside and not hit and not met:
                taken.append(box)
                places[name] = (x, y, anchor)
                break
    return places


def legend(looks):
    """At the bottom right, where curves of accuracy are not."""
    out = []
    for i, (name, look) in enumerate(looks.items()):
        y = HEIGHT - BOTTOM - 16 * (len(looks) - i) + 4
        out.append(line(WIDTH - RIGHT - 150, y - 4, WIDTH - RIGHT - 128, y - 4, f'stroke-width="2.2" {look}'))
        out.append(text(WIDTH - RIGHT - 122, y, name, 'text-anchor="start"'))
    return out


def draw(title, curves, low=None, subtitle="", mark=None, along="seconds in training steps"):
    """`curves`: by name, (seconds, percent) in order; so many of them are coloured, the others grey. What lies
    below `low`, by default the lowest last point less 12, is cut off. `mark` is a target in percent; `along` says
    what the horizontal axis has, if not seconds."""
    points = [point for curve in curves.values() for point in curve]
    right = max(x for x, _ in points) * 1.02
    top = max(y for _, y in points) + 0.5
    bottom = low if low is not None else min(curve[-1][1] for curve in curves.values()) - 12

    def place(x, y):
        across = LEFT + x / right * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img" aria-label="{html.escape(title)}" font-family="system-ui,sans-serif" font-size="12">',
        f"<style>@media (prefers-color-scheme:dark){{{dark_css()}}}</style>",
        f'<rect width="100%" height="100%" {tone("paper")} fill="currentColor"/>',
        f'<g {tone("ink")} fill="currentColor">',
        text(LEFT, 24, title, 'font-size="15" font-weight="700"'),
        text(LEFT, 42, subtitle, tone("muted")),
    ]
    for x in ticks(0, right, 6):
        out.append(line(*place(x, bottom), *place(x, top), tone("grid")))
        out.append(text(place(x, 0)[0], HEIGHT - BOTTOM + 16, f"{x:g}", f'text-anchor="middle" {tone("muted")}'))
    for y in ticks(bottom, top, 6):
        out.append(line(*place(0, y), *place(right, y), tone("grid")))
        out.append(text(LEFT - 7, place(0, y)[1] + 4, f"{y:g}", f'text-anchor="end" {tone("muted")}'))
    if mark is not None:
        out.append(line(*place(0, mark), *place(right, mark), f'{tone("muted")} stroke-dasharray="3 4"'))
        words = f"target {mark:.1f} %"
        out.append(text(place(right, 0)[0] - 4, place(0, mark)[1] + 14, words, f'text-anchor="end" {tone("muted")}'))
    coloured = list(curves)[:MOST_COLOURS]
    looks = {name: tone(colour) for name, colour in zip(coloured, assign(coloured))}
    seen = []
    # An SVG within cuts off what lies outside.
    out.append(f'<svg x="0" y="{TOP}" width="{WIDTH}" height="{HEIGHT - TOP - BOTTOM}"'
               f' viewBox="0 {TOP} {WIDTH} {HEIGHT - TOP - BOTTOM}">')
    for name, curve in curves.items():
        look = looks.get(name, f'{tone("muted")} opacity="0.55"')
        dash = DASHES[seen.count(look) % len(DASHES)] if name in looks else ""
        seen.append(look)
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in curve)
        out.append(
            f'<polyline fill="none" stroke-width="{2.2 if name in looks else 1.2}" stroke-linejoin="round"'
            f' stroke="currentColor" {look}{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}'
            f' points="{path}"><title>{html.escape(name)}</title></polyline>'
        )
    out.append("</svg>")
    places = place_labels({name: [place(*point) for point in curves[name]] for name in coloured})
    if len(places) < len(coloured):  # a label may then stand beside the end of another line
        out += legend(looks)
    else:
        for name, (x, y, anchor) in places.items():
            out.append(text(x, y, name, f'text-anchor="{anchor}" font-weight="600" {looks[name]}'))
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    out += [
        text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 14, along),
        text(16, middle, "test accuracy, %", f'text-anchor="middle" transform="rotate(-90 16 {middle})"'),
        "</g>\n</svg>\n",
    ]
    return "\n".join(out)
