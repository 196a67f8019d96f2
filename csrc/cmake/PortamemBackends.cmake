# SPDX-License-Identifier: MIT
# PortamemBackends.cmake: the targets portamem::host, portamem::cuda and portamem::hip.
#
# Used by portamem's own build and, installed beside portamem-config.cmake, by every consumer: both get the same
# targets. Each carries the choice of the backend (-DPORTAMEM_CUDA=1), libportamem and the vendor's runtime.

# Which CUDA runtime library a consumer links: static, shared, or none for a program that brings its own. Unless
# PORTAMEM_CUDART says it, each target links the one that its CUDA code links (CUDA_RUNTIME_LIBRARY): `follow`.
# Sets <out> to the choice, and <out>_WANTED to the library that has to be there.
function(portamem_cudart_choice out)
  string(TOLOWER "${PORTAMEM_CUDART}" choice)
  if(choice AND NOT choice MATCHES "^(static|shared|none)$")
    message(FATAL_ERROR "PORTAMEM_CUDART is static, shared or none, not '${PORTAMEM_CUDART}'")
  endif()
  set(wanted "${choice}")
  if(NOT choice)
    set(choice follow)
    string(TOLOWER "${CMAKE_CUDA_RUNTIME_LIBRARY}" wanted)
    if(NOT wanted MATCHES "^(static|shared|none)$")
      set(wanted static)
    endif()
  endif()
  if(wanted STREQUAL "none")
    set(wanted "")
  endif()
  set(${out} "${choice}" PARENT_SCOPE)
  set(${out}_WANTED "${wanted}" PARENT_SCOPE)
endfunction()

# Finds the vendor's parts of a backend. `missing` becomes a sentence that says what is absent and how to get it.
# The CUDA runtimes named after it (static, shared) have to come from the same root as the headers.
macro(portamem_find_vendor backend missing)
  set(${missing} "")
  if("${backend}" STREQUAL "cuda")
    find_package(Cudart MODULE QUIET COMPONENTS ${ARGN})
    set(${missing} "${Cudart_MISSING}")
  elseif("${backend}" STREQUAL "hip")
    find_package(HipRuntime MODULE QUIET)
    set(${missing} "${HipRuntime_MISSING}")
  endif()
endmacro()

# Makes `target` for a backend whose vendor was found. cudart is static, shared, none or follow.
function(portamem_backend_target target backend cudart)
  if(TARGET ${target})
    return()
  endif()
  set(runtime_host "")
  set(runtime_hip HipRuntime::HipRuntime)
  set(runtime_cuda Cudart::${cudart})
  if(cudart STREQUAL "none")
    set(runtime_cuda Cudart::headers)
  elseif(cudart STREQUAL "follow")
    set(of_target "$<UPPER_CASE:$<TARGET_PROPERTY:CUDA_RUNTIME_LIBRARY>>")
    set(or_none "$<IF:$<STREQUAL:${of_target},NONE>,Cudart::headers,Cudart::static>")
    set(runtime_cuda "$<IF:$<STREQUAL:${of_target},SHARED>,Cudart::shared,${or_none}>")
  endif()
  string(TOUPPER "${backend}" upper)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS PORTAMEM_${upper}=1
    INTERFACE_LINK_LIBRARIES "portamem::portamem;${runtime_${backend}}")
endfunction()
