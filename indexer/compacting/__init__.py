"""Small parts put together, and removed items dropped."""
