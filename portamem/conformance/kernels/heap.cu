// SPDX-License-Identifier: MIT
// conformance/kernels/heap.cu: kernels that allocate from the heap of their device.
//
// Each adds to a report of four numbers: allocations asked for, those that gave NULL, those that are not aligned, and
// bytes that are not what was written. A module of its own: loading it settles the size of the heap.

enum { ASKED, NONE, MISALIGNED, MISMATCHES };

DEVICE byte* allocate(u64 nbytes, u64 align, u64* report) {
    byte* p = 0;
#if HAS_ALIGNED_MALLOC
    p = (byte*)(align == 0 ? malloc(nbytes) : __nv_aligned_device_malloc(nbytes, align));
#else
    p = (byte*)malloc(nbytes);
#endif
    atomicAdd(&report[ASKED], 1ULL);
    if (p == 0) atomicAdd(&report[NONE], 1ULL);
    if ((u64)p % (align > 16 ? align : 16) != 0) atomicAdd(&report[MISALIGNED], 1ULL);
    return p;
}

DEVICE void write(byte* p, u64 n, unsigned seed) {
    for (u64 i = 0; i < n; ++i) p[i] = pattern(i, seed);
}

DEVICE void compare(const byte* p, u64 n, unsigned seed, u64* report) {
    u64 wrong = 0;
    for (u64 i = 0; i < n; ++i) wrong += p[i] != pattern(i, seed);
    if (wrong != 0) atomicAdd(&report[MISMATCHES], wrong);
}

// Every thread allocates, writes bytes of its own, compares them after the others of its block wrote theirs, and frees.
KERNEL heap_per_thread(u64 nbytes, u64 align, unsigned seed, u64* report) {
    byte* p = allocate(nbytes, align, report);
    const unsigned own = seed + (unsigned)first() * 7919u;
    if (p != 0) write(p, nbytes, own);
    __syncthreads();
    if (p != 0) compare(p, nbytes, own, report);
    free(p);
}

// The first thread of a block allocates for all; each writes its part and compares its neighbour's; the last one frees.
KERNEL heap_per_block(u64 nbytes_per_thread, u64 align, unsigned seed, u64* report) {
    __shared__ byte* shared;
    if (threadIdx.x == 0) shared = allocate(nbytes_per_thread * blockDim.x, align, report);
    __syncthreads();
    if (shared == 0) return;
    const unsigned neighbour = (threadIdx.x + 1) % blockDim.x;
    const unsigned of_block = seed + blockIdx.x * 7919u;
    write(shared + threadIdx.x * nbytes_per_thread, nbytes_per_thread, of_block + threadIdx.x * 131u);
    __syncthreads();
    compare(shared + neighbour * nbytes_per_thread, nbytes_per_thread, of_block + neighbour * 131u, report);
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) free(shared);
}

// Every thread sets memory, copies it to other memory of the heap, and copies from plain device memory through the heap
// and back into it. `source` and `target` are of nbytes for each thread.
KERNEL heap_memcpy_memset(u64 nbytes, const byte* source, byte* target, unsigned value, u64* report) {
    byte* p = allocate(nbytes, 0, report);
    byte* q = allocate(nbytes, 0, report);
    if (p != 0 && q != 0) {
        u64 wrong = 0;
        memset(p, (int)value, nbytes);
        memcpy(q, p, nbytes);
        memset(p, (int)value + 1, nbytes);
        for (u64 i = 0; i < nbytes; ++i) wrong += (q[i] != (byte)value) + (p[i] != (byte)(value + 1));
        if (wrong != 0) atomicAdd(&report[MISMATCHES], wrong);
        memcpy(p, source + first() * nbytes, nbytes);
        memcpy(q, p, nbytes);
        memcpy(target + first() * nbytes, q, nbytes);
    }
    free(p);
    free(q);
}

// Kept across launches, one allocation for each block of the first, at the block's place in `table`.
KERNEL heap_keep(u64* table, u64 nbytes, u64 align, unsigned seed, u64* report) {
    if (threadIdx.x != 0) return;
    byte* p = allocate(nbytes, align, report);
    table[blockIdx.x] = (u64)p;
    if (p != 0) write(p, nbytes, seed + blockIdx.x);
}

// Compares what the launch before wrote and writes anew, each thread some bytes of its block's allocation.
KERNEL heap_use(const u64* table, u64 nbytes, unsigned seed, unsigned next_seed, u64* report) {
    byte* p = (byte*)table[blockIdx.x];
    if (p == 0) return;
    for (u64 i = threadIdx.x; i < nbytes; i += blockDim.x) {
        if (p[i] != pattern(i, seed + blockIdx.x)) atomicAdd(&report[MISMATCHES], 1ULL);
        p[i] = pattern(i, next_seed + blockIdx.x);
    }
}

// Other threads and blocks free the memory than those that allocated it.
KERNEL heap_release(u64* table) {
    if (threadIdx.x != blockDim.x - 1) return;
    const unsigned other = gridDim.x - 1 - blockIdx.x;
    free((void*)table[other]);
    table[other] = 0;
}
