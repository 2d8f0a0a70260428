"""Asking by words that are not indexed: the likeliest items are embedded under them when the question is asked."""

from search.live.look import LiveLook

__all__ = ["LiveLook"]
