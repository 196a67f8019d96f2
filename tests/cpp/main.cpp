// SPDX-License-Identifier: MIT
// tests/cpp/main.cpp: doctest's own main, compiled once for all backends.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
