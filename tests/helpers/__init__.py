"""Helpers of several test modules: the backend under test, patterns, latches, child processes, kinds of resources."""
