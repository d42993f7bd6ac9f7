#!/usr/bin/env python3
"""screenshot.py TITLE FILE.svg - a terminal's text with colours as an image

Reads lines with SGR sequences (bold, dim, reverse, underline, 24-bit colours)
and writes SVG.  Blocks, braille and box lines are drawn as shapes, so that the
picture does not depend on the fonts of whoever looks at it.
"""
import re
import sys
import unicodedata
from xml.sax.saxutils import escape

W, H, PAD, BAR = 8.4, 18, 10, 28
PAPER, INK = "#11151a", "#d8dee6"
BOLD = ' font-weight="bold"'
FONT = "'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace"


class Look:
    def __init__(self):
        self.fg, self.bg, self.on = None, None, set()

    def take(self, numbers):
        n = [int(x or 0) for x in numbers.split(";")]
        while n:
            code = n.pop(0)
            if code == 0:
                self.__init__()
            elif code in (38, 48):
                color = "#%02x%02x%02x" % tuple(n[1:4])
                n = n[4:]
                if code == 38:
                    self.fg = color
                else:
                    self.bg = color
            else:
                self.on.add(code)

    def colors(self):
        fg, bg = self.fg or INK, self.bg or PAPER
        return (bg, fg) if 7 in self.on else (fg, bg)


def cells(line):
    """(column, character, foreground, background, bold), left to right."""
    look, x = Look(), 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            look.take(part[2:-1])
            continue
        for c in part:
            if unicodedata.combining(c):
                continue
            fg, bg = look.colors()
            yield x, c, fg, bg, 1 in look.on
            x += 2 if unicodedata.east_asian_width(c) in "WF" else 1


def rect(x, y, w, h, color):
    return (f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" '
            f'height="{h:.2f}" fill="{color}"/>')


def braille(x, y, bits, color):
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
    d = "".join(f"M{x + W * (0.12 + 0.5 * dx):.1f} {y + H * dy / 4 + 0.5:.1f}"
                "h3v3.6h-3z" for i, (dx, dy) in enumerate(places)
                if bits >> i & 1)
    return f'<path d="{d}" fill="{color}"/>' if d else ""


def block(x, y, c, color):
    n = ord(c)
    if 0x2581 <= n <= 0x2588:
        part = (n - 0x2580) / 8
        return rect(x, y + H * (1 - part), W + 0.2, H * part, color)
    if 0x2589 <= n <= 0x258f:
        return rect(x, y, W * (0x2590 - n) / 8, H, color)
    shade = {0x2591: 0.3, 0x2592: 0.55, 0x2593: 0.78}.get(n)
    return (rect(x, y, W + 0.2, H, color)[:-2] + f' opacity="{shade}"/>'
            if shade else None)


LINES = {"─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu"}


def lines(x, y, c, color):
    cx, cy = x + W / 2, y + H / 2
    ends = {"l": (x, cy), "r": (x + W, cy), "u": (cx, y), "d": (cx, y + H)}
    d = "".join(f"M{cx:.1f} {cy:.1f}L{ends[e][0]:.1f} {ends[e][1]:.1f}"
                for e in LINES[c])
    return f'<path d="{d}" stroke="{color}"/>'


def shape(x, y, c, color):
    if 0x2800 <= ord(c) <= 0x28ff:
        return braille(x, y, ord(c) - 0x2800, color)
    if c in LINES:
        return lines(x, y, c, color)
    return block(x, y, c, color)


class Row:
    """Text of one look is one element."""

    def __init__(self, y):
        self.y, self.out = y, []
        self.start, self.text, self.look = 0, "", None

    def end(self):
        text, n = self.text.rstrip(), len(self.text.rstrip())
        if text:
            fg, bold = self.look
            self.out.append(
                f'<text x="{PAD + self.start * W:.2f}" y="{self.y + 13.5:.1f}" '
                f'textLength="{n * W:.1f}" fill="{fg}"'
                f"{BOLD if bold else str()}>"
                f'{escape(text)}</text>')
        self.text = ""

    def add(self, column, c, fg, bg, bold):
        x = PAD + column * W
        if bg != PAPER:
            self.out.append(rect(x, self.y, W + 0.2, H, bg))
        drawn = shape(x, self.y, c, fg)
        if drawn is not None:
            self.end()
            self.out.append(drawn)
            return
        if (fg, bold) != self.look or bg != PAPER or \
                column != self.start + len(self.text) or \
                not self.text and c == " ":
            self.end()
            self.start, self.look = column, (fg, bold)
        if self.text or c != " ":
            self.text += c


def main(title, path):
    text = sys.stdin.read().splitlines()
    rows, width = [], 0
    for i, line in enumerate(text):
        row = Row(PAD + BAR + i * H)
        for cell in cells(line):
            row.add(*cell)
            width = max(width, cell[0] + 1)
        row.end()
        rows.append("".join(row.out))
    w, h = width * W + 2 * PAD, len(text) * H + 2 * PAD + BAR
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" '
                f'height="{h:.0f}" viewBox="0 0 {w:.0f} {h:.0f}" '
                f'font-family="{FONT}" font-size="14" fill="none" '
                f'xml:space="preserve"><title>{escape(title)}</title>\n'
                f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>'
                + "".join(f'<circle cx="{18 + 18 * i}" cy="18" r="6" '
                          f'fill="{c}"/>' for i, c in
                          enumerate(("#f27a7a", "#f0b252", "#4cc38a")))
                + f'<text x="{w / 2:.0f}" y="23" fill="#87939f" '
                f'text-anchor="middle">{escape(title)}</text>\n'
                + "\n".join(rows) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1], sys.argv[2])
