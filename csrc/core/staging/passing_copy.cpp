// SPDX-License-Identifier: MIT
// core/staging/passing_copy.cpp: a copy of bytes that this CPU does not read soon.
#include "passing_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace portamem::staging {

#if defined(__SSE2__)

void copy_past_the_cache(void* dst, const void* src, std::size_t nbytes) noexcept {
    constexpr std::size_t line = 64;
    auto* to = static_cast<char*>(dst);
    const auto* from = static_cast<const char*>(src);
    const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
    if (nbytes < 4 * line) {
        std::memcpy(to, from, nbytes);
        return;
    }
    std::memcpy(to, from, head);
    const std::size_t end = head + (nbytes - head) / line * line;
    for (std::size_t at = head; at < end; at += line) {
        const auto* source = reinterpret_cast<const __m128i*>(from + at);
        auto* target = reinterpret_cast<__m128i*>(to + at);
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    std::memcpy(to + end, from + end, nbytes - end);
    _mm_sfence();  // such stores are ordered by nothing else, and other threads read the bytes
}

#else

void copy_past_the_cache(void* dst, const void* src, std::size_t nbytes) noexcept { std::memcpy(dst, src, nbytes); }

#endif

}  // namespace portamem::staging
