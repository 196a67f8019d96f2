# SPDX-License-Identifier: MIT
# FindCudart.cmake: the CUDA runtime, 12 or later, from a toolkit or from wheels. No nvcc needed.
#
# Components: static, shared (the headers are always wanted). Result: Cudart_FOUND, Cudart_VERSION, Cudart_LOCATION (the
# root), Cudart_MISSING (a sentence) and the targets Cudart::headers, Cudart::static, Cudart::shared.
#
# Cudart_ROOT or CUDAToolkit_ROOT, set as CMake variables, are the only place looked at. PORTAMEM_CUDA_WHEELS=12|13 takes
# the wheels of that version and nothing else. A project that has enabled the language CUDA gets its compiler's toolkit,
# so that it has one runtime. Otherwise, in this order: the environment's CUDA_PATH, CUDA_HOME and CUDAToolkit_ROOT,
# wheels of this Python, nvcc on PATH, /usr/local/cuda*, /usr.
include("${CMAKE_CURRENT_LIST_DIR}/CudartRoots.cmake")

set(_cudart_wheels "${PORTAMEM_CUDA_WHEELS}")
if(Cudart_ROOT OR CUDAToolkit_ROOT)
  set(_cudart_roots "${Cudart_ROOT}" "${CUDAToolkit_ROOT}")
elseif(_cudart_wheels)
  cudart_wheel_roots(_cudart_roots)
elseif(CMAKE_CUDA_COMPILER_LOADED)
  cudart_compiler_roots(_cudart_roots)
else()
  cudart_wheel_roots(_cudart_from_wheels)
  cudart_system_roots(_cudart_from_system)
  set(_cudart_roots "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" "$ENV{CUDAToolkit_ROOT}"
      ${_cudart_from_wheels} ${_cudart_from_system})
endif()

set(Cudart_LOCATION "")
set(_cudart_complete FALSE)
set(_cudart_near "")
foreach(_cudart_root IN LISTS _cudart_roots)
  if(NOT _cudart_root)
    continue()
  endif()
  cudart_probe(_cudart "${_cudart_root}" "${Cudart_FIND_COMPONENTS}")
  if(NOT _cudart_VERSION)
    continue()
  elseif(_cudart_VERSION VERSION_LESS 12)
    list(APPEND _cudart_near "${_cudart_root} is CUDA ${_cudart_VERSION}, 12 or later is needed")
  elseif(_cudart_wheels AND NOT _cudart_VERSION MATCHES "^${_cudart_wheels}\\.")
    list(APPEND _cudart_near "${_cudart_root} is CUDA ${_cudart_VERSION}, PORTAMEM_CUDA_WHEELS asks for ${_cudart_wheels}")
  elseif(_cudart_MISSING)
    list(JOIN _cudart_MISSING ", " _cudart_text)
    list(APPEND _cudart_near "${_cudart_root} lacks ${_cudart_text}")
  else()
    set(_cudart_complete TRUE)
    set(Cudart_LOCATION "${_cudart_root}")
    break()
  endif()
endforeach()

if(_cudart_complete)
  set(Cudart_VERSION "${_cudart_VERSION}")
  set(Cudart_MISSING "")
  foreach(_cudart_component IN LISTS Cudart_FIND_COMPONENTS)
    set(Cudart_${_cudart_component}_FOUND TRUE)
  endforeach()
  cudart_targets(Cudart _cudart)
else()
  list(JOIN _cudart_near "; " _cudart_text)
  if(NOT _cudart_text)
    set(_cudart_text "no cuda_runtime_api.h found")
  endif()
  set(Cudart_MISSING "${_cudart_text}. Install a CUDA toolkit and set CUDA_HOME, or take it from wheels: \
PORTAMEM_CUDA_WHEELS=13 pip install ., or pip install 'cuda-toolkit[cudart,crt,nvtx]==13.*' for a plain CMake build.")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cudart
  REQUIRED_VARS Cudart_LOCATION VERSION_VAR Cudart_VERSION
  REASON_FAILURE_MESSAGE "${Cudart_MISSING}")
