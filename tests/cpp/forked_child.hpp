// SPDX-License-Identifier: MIT
// tests/cpp/forked_child.hpp: what a forked child of a process with threads answers.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "portamem/detail/sanitizers.hpp"

/// Runs a function in one forked child, which may not hang: after `seconds` it gets a SIGALRM. Answers what the
/// function answers, 98 where it threw, and the signal that ended the child as a negative number.
inline int answer_of_one_forked_child(const std::function<int()>& body, unsigned seconds) {
    const pid_t child = fork();
    REQUIRE(child != -1);
    if (child == 0) {
        (void)alarm(seconds);
        int answer = 98;
        try {
            answer = body();
        } catch (...) {
            answer = 98;
        }
        _exit(answer);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The same, in a child that has 20 seconds.
///
/// AddressSanitizer before LLVM 18 (its pull request 75290) takes none of its own locks around a fork: a child hangs in
/// its first allocation where another thread was inside of one (1 in 300 beside a thread that does nothing else). There
/// a child that hangs is followed by another, up to three in all: a lock of portamem's own would hang each of them.
inline int answer_of_forked_child(const std::function<int()>& body) {
#if PORTAMEM_ADDRESS_SANITIZER
    for (int i = 0; i < 2; ++i) {
        const int answer = answer_of_one_forked_child(body, 10);
        if (answer != -SIGALRM) return answer;
    }
#endif
    return answer_of_one_forked_child(body, 20);
}
