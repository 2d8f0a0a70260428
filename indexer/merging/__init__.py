"""Indices of one model laid into one."""
