// SPDX-License-Identifier: MIT
// tests/packaging/libraries/main.cpp: exits 0 when the program and both libraries see one account.
#include <cstdint>

#include "portamem/c_api.h"
#include "portamem/rt/rt.hpp"

std::uint64_t held_in_static();
std::uint64_t held_in_shared();

int main() {
    portamem_account(portamem::rt::BackendId, 0, 4096);
    return held_in_static() == 4096 && held_in_shared() == 4096 ? 0 : 1;
}
