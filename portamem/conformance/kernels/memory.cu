// SPDX-License-Identifier: MIT
// conformance/kernels/memory.cu: kernels that fill, check and copy memory, and one that holds its stream.

KERNEL fill(byte* p, u64 n, unsigned seed) {
    for (u64 i = first(); i < n; i += stride()) p[i] = pattern(i, seed);
}

KERNEL verify(const byte* p, u64 n, unsigned seed, u64* mismatches) {
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != pattern(i, seed)) atomicAdd(mismatches, 1ULL);
}

KERNEL verify_value(const byte* p, u64 n, unsigned value, u64* mismatches) {
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != value) atomicAdd(mismatches, 1ULL);
}

KERNEL copy(byte* dst, const byte* src, u64 n) {
    for (u64 i = first(); i < n; i += stride()) dst[i] = src[i];
}

// words: entered, released, timed out, left; in pinned memory that the host watches and writes.
KERNEL latch(volatile unsigned* words, u64 timeout) {
    words[0] = 1;
    __threadfence_system();
    const u64 begin = ticks();
    while (words[1] == 0) {
        if (ticks() - begin > timeout) {
            words[2] = 1;
            break;
        }
        rest();
    }
    __threadfence_system();
    words[3] = 1;
    __threadfence_system();
}
