"""Exact scans on GPUs."""
