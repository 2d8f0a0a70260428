"""What a build would do, before it begins."""
