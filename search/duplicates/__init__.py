"""Items that are the same picture, or nearly."""
