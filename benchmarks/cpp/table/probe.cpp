// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/probe.cpp: a program with one peer, to see whether the peer can be built here.
#include "contender.hpp"

int main() {
    table::Contenders all;
    TABLE_PROBE(all);
    return all.empty() ? 1 : 0;
}
