"""Training and evaluation of the models."""
