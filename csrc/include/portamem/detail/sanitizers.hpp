// SPDX-License-Identifier: MIT
// detail/sanitizers.hpp: the sanitizer that this code is compiled for. g++ defines a macro for each, clang++ answers
// __has_feature.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define PORTAMEM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PORTAMEM_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef PORTAMEM_ADDRESS_SANITIZER
#define PORTAMEM_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__)
#define PORTAMEM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PORTAMEM_THREAD_SANITIZER 1
#endif
#endif
#ifndef PORTAMEM_THREAD_SANITIZER
#define PORTAMEM_THREAD_SANITIZER 0
#endif
