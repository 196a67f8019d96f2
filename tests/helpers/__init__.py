"""What several test modules share: the backend under test, patterns, latches, child processes, kinds of resources."""
