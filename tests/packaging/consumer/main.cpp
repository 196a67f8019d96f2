// SPDX-License-Identifier: MIT
// tests/packaging/consumer/main.cpp: bytes to device memory and back. Exits 0 when they are right, 2 without a device.
#include <cstdio>
#include <cstring>
#include <vector>

#include "portamem/rt/rt.hpp"

namespace rt = portamem::rt;

static bool ok(rt::Error_t error, const char* call) {
    if (error == rt::Error_t::Success) return true;
    std::printf("%s: %s\n", call, rt::GetErrorName(error));
    return false;
}

int main() {
    int count = 0;
    if (!ok(rt::GetDeviceCount(&count), "GetDeviceCount") || count == 0) return 2;

    std::vector<unsigned char> sent(1 << 20, 0x5a), received(sent.size());
    void* memory = nullptr;
    const bool copied = ok(rt::Malloc(&memory, sent.size()), "Malloc") &&
                        ok(rt::Memcpy(memory, sent.data(), sent.size(), rt::MemcpyKind::HostToDevice), "Memcpy") &&
                        ok(rt::Memcpy(received.data(), memory, sent.size(), rt::MemcpyKind::DeviceToHost), "Memcpy") &&
                        ok(rt::Free(memory), "Free");
    if (!copied || std::memcmp(sent.data(), received.data(), sent.size()) != 0) return 1;
    std::puts("verified");
    return 0;
}
