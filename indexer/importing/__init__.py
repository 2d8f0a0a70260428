"""Indices of vectors that somebody else has made."""
