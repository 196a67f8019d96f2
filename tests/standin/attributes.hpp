// SPDX-License-Identifier: MIT
// attributes.hpp: the card that the stand-in pretends to be.
#pragma once

#include "standin.hpp"

namespace standin {

/// Nothing in it is measured: figures of a card of this architecture, so that code which reads them has something to
/// read.
struct Machine {
    const char* name;
    const char* arch;
    int major;
    int minor;
    int warp_size;
    int multi_processors;
    int l2_cache;
    int texture_alignment;
    int integrated;
    int large_bar;
    int xnack;  ///< devices retry page faults, so that they reach all of the host's memory
};

/// By STANDIN_MODEL: discrete (a card), coherent (the same with XNACK) or apu.
Machine this_machine();

/// False for an attribute that this version refuses.
bool attribute_of(hipDeviceAttribute_t attribute, int* value);

}  // namespace standin
