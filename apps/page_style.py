"""Small pieces of HTML that pages are made of, and the style they share."""

from __future__ import annotations

import re
from html import escape

__all__ = ["HUES", "STYLE", "heading_html", "lead_html", "picture_html", "plain"]

# The colours of rows, as the results page has them.
HUES = ("#2f7ed8", "#e0762b", "#2a9d6f", "#b458c4", "#b8921c", "#d94f6b")
_CARDS = "\n".join(
    f'[class*="st-key-card-{place}-"] {{ border-left: 5px solid {hue} !important; }}' for place, hue in enumerate(HUES)
)
STYLE = f"""<style>
.stMainBlockContainer {{ padding: 4.2rem clamp(.9rem, 2.5vw, 2.4rem) 4rem; max-width: 1720px; }}
{_CARDS}
[class*="st-key-card-"] {{ padding: .7rem .8rem .5rem !important; }}
[class*="st-key-card-"] [data-testid="stCaptionContainer"] {{ margin: .15rem 0 -.2rem; font-size: .8rem; }}
[class*="st-key-card-"] [data-testid="stCaptionContainer"] p {{ line-height: 1.25; }}
[class*="st-key-card-"] [data-testid="stSelectbox"] label {{ min-height: 0; margin: -.3rem 0 .1rem; }}
[class*="st-key-card-"] [data-testid="stSelectbox"] label p {{ font-size: .75rem; opacity: .76; }}
[class*="st-key-example-"] [data-testid="stCaptionContainer"] p {{
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
}}
[data-testid="stSliderTickBar"] {{ display: none; }}
[class*="st-key-weight-"] [data-testid="stSlider"] [role="group"] > div > div:first-child {{
  /* From the middle, where a row counts nothing, and not from the left end. */
  background: linear-gradient(to right, transparent calc(50% - 1px), currentColor 0 calc(50% + 1px), transparent 0),
    color-mix(in srgb, currentColor 16%, transparent) !important;
}}
[class*="st-key-weight-"] [data-testid="stSlider"] {{ position: relative; padding-bottom: .55rem; }}
[class*="st-key-weight-"] [data-testid="stSlider"]::before,
[class*="st-key-weight-"] [data-testid="stSlider"]::after {{
  position: absolute; bottom: -.35rem; font-size: .7rem; opacity: .72; pointer-events: none;
}}
[class*="st-key-weight-"] [data-testid="stSlider"]::before {{ content: "− less like it"; left: 0; }}
[class*="st-key-weight-"] [data-testid="stSlider"]::after {{ content: "more like it +"; right: 0; }}
[data-testid="stFileUploaderDropzone"] {{
  padding: .5rem .7rem !important; align-items: center !important; flex-direction: row !important; gap: .8rem;
}}
[data-testid="stFileUploaderDropzone"] > span {{ width: auto !important; flex: none; }}
[data-testid="stFileUploaderDropzoneInstructions"] {{ width: auto !important; min-width: 0; }}
[data-testid="stFileUploaderDropzoneInstructions"] * {{ display: none; }}
[data-testid="stFileUploaderDropzoneInstructions"]::after {{
  content: "or drop it here"; font-size: .9rem; opacity: .75;
}}
.tpips-picture {{ display: block; width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: 8px; }}
.tpips-none {{
  display: grid; place-items: center; aspect-ratio: 1; border-radius: 8px; font-size: .78rem; text-align: center;
  background: color-mix(in srgb, currentColor 8%, transparent);
}}
[data-testid="stCaptionContainer"] {{ color: inherit !important; opacity: .76; }}
[data-testid="stMultiSelect"] :is([data-tag], [data-tag] *) {{ color: light-dark(#fff, #16171a) !important; }}
:has(> .st-key-pages) {{ display: none !important; }}
[class*="st-key-frames-"] [data-testid="stFileUploaderDropzone"] button p {{ font-size: 0; }}
[class*="st-key-frames-"] [data-testid="stFileUploaderDropzone"] button p::after {{
  content: "Choose a folder"; font-size: .875rem;
}}
.tpips-sense {{ margin: 0; padding: .5rem 0 0 !important; font-size: 1.06rem !important; line-height: 1.4; }}
.tpips-sense span {{ font-weight: 400; opacity: .8; }}
.tpips-lead {{ font-size: 1.06rem; opacity: .82; max-width: 100ch; margin: 0 0 .4rem; }}
h1 {{ font-size: clamp(1.45rem, 1.2rem + 1.2vw, 2.1rem) !important; padding: 0 0 .3rem !important; }}
@media (max-width: 768px) {{
  [data-testid="stExpandSidebarButton"] {{ display: none !important; }}
  :has(> .st-key-pages) {{
    display: block !important; position: fixed; inset: 0 0 auto 0; z-index: 999991; width: 100%; padding: 4px 4px 3px;
    background: light-dark(#fbfaf8, #16171a);
    border-bottom: 1px solid color-mix(in srgb, currentColor 12%, transparent);
  }}
  .st-key-pages {{ flex-wrap: nowrap !important; justify-content: space-around; }}
  .st-key-pages > *, .st-key-pages [data-testid="stPageLink"] > * {{
    width: auto !important; min-width: 0; flex: 1 1 0 !important;
  }}
  .st-key-pages a {{
    display: flex; flex-direction: column; gap: 0; align-items: center; padding: 6px 0 5px !important; min-width: 0;
  }}
  .st-key-pages a p {{ font-size: .72rem; line-height: 1.3; }}
}}
@media (max-width: 640px) {{
  .stMainBlockContainer {{ padding-top: 3.9rem; }}
  .st-key-rows, .st-key-starts {{
    flex-wrap: nowrap !important; overflow-x: auto; scroll-snap-type: x proximity; scrollbar-width: thin;
    padding: 2px 0 .4rem;
  }}
  .st-key-rows > *, .st-key-starts > * {{ flex: none !important; scroll-snap-align: start; max-width: 88%; }}
  .st-key-rows .st-key-card-add [data-testid="stCaptionContainer"] {{ display: none; }}
  .st-key-facts > * {{ width: calc(50% - .5rem) !important; flex: none !important; }}
  .st-key-facts [data-testid="stMetricValue"] {{ font-size: 1.4rem; }}
  .st-key-about {{ flex-wrap: nowrap !important; }}
  .st-key-about > :has(> .st-key-about-picture), .st-key-about-picture {{
    width: 104px !important; flex: none !important;
  }}
  .st-key-about-picture [data-testid="stCaptionContainer"] {{
    font-size: .75rem; line-height: 1.3; overflow-wrap: anywhere;
  }}
  .st-key-undo p, .st-key-redo p, .st-key-over p {{ font-size: 0; }}
  .st-key-tools {{ flex-wrap: nowrap !important; overflow-x: auto; scrollbar-width: none; padding-bottom: 2px; }}
  .st-key-tools > * {{ flex: none !important; }}
}}
</style>"""


def picture_html(address: str, alt: str) -> str:
    """Return a square picture, or words in its place if it has no address."""
    shown = escape(alt, quote=True)
    if not address:
        return f'<div class="tpips-none" role="img" aria-label="{shown}: not available">not kept</div>'
    return f'<img class="tpips-picture" src="{escape(address, quote=True)}" alt="{shown}">'


def heading_html(aspect: str, text: str) -> str:
    """Return the heading of what is shown by one aspect."""
    return f'<h2 class="tpips-sense">{escape(aspect)} <span>· {escape(text)}</span></h2>'


def lead_html(text: str) -> str:
    """Return the line under a page's title."""
    return f'<p class="tpips-lead">{escape(text)}</p>'


def plain(text: object) -> str:
    """Return other people's words so that Markdown finds nothing in them: no picture from elsewhere, no link, no code.

    >>> print(plain("![](http://x/y.png) 5_a"))
    \\!\\[\\]\\(http\\://x/y.png\\) 5\\_a
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~$:&@])", r"\\\1", " ".join(str(text).split()))
