# SPDX-License-Identifier: MIT
# CudartRoots.cmake: where CUDA runtimes are on this machine, and what each one has.
#
# CMake's own FindCUDAToolkit wants a whole toolkit with nvcc. portamem needs two headers and one library, which the
# wheels nvidia-cuda-* hold as well. Header and library are always taken from one root: a mixture of two versions
# compiles, links and misreads structures.

# Lists roots in the order of preference. Wheels are found through Python's namespace package `nvidia`, because pip's
# build isolation keeps them off CMAKE_PREFIX_PATH.
function(cudart_wheel_roots out)
  set(python "${Python_EXECUTABLE}")
  if(NOT python)
    find_program(PORTAMEM_PYTHON_PROGRAM NAMES python3 python)
    mark_as_advanced(PORTAMEM_PYTHON_PROGRAM)
    set(python "${PORTAMEM_PYTHON_PROGRAM}")
  endif()
  set(roots "")
  if(python)
    execute_process(
      COMMAND "${python}" -c "import nvidia; print(';'.join(nvidia.__path__))"
      OUTPUT_VARIABLE namespaces OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(namespace IN LISTS namespaces)
      file(GLOB unified "${namespace}/cu[0-9]*") # CUDA 13: one folder for all wheels
      list(SORT unified COMPARE NATURAL ORDER DESCENDING)
      list(APPEND roots ${unified} "${namespace}/cuda_runtime") # CUDA 12: a folder for each wheel
    endforeach()
  endif()
  set(${out} "${roots}" PARENT_SCOPE)
endfunction()

function(cudart_system_roots out)
  set(roots "")
  find_program(PORTAMEM_NVCC NAMES nvcc)
  mark_as_advanced(PORTAMEM_NVCC)
  if(PORTAMEM_NVCC)
    file(REAL_PATH "${PORTAMEM_NVCC}" nvcc)
    cmake_path(GET nvcc PARENT_PATH bin)
    cmake_path(GET bin PARENT_PATH root)
    list(APPEND roots "${root}")
  endif()
  file(GLOB versioned "/usr/local/cuda-[0-9]*")
  list(SORT versioned COMPARE NATURAL ORDER DESCENDING)
  list(APPEND roots /usr/local/cuda ${versioned} /usr)
  list(REMOVE_DUPLICATES roots)
  set(${out} "${roots}" PARENT_SCOPE)
endfunction()

# Of the toolkit that compiles the project's CUDA code.
function(cudart_compiler_roots out)
  set(roots "${CMAKE_CUDA_COMPILER_LIBRARY_ROOT}" "${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}")
  foreach(include IN LISTS CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES)
    cmake_path(GET include PARENT_PATH root) # distributions put the toolkit's headers elsewhere
    list(APPEND roots "${root}")
  endforeach()
  list(REMOVE_DUPLICATES roots)
  set(${out} "${roots}" PARENT_SCOPE)
endfunction()

# Looks at one root. Sets <prefix>_INCLUDE_DIRS, _VERSION, _STATIC, _SHARED (empty where absent) and _MISSING, which is
# empty when all of `wanted` (headers, static, shared) is there.
function(cudart_probe prefix root wanted)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(targets "targets/sbsa-linux")
  else()
    set(targets "targets/${CMAKE_SYSTEM_PROCESSOR}-linux")
  endif()
  foreach(name IN ITEMS INCLUDE_DIRS VERSION STATIC SHARED)
    set(${prefix}_${name} "" PARENT_SCOPE)
  endforeach()

  set(include "")
  foreach(folder IN ITEMS "${root}/include" "${root}/${targets}/include")
    if(EXISTS "${folder}/cuda_runtime_api.h")
      set(include "${folder}")
      break()
    endif()
  endforeach()
  if(NOT include)
    set(${prefix}_MISSING "cuda_runtime_api.h" PARENT_SCOPE)
    return()
  endif()

  set(missing "")
  set(includes "${include}")
  if(NOT EXISTS "${include}/crt/host_defines.h")
    # The wheels of CUDA 12: crt/ is in the compiler's, and what HIP's headers want besides is in two more.
    cmake_path(GET root PARENT_PATH namespace)
    foreach(wheel IN ITEMS cuda_nvcc cuda_cccl cuda_profiler_api)
      if(EXISTS "${namespace}/${wheel}/include")
        list(APPEND includes "${namespace}/${wheel}/include")
      endif()
    endforeach()
    if(NOT EXISTS "${namespace}/cuda_nvcc/include/crt/host_defines.h")
      list(APPEND missing "crt/host_defines.h")
    endif()
  endif()
  file(STRINGS "${include}/cuda_runtime_api.h" line REGEX "#define[ \t]+CUDART_VERSION[ \t]+[0-9]+" LIMIT_COUNT 1)
  string(REGEX REPLACE ".*CUDART_VERSION[ \t]+([0-9]+).*" "\\1" number "${line}")
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")

  set(folders "${root}/lib64" "${root}/lib" "${root}/${targets}/lib")
  if(CMAKE_LIBRARY_ARCHITECTURE)
    list(APPEND folders "${root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  endif()
  set(static "")
  set(shared "")
  foreach(folder IN LISTS folders)
    if(NOT static AND EXISTS "${folder}/libcudart_static.a")
      set(static "${folder}/libcudart_static.a")
    endif()
    if(NOT shared)
      file(GLOB candidates "${folder}/libcudart.so" "${folder}/libcudart.so.${major}") # wheels have no plain .so
      if(candidates)
        list(GET candidates 0 shared)
      endif()
    endif()
  endforeach()
  if("static" IN_LIST wanted AND NOT static)
    list(APPEND missing "libcudart_static.a")
  endif()
  if("shared" IN_LIST wanted AND NOT shared)
    list(APPEND missing "libcudart.so")
  endif()

  set(${prefix}_INCLUDE_DIRS "${includes}" PARENT_SCOPE)
  set(${prefix}_VERSION "${major}.${minor}" PARENT_SCOPE)
  set(${prefix}_STATIC "${static}" PARENT_SCOPE)
  set(${prefix}_SHARED "${shared}" PARENT_SCOPE)
  set(${prefix}_MISSING "${missing}" PARENT_SCOPE)
endfunction()

# Makes the imported targets <namespace>::headers, ::static and ::shared of a probed root.
macro(cudart_targets namespace prefix)
  set(_cudart_threads Threads::Threads)
  if(CMAKE_C_COMPILER_LOADED OR CMAKE_CXX_COMPILER_LOADED)
    find_package(Threads REQUIRED)
  else()
    set(_cudart_threads pthread) # CMake looks for threads with a C or C++ compiler only
  endif()
  if(NOT TARGET ${namespace}::headers)
    add_library(${namespace}::headers INTERFACE IMPORTED GLOBAL)
    set_target_properties(${namespace}::headers PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${prefix}_INCLUDE_DIRS}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${${prefix}_INCLUDE_DIRS}")
    if(${prefix}_STATIC)
      add_library(${namespace}::static STATIC IMPORTED GLOBAL)
      set_target_properties(${namespace}::static PROPERTIES
        IMPORTED_LOCATION "${${prefix}_STATIC}"
        INTERFACE_LINK_LIBRARIES "${namespace}::headers;${_cudart_threads};${CMAKE_DL_LIBS};rt")
    endif()
    if(${prefix}_SHARED)
      add_library(${namespace}::shared SHARED IMPORTED GLOBAL)
      set_target_properties(${namespace}::shared PROPERTIES
        IMPORTED_LOCATION "${${prefix}_SHARED}"
        INTERFACE_LINK_LIBRARIES "${namespace}::headers")
    endif()
  endif()
endmacro()
