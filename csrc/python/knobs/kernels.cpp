// SPDX-License-Identifier: MIT
// python/knobs/kernels.cpp: kernels that fill, check and copy memory, and one that holds its stream. Each does what the
// device source of its name does. A comment before a kernel lists its arguments.
#include "kernels.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "kernel_support.hpp"

namespace portamem::knobs {
namespace {

/// Represents the part of `size` bytes that belongs to one block.
struct Part {
    std::uint64_t begin, end;

    Part(const pmhKernelBlock& block, std::uint64_t size)
        : begin(size / block.count * block.index),
          end(block.index + 1 == block.count ? size : begin + size / block.count) {}
};

// address, size, seed
void fill(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    Byte* p = at(words[0], words[1]);
    if (p == nullptr) return;
    const Part part(*block, words[1]);
    for (std::uint64_t i = part.begin; i < part.end; ++i) p[i] = pattern(i, words[2]);
}

// address, size, seed, counter. Memory that the kernel does not reach is wrong in every byte.
void verify(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    const Byte* p = at(words[0], words[1]);
    const Part part(*block, words[1]);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = part.begin; i < part.end; ++i) wrong += p == nullptr || p[i] != pattern(i, words[2]) ? 1 : 0;
    add(words[3], wrong);
}

// address, size, value, counter
void verify_value(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    const Byte* p = at(words[0], words[1]);
    const Part part(*block, words[1]);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = part.begin; i < part.end; ++i) wrong += p == nullptr || p[i] != words[2] ? 1 : 0;
    add(words[3], wrong);
}

// target, source, size
void copy(const pmhKernelBlock* block) {
    const Words words = block->arguments;
    Byte* dst = at(words[0], words[2]);
    const Byte* src = at(words[1], words[2]);
    if (dst == nullptr || src == nullptr) return;
    const Part part(*block, words[2]);
    std::memmove(dst + part.begin, src + part.begin, part.end - part.begin);
}

// four words (entered, released, timed out, left), nanoseconds
void latch(const pmhKernelBlock* block) {
    using Clock = std::chrono::steady_clock;
    auto* words = at<std::uint32_t>(block->arguments[0], 4);
    if (words == nullptr) return;
    const auto end = Clock::now() + std::chrono::nanoseconds(block->arguments[1]);
    __atomic_store_n(&words[0], 1u, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&words[1], __ATOMIC_SEQ_CST) == 0) {
        if (Clock::now() > end) {
            __atomic_store_n(&words[2], 1u, __ATOMIC_SEQ_CST);
            break;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    __atomic_store_n(&words[3], 1u, __ATOMIC_SEQ_CST);
}

}  // namespace

const std::vector<Kernel>& memory_kernels() {
    static const std::vector<Kernel> all = {
        {"fill", fill}, {"verify", verify}, {"verify_value", verify_value}, {"copy", copy}, {"latch", latch},
    };
    return all;
}

}  // namespace portamem::knobs
