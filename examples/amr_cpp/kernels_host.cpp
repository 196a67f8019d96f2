// SPDX-License-Identifier: MIT
// amr_cpp/kernels_host.cpp: loops on the host backend: C++ functions that a stream runs in order.
#include <memory>

#include <portamem/rt/rt.hpp>

#include "kernels.hpp"

namespace {

template <class Body>
struct Loop {
    Body body;
    std::size_t count;

    // Runs on a thread of the runtime. Like every function in stream order it calls neither the runtime nor portamem.
    static void run(void* data) {
        const std::unique_ptr<const Loop> loop(static_cast<const Loop*>(data));
        for (std::size_t i = 0; i < loop->count; ++i) loop->body(i);
    }
};

}  // namespace

template <class Body>
int launch(const Body& body, std::size_t count, void* stream) {
    namespace rt = portamem::rt;
    auto loop = std::make_unique<Loop<Body>>(Loop<Body>{body, count});
    const rt::Error_t answer = rt::LaunchHostFunc(static_cast<rt::Stream_t>(stream), &Loop<Body>::run, loop.get());
    if (answer == rt::Error_t::Success) (void)loop.release();  // run() has it now
    return static_cast<int>(answer);
}

AMR_LAUNCHES

bool kernels_run_on_cpu() { return true; }
