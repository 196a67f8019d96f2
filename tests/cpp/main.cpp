// SPDX-License-Identifier: MIT
// tests/cpp/main.cpp: doctest's own main, and what LeakSanitizer leaves out, compiled once for all backends.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "portamem/detail/sanitizers.hpp"

// LeakSanitizer finds a thread by its number. The tests start more threads than Linux has numbers for (32768 by
// default), and of two threads with one number it may look at the one that has ended. The memory of a thread that waits
// for work then has no owner in its eyes: glibc's list of the thread's destructors, which glibc alone makes and frees.
// The function is visible, where this program's own symbols are hidden: the sanitizer's library finds it by its name.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:__cxa_thread_atexit_impl\n"; }

#if PORTAMEM_ADDRESS_SANITIZER
TEST_CASE("tests: LeakSanitizer is told which list is glibc's own") {
    CHECK(dlsym(RTLD_DEFAULT, "__lsan_default_suppressions") != nullptr);
}
#endif
