"""Accuracy over seconds as one SVG."""

import math

WIDTH, HEIGHT = 720, 430
LEFT, TOP, RIGHT, BOTTOM = 64, 44, 24, 50
COLOURS = ["#222222", "#4477aa", "#ee6677", "#228833", "#aa3377", "#ccaa22", "#66ccee", "#999999"]


def round_step(span, count):
    """A round number that divides the span into about so many parts."""
    size = 10 ** math.floor(math.log10(span / count))
    return min((size * m for m in (1, 2, 5, 10)), key=lambda step: abs(span / step - count))


def ticks(low, high, count):
    step = round_step(high - low, count)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def line(x1, y1, x2, y2):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e5e5e5"/>'


def text(x, y, words, more='text-anchor="middle"'):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def draw(title, curves, low=None):
    """`curves`: by name, (seconds, percent) in order. What lies below `low`, by default
    the lowest last point less 12, is cut off."""
    points = [point for curve in curves.values() for point in curve]
    right = max(x for x, _ in points) * 1.02
    top = max(y for _, y in points) + 0.5
    bottom = low if low is not None else min(curve[-1][1] for curve in curves.values()) - 12

    def place(x, y):
        across = LEFT + x / right * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(LEFT, 24, title, 'font-size="15" font-weight="bold"'),
    ]
    for x in ticks(0, right, 6):
        out += [line(*place(x, bottom), *place(x, top)), text(place(x, 0)[0], HEIGHT - BOTTOM + 16, f"{x:g}")]
    for y in ticks(bottom, top, 6):
        at = place(0, y)[1]
        out += [line(*place(0, y), *place(right, y)), text(LEFT - 7, at + 4, f"{y:g}", 'text-anchor="end"')]
    out += [
        f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}"'
        f' height="{HEIGHT - TOP - BOTTOM}"/></clipPath><g clip-path="url(#area)">'
    ]
    for (name, curve), colour in zip(curves.items(), COLOURS * len(curves)):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in curve)
        out.append(
            f'<polyline fill="none" stroke-width="2" stroke-linejoin="round" stroke="{colour}"'
            f' points="{path}"><title>{name}</title></polyline>'
        )
    out.append("</g>")
    for i, (name, colour) in enumerate(zip(curves, COLOURS * len(curves))):
        y = HEIGHT - BOTTOM - 18 * (len(curves) - i) + 4
        out.append(f'<rect x="{WIDTH - RIGHT - 190}" y="{y - 6}" width="22" height="3" fill="{colour}"/>')
        out.append(text(WIDTH - RIGHT - 160, y, name, 'text-anchor="start"'))
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    out += [
        text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 12, "seconds in training steps"),
        text(16, middle, "test accuracy, %", f'text-anchor="middle" transform="rotate(-90 16 {middle})"'),
        "</svg>\n",
    ]
    return "\n".join(out)
