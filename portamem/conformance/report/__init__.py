# SPDX-License-Identifier: MIT
"""The suite's output: a table for people, JSON and JUnit for programs, Markdown for pages, and a file to send."""
