# SPDX-License-Identifier: MIT
"""What the suite writes: a table for people, JSON and JUnit for programs, Markdown for pages, and a file to send."""
