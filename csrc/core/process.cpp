// SPDX-License-Identifier: MIT
// core/process.cpp: objects that modules of the same headers share, found by keys.
#include <pthread.h>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "portamem/abi/process_api.h"

namespace {

struct Objects {
    std::mutex mutex;
    std::map<std::string, void*, std::less<>> of_process;
    std::map<std::string, std::size_t, std::less<>> places;  // number of each thread place
};

Objects& objects() {
    static auto* leaked = new Objects;
    return *leaked;
}

constexpr std::size_t kMostPlaces = 4;  // each backend and version of the headers takes one; static storage is scarce

// Static storage of the thread exists before the thread's objects are made, and after they are gone.
__attribute__((tls_model("initial-exec"))) __thread void* places[kMostPlaces];
__attribute__((tls_model("initial-exec"))) __thread void* stream_uses;

struct EndsOfThread {
    std::array<void (*)(void*), kMostPlaces> ends{};

    ~EndsOfThread() {
        for (std::size_t i = 0; i < kMostPlaces; ++i) {
            void* const object = places[i];
            places[i] = PORTAMEM_THREAD_ENDED;
            if (object != nullptr && object != PORTAMEM_THREAD_ENDED && ends[i] != nullptr) ends[i](object);
        }
    }
};

// A forked child cannot use anything of its parent's runtimes.
const int places_end_at_fork = pthread_atfork(nullptr, nullptr, [] {
    for (void*& place : places) place = PORTAMEM_THREAD_ENDED;
});

EndsOfThread& ends_of_thread() {
    static thread_local const std::unique_ptr<EndsOfThread> ends(new EndsOfThread);
    return *ends;
}

}  // namespace

void* portamem_process_object(const char* key, void* (*make)(void), void (*drop)(void*)) {
    try {
        Objects& all = objects();
        {
            const std::lock_guard<std::mutex> lock(all.mutex);
            const auto found = all.of_process.find(key);
            if (found != all.of_process.end()) return found->second;
        }
        void* const made = make();  // without the lock: `make` may want another object
        if (made == nullptr) return nullptr;
        void* kept = made;
        try {
            const std::lock_guard<std::mutex> lock(all.mutex);
            kept = all.of_process.emplace(key, made).first->second;
        } catch (...) {
            kept = nullptr;
        }
        if (kept != made) drop(made);
        return kept;
    } catch (...) {
        return nullptr;
    }
}

void** portamem_thread_place(const char* key, void (*end)(void*)) {
    (void)places_end_at_fork;
    try {
        std::size_t number = 0;
        {
            Objects& all = objects();
            const std::lock_guard<std::mutex> lock(all.mutex);
            const auto found = all.places.find(key);
            if (found == all.places.end() && all.places.size() == kMostPlaces) return nullptr;
            number =
                found != all.places.end() ? found->second : all.places.emplace(key, all.places.size()).first->second;
        }
        if (places[number] != PORTAMEM_THREAD_ENDED) ends_of_thread().ends[number] = end;
        return &places[number];
    } catch (...) {
        return nullptr;
    }
}

void** portamem_stream_uses_of_thread(void) { return &stream_uses; }
