"""A comparison as a table of gauges."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from apps.page_style import picture_html, plain
from tpips_model.comparison import Comparison

__all__ = ["closest_places", "gauges_html", "verdict"]

# The shortest gauge of a row, in percent, so that the farthest candidate still has one.
SHORTEST = 12.0
_STYLE = """<style>
.gauges { border-collapse: collapse; width: 100%; } .gauge-frame { overflow-x: auto; }
.gauges th, .gauges td { padding: .35rem .5rem; border: 0 !important; }
.gauges th, .gauges td { text-align: left; vertical-align: bottom; font-weight: 400; }
.gauges thead th { width: 9rem; min-width: 6.5rem; font-size: .78rem; line-height: 1.35; overflow-wrap: anywhere; }
.gauges thead th, .gauges tbody tr { vertical-align: top; } .gauges thead .tpips-picture { margin-bottom: .3rem; }
.gauges thead b { font-size: inherit; font-weight: 650; }
.gauges tbody th { font-weight: 650; white-space: nowrap; }
.gauges tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 14%, transparent); }
.gauge { height: 8px; border-radius: 4px; background: color-mix(in srgb, currentColor 10%, transparent); }
.gauge i { display: block; height: 100%; border-radius: 4px; }
.gauge i { background: color-mix(in srgb, currentColor 42%, transparent); }
.closest .gauge i { background: #2a9d6f; } .closest b { color: color-mix(in srgb, #2a9d6f 65%, currentColor); }
.gauges b { font-variant-numeric: tabular-nums; font-weight: 500; font-size: .9rem; } .closest b { font-weight: 700; }
@media (max-width: 640px) {
  .gauges th, .gauges td { padding: .3rem .25rem; } .gauges thead th { min-width: 5.1rem; font-size: .72rem; }
  .gauges tbody th { max-width: 5.4rem; white-space: normal; overflow-wrap: anywhere; font-size: .86rem; }
  .gauges b { font-size: .82rem; }
  .gauges .word { display: block; font-size: .72rem; }
}
</style>"""


def gauges_html(comparison: Comparison, reference: tuple[str, str], addresses: Sequence[str]) -> str:
    """Return a comparison as an HTML table, a row for an aspect and a column for a candidate.

    Args:
        comparison: The comparison.
        reference: The reference's name and address.
        addresses: Each candidate's address.
    """
    heads = [
        f'<th scope="col">{picture_html(address, f"Candidate {name}")}{escape(name)}</th>'
        for name, address in zip(comparison.names, addresses, strict=True)
    ]
    corner = f'<th scope="col">{picture_html(reference[1], f"Reference {reference[0]}")}<b>the reference</b></th>'
    rows = []
    for aspect, scores in zip(comparison.aspects, comparison.similarity.tolist(), strict=True):
        best, low, high = closest_places(scores), min(scores), max(scores)
        word = "closest" if len(best) == 1 else "tie"
        cells = "".join(_cell(score, low, high, word if n in best else "") for n, score in enumerate(scores))
        rows.append(f'<tr><th scope="row">{escape(aspect.text)}</th>{cells}</tr>')
    return (
        f'{_STYLE}<div class="gauge-frame"><table class="gauges"><thead><tr>{corner}{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def verdict(comparison: Comparison) -> str:
    """Return which candidate every aspect says is closest, as Markdown.

    >>> import numpy as np
    >>> from tpips_model.aspects import Aspect
    >>> verdict(Comparison((Aspect("mood"), Aspect("pose")), ("a.jpg", "b.jpg"), np.eye(2, dtype=np.float32)))
    'Closest by **mood**: a.jpg · by **pose**: b.jpg'
    """
    said = []
    for aspect, scores in zip(comparison.aspects, comparison.similarity.tolist(), strict=True):
        names = [plain(comparison.names[place]) for place in closest_places(scores)]
        best = names[0] if len(names) == 1 else f"a tie of {', '.join(names[:-1])} and {names[-1]}"
        said.append(f"by **{plain(aspect.text)}**: {best}")
    return f"Closest {' · '.join(said)}"


def closest_places(scores: Sequence[float]) -> list[int]:
    """Return the places of the best scores: several, where nobody sees from the numbers which is better.

    >>> closest_places([0.9801, 0.97, 0.9799])
    [0, 2]
    """
    shown = [_shown(score) for score in scores]
    best = _shown(max(scores))
    return [place for place, one in enumerate(shown) if one == best]


def _shown(score: float) -> str:
    return f"{score:.3f}".replace("-", "−")


def _cell(score: float, low: float, high: float, word: str) -> str:
    length = 100.0 if high <= low else SHORTEST + (100.0 - SHORTEST) * (score - low) / (high - low)
    words = f' <span class="word">{word}</span>' if word else ""
    return (
        f"<td{' class=closest' if word else ''}><b>{_shown(score)}{words}</b>"
        f'<div class="gauge" aria-hidden="true"><i style="width:{length:.0f}%"></i></div></td>'
    )
