"""Draws the costs: for each way to wait a row, in it a dot for each length of the job, on a logarithmic scale."""
import math
from html import escape

BACKGROUND, FOREGROUND, GRID, BAND = "#1b1d23", "#d7dae0", "#3f4451", "#23262e"
COLOURS = ("#42b3c2", "#d18f52", "#e05561", "#c162de", "#8cc265")
LEFT, RIGHT, TOP, ROW, BOTTOM, WIDTH = 320, 40, 62, 46, 54, 860


def short(n):
    if n >= 1e6:
        return f"{n / 1e6:.3g}M"
    return f"{n / 1e3:.3g}k" if n >= 1e3 else str(n)


def svg(result):
    rows = result["costs"]
    arms = list(dict.fromkeys(row["title"] for row in rows))
    minutes = sorted({row["minutes"] for row in rows})
    values = [row["input_tokens"] for row in rows]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    height = TOP + ROW * len(arms) + BOTTOM

    def across(value):
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="system-ui,\'DejaVu Sans\',Helvetica,Arial,sans-serif" font-size="14">',
        "<title>Input tokens that an agent sends while it waits for a job</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<text x="20" y="30" font-weight="bold" fill="{FOREGROUND}">Input tokens to wait for one job</text>',
    ]
    x = WIDTH - RIGHT
    for n in reversed(range(len(minutes))):
        label = f"{minutes[n]} min"
        x -= 9 * len(label)
        out.append(f'<text x="{x}" y="30" fill="{FOREGROUND}">{label}</text>')
        x -= 12
        out.append(f'<circle cx="{x}" cy="25" r="6" fill="{COLOURS[n % len(COLOURS)]}"/>')
        x -= 24
    bottom = TOP + ROW * len(arms)
    for row in range(0, len(arms), 2):
        out.append(f'<rect x="12" y="{TOP + row * ROW}" width="{WIDTH - 24}" height="{ROW}" fill="{BAND}"/>')
    for power in range(low, high + 1):
        x = across(10**power)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle" fill="{FOREGROUND}" opacity="0.8">{short(10**power)}</text>')
    out.append(
        f'<text x="20" y="{bottom + 42}" font-size="12" fill="{FOREGROUND}" opacity="0.8">Logarithmic scale. Without a cache,'
        f' {short(result["setting"]["context"])} tokens before the prompt; scripted model, compressed time.</text>'
    )
    for n, arm in enumerate(arms):
        y = TOP + n * ROW + ROW / 2
        points = sorted((row["minutes"], row["input_tokens"]) for row in rows if row["title"] == arm)
        out.append(f'<text x="20" y="{y + 5}" fill="{FOREGROUND}">{escape(arm)}</text>')
        taken = []  # places of labels
        for minute, value in reversed(points):
            x = across(value)
            colour = COLOURS[minutes.index(minute) % len(COLOURS)]
            out.append(f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{colour}"/>')
            # Of dots in one place, one label is enough.
            if all(abs(x - other) > 34 for other in taken):
                taken.append(x)
                out.append(f'<text x="{x:.1f}" y="{y - 10}" font-size="11" text-anchor="middle" fill="{FOREGROUND}">{short(value)}</text>')
    return "\n".join([*out, "</svg>", ""])
