// SPDX-License-Identifier: MIT
// python/knobs/heap_kernels.cpp: kernels that allocate from the heap of their device. Each does what the device source
// of its name does, and reports the same four numbers. A comment before a kernel lists its arguments.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernel_support.hpp"

namespace portamem::knobs {
namespace {

enum : std::uint64_t { Asked, None, Misaligned, Mismatches };

void note(std::uint64_t report, std::uint64_t which, std::uint64_t count = 1) { add(report + 8 * which, count); }

std::uint64_t allocate(std::uint64_t nbytes, std::uint64_t align, std::uint64_t report) {
    void* ptr = align == 0 ? pmhKernelMalloc(nbytes) : pmhKernelMallocAligned(align, nbytes);
    const auto address = reinterpret_cast<std::uint64_t>(ptr);
    note(report, Asked);
    if (address == 0) note(report, None);
    if (address % std::max<std::uint64_t>(align, 16) != 0) note(report, Misaligned);
    return address;
}

void release(std::uint64_t address) { pmhKernelFree(reinterpret_cast<void*>(address)); }

void write(std::uint64_t address, std::uint64_t nbytes, std::uint64_t seed) {
    Byte* p = at(address, nbytes);
    for (std::uint64_t i = 0; p != nullptr && i < nbytes; ++i) p[i] = pattern(i, seed);
}

// Counts wrong bytes. Memory that the kernel does not reach is wrong in every byte.
void compare(std::uint64_t address, std::uint64_t nbytes, std::uint64_t seed, std::uint64_t report) {
    const Byte* p = at(address, nbytes);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < nbytes; ++i) wrong += p == nullptr || p[i] != pattern(i, seed) ? 1 : 0;
    note(report, Mismatches, wrong);
}

// bytes, alignment, seed, report
void per_thread(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    std::vector<std::uint64_t> own(block->threads);
    const auto seed = [&](unsigned thread) { return words[2] + (block->index * block->threads + thread) * 7919u; };
    for (unsigned thread = 0; thread < block->threads; ++thread) {
        own[thread] = allocate(words[0], words[1], words[3]);
        if (own[thread] != 0) write(own[thread], words[0], seed(thread));
    }
    for (unsigned thread = 0; thread < block->threads; ++thread) {
        if (own[thread] != 0) compare(own[thread], words[0], seed(thread), words[3]);
        release(own[thread]);
    }
}

// bytes for each thread, alignment, seed, report
void per_block(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    const std::uint64_t shared = allocate(words[0] * block->threads, words[1], words[3]);
    if (shared == 0) return;
    const auto seed = [&](unsigned thread) { return words[2] + block->index * 7919u + thread * 131u; };
    for (unsigned thread = 0; thread < block->threads; ++thread)
        write(shared + thread * words[0], words[0], seed(thread));
    for (unsigned thread = 0; thread < block->threads; ++thread) {
        const unsigned neighbour = (thread + 1) % block->threads;
        compare(shared + neighbour * words[0], words[0], seed(neighbour), words[3]);
    }
    release(shared);
}

// bytes, source, target, value, report
void memcpy_memset(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    const std::uint64_t nbytes = words[0];
    for (unsigned thread = 0; thread < block->threads; ++thread) {
        const std::uint64_t offset = (block->index * std::uint64_t{block->threads} + thread) * nbytes;
        const std::uint64_t first = allocate(nbytes, 0, words[4]);
        const std::uint64_t second = allocate(nbytes, 0, words[4]);
        Byte* p = first == 0 ? nullptr : at(first, nbytes);
        Byte* q = second == 0 ? nullptr : at(second, nbytes);
        const Byte* source = at(words[1] + offset, nbytes);
        Byte* target = at(words[2] + offset, nbytes);
        if (p != nullptr && q != nullptr && source != nullptr && target != nullptr) {
            const auto value = static_cast<Byte>(words[3]);
            const auto next = static_cast<Byte>(words[3] + 1);
            std::memset(p, value, nbytes);
            std::memcpy(q, p, nbytes);
            std::memset(p, next, nbytes);
            std::uint64_t wrong = 0;
            for (std::uint64_t i = 0; i < nbytes; ++i) wrong += (q[i] != value ? 1 : 0) + (p[i] != next ? 1 : 0);
            note(words[4], Mismatches, wrong);
            std::memcpy(p, source, nbytes);
            std::memcpy(q, p, nbytes);
            std::memcpy(target, q, nbytes);
        }
        release(first);
        release(second);
    }
}

// table, bytes, alignment, seed, report
void keep(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    auto* table = at<std::uint64_t>(words[0], block->count);
    if (table == nullptr) return;
    table[block->index] = allocate(words[1], words[2], words[4]);
    if (table[block->index] != 0) write(table[block->index], words[1], words[3] + block->index);
}

// table, bytes, seed, next seed, report
void use(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    const auto* table = at<std::uint64_t>(words[0], block->count);
    if (table == nullptr || table[block->index] == 0) return;
    compare(table[block->index], words[1], words[2] + block->index, words[4]);
    write(table[block->index], words[1], words[3] + block->index);
}

// table. Each block frees memory that another block allocated.
void release_all(const pmhKernelBlock* block) {
    auto* table = at<std::uint64_t>(block->arguments[0], block->count);
    if (table == nullptr) return;
    std::uint64_t& other = table[block->count - 1 - block->index];
    release(other);
    other = 0;
}

}  // namespace

const std::vector<Kernel>& heap_kernels() {
    static const std::vector<Kernel> all = {
        {"heap_per_thread", per_thread},
        {"heap_per_block", per_block},
        {"heap_memcpy_memset", memcpy_memset},
        {"heap_keep", keep},
        {"heap_use", use},
        {"heap_release", release_all},
    };
    return all;
}

}  // namespace portamem::knobs
