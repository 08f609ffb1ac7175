"""A small SVG writer for the figures of docs/understand: panels with axes, lines, bands, dots, bars and heat maps.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; a figure has white paper, so it is readable in the dark too.
"""
BLUE, ORANGE, GREEN, PURPLE, INK, MUTED, FAINT, SHADE = "#0072b2", "#d55e00", "#00835f", "#b8558c", "#1a212b", "#586473", "#e2e6eb", "#eceef2"
FONT = 'font-family="system-ui,-apple-system,Segoe UI,Roboto,Arial,sans-serif"'


def text(x, y, said, size=12, anchor="start", colour=MUTED, weight=400, turn=None):
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    said = said.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"{turned}>{said}</text>'


def number(value):
    return f"{value:.3g}".replace("-", "−")


class Panel:
    """A rectangle of the figure with axes of its own."""

    def __init__(self, box, x, y, title="", x_label="", y_label="", x_ticks=None, y_ticks=None, log_x=False, log_y=False):
        import math

        self.left, self.top, self.width, self.height = box
        self.scale = [(lambda v: math.log10(v)) if log else (lambda v: v) for log in (log_x, log_y)]
        self.x, self.y = [tuple(self.scale[i](v) for v in ends) for i, ends in enumerate((x, y))]
        self.parts = [text(self.left, self.top - 10, title, 13, colour=INK, weight=600)] if title else []
        bottom = self.top + self.height
        for value in x_ticks or []:
            at = self.at(value, y[0])[0]
            self.parts += [f'<line x1="{at:.1f}" y1="{self.top}" x2="{at:.1f}" y2="{bottom}" stroke="{FAINT}"/>', text(at, bottom + 15, number(value), 11, "middle")]
        for value in y_ticks or []:
            at = self.at(x[0], value)[1]
            self.parts += [f'<line x1="{self.left}" y1="{at:.1f}" x2="{self.left + self.width}" y2="{at:.1f}" stroke="{FAINT}"/>', text(self.left - 6, at + 4, number(value), 11, "end")]
        if x_label:
            self.parts.append(text(self.left + self.width / 2, bottom + 32, x_label, 12, "middle"))
        if y_label:
            self.parts.append(text(self.left - 40, self.top + self.height / 2, y_label, 12, "middle", turn=-90))

    def at(self, x, y):
        x, y = self.scale[0](x), self.scale[1](y)
        right = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + right * self.width, self.top + (1 - min(max(up, -0.02), 1.02)) * self.height

    def path(self, xs, ys):
        return " ".join(f"{'M' if i == 0 else 'L'}{a:.1f} {b:.1f}" for i, (a, b) in enumerate(self.at(x, y) for x, y in zip(xs, ys)))

    def line(self, xs, ys, colour=BLUE, width=2, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="{self.path(xs, ys)}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')

    def band(self, xs, low, high, colour=BLUE, opacity=0.25):
        self.parts.append(f'<path d="{self.path([*xs, *reversed(xs)], [*high, *reversed(low)])} Z" fill="{colour}" fill-opacity="{opacity}"/>')

    def dots(self, xs, ys, colour=BLUE, size=2, opacity=0.8):
        for x, y in zip(xs, ys):
            a, b = self.at(x, y)
            self.parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{size}" fill="{colour}" fill-opacity="{opacity}"/>')

    def shade(self, x0, x1, colour=SHADE):
        a, b = self.at(x0, 0)[0], self.at(x1, 0)[0]
        self.parts.insert(0, f'<rect x="{a:.1f}" y="{self.top}" width="{b - a:.1f}" height="{self.height}" fill="{colour}"/>')

    def bar(self, x, low, high, width, colour, opacity=0.85):
        (a, b), (_, c) = self.at(x, high), self.at(x, low)
        self.parts.append(f'<rect x="{a - width / 2:.1f}" y="{b:.1f}" width="{width:.1f}" height="{max(c - b, 0):.1f}" fill="{colour}" fill-opacity="{opacity}"/>')

    def note(self, x, y, said, colour=INK, anchor="start", size=12):
        a, b = self.at(x, y)
        self.parts.append(text(a, b, said, size, anchor, colour))


def heat(left, top, values, cell, largest, title):
    """A matrix as cells: blue is negative, orange positive, white zero."""
    parts = [text(left, top - 8, title, 12, colour=INK, weight=600)]
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            share = max(-1.0, min(1.0, value / largest))
            colour = ORANGE if share > 0 else BLUE
            parts.append(f'<rect x="{left + j * cell:.1f}" y="{top + i * cell:.1f}" width="{cell}" height="{cell}" fill="{colour}" fill-opacity="{abs(share):.2f}"/>')
    rows, columns = len(values), len(values[0])
    parts.append(f'<rect x="{left}" y="{top}" width="{columns * cell}" height="{rows * cell}" fill="none" stroke="{MUTED}"/>')
    return parts


def legend(left, top, entries, gap=None):
    """Coloured words in a row."""
    parts = []
    for colour, said in entries:
        parts += [f'<rect x="{left}" y="{top - 9}" width="12" height="10" fill="{colour}"/>', text(left + 17, top, said, 12, colour=INK)]
        left += gap or 30 + 7 * len(said)
    return parts


def figure(path, width, height, title, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" {FONT}>'
    body = "\n".join(parts)
    path.write_text(f'{head}\n<title>{title}</title>\n<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n')
