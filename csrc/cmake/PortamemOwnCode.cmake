# SPDX-License-Identifier: MIT
# PortamemOwnCode.cmake: how portamem's own sources are compiled. Nothing of this reaches a consumer.

option(PORTAMEM_WERROR "Treat warnings in portamem's own code as errors" OFF)
option(PORTAMEM_UNITY "Compile sources in a few batches; OFF for work on a single file" ON)
set(PORTAMEM_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")

function(portamem_own_code target)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wconversion $<$<BOOL:${PORTAMEM_WERROR}>:-Werror>
    $<$<CONFIG:Release>:-O2>) # CMake's -O3 is for loops, and there are few here
  # A project that says nothing of optimisation gets a library that is ten times slower, and would not know why.
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
    target_compile_options(${target} PRIVATE -O2)
  endif()
  if(PORTAMEM_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${PORTAMEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1) # lines are all that reports name
    target_link_options(${target} PRIVATE -fsanitize=${PORTAMEM_SANITIZE})
  endif()
endfunction()

# Most of the time to compile a source is spent on headers, pybind11's above all. In two batches, one for each of two
# cores, a module takes a quarter of the time. (ci/headers.sh compiles every file alone.)
function(portamem_in_batches target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR half "(${count} + 1) / 2")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PORTAMEM_UNITY} UNITY_BUILD_BATCH_SIZE ${half})
endfunction()
