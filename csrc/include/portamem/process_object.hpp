// SPDX-License-Identifier: MIT
// portamem/process_object.hpp: objects that a process has once, however many modules include the headers.
#pragma once

#include <new>
#include <string>

#include "portamem/abi/process_api.h"
#include "portamem/rt/rt.hpp"

#define PORTAMEM_TEXT_OF_(x) #x
#define PORTAMEM_TEXT_OF(x) PORTAMEM_TEXT_OF_(x)

PORTAMEM_OPEN

namespace detail {

/// Returns the key of an object for modules that can share it: modules with the same headers, for the same backend,
/// over the same standard library and with the same layout of its classes. Other modules get an object of their own.
inline std::string key_of(const char* name) {
    std::string key =
        std::string(PORTAMEM_TEXT_OF(PORTAMEM_BACKEND)) + "." + PORTAMEM_TEXT_OF(PORTAMEM_VERSION_PATCH) + " " + name;
#if defined(__GXX_ABI_VERSION)
    key += " " PORTAMEM_TEXT_OF(__GXX_ABI_VERSION);
#endif
#if defined(_LIBCPP_ABI_VERSION)
    key += " libc++ " PORTAMEM_TEXT_OF(_LIBCPP_ABI_VERSION);
#elif defined(_GLIBCXX_USE_CXX11_ABI)
    key += " libstdc++ " PORTAMEM_TEXT_OF(_GLIBCXX_USE_CXX11_ABI);
#endif
#if defined(_GLIBCXX_DEBUG)
    key += " debug";
#endif
    return key;
}

template <class Object>
Object* make_object() {
    return new Object();
}

/// Returns the process's object of a class, which is made at first use and leaked. `name` is its key.
template <class Object, Object* (*Make)() = make_object<Object>>
Object& process_object(const char* name) {
    void* const found = portamem_process_object(
        key_of(name).c_str(), []() -> void* { return Make(); }, [](void* made) { delete static_cast<Object*>(made); });
    if (found == nullptr) throw std::bad_alloc();
    return *static_cast<Object*>(found);
}

}  // namespace detail

PORTAMEM_CLOSE
