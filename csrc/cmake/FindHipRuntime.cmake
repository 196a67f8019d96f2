# SPDX-License-Identifier: MIT
# FindHipRuntime.cmake: the HIP runtime API, with no hipcc and without ROCm's own CMake packages.
#
# PORTAMEM_HIP_PLATFORM=amd (default): headers and libamdhip64 from one root: PORTAMEM_HIP_INCLUDE's, else ROCM_PATH,
# HIP_PATH, /opt/rocm, /usr (Debian's libamdhip64-dev).
# PORTAMEM_HIP_PLATFORM=nvidia: HIP's headers over the CUDA runtime. PORTAMEM_HIP_INCLUDE says where hip/ is,
# PORTAMEM_HIP_CUDA_ROOT where CUDA is, which must be older than 13: no HIP header compiles against that.
#
# Result: HipRuntime_FOUND, HipRuntime_VERSION, HipRuntime_LOCATION (its headers), HipRuntime_LIBRARY_NAME (what the
# loader will look for), HipRuntime_MISSING (a sentence) and the target HipRuntime::HipRuntime.
include("${CMAKE_CURRENT_LIST_DIR}/CudartRoots.cmake")

if(NOT PORTAMEM_HIP_PLATFORM)
  set(PORTAMEM_HIP_PLATFORM amd)
endif()
if(NOT PORTAMEM_HIP_PLATFORM MATCHES "^(amd|nvidia)$")
  message(FATAL_ERROR "PORTAMEM_HIP_PLATFORM is amd or nvidia, not '${PORTAMEM_HIP_PLATFORM}'")
endif()

if(PORTAMEM_HIP_INCLUDE)
  cmake_path(GET PORTAMEM_HIP_INCLUDE PARENT_PATH _hip_roots)
else()
  set(_hip_roots "$ENV{ROCM_PATH}" "$ENV{HIP_PATH}" /opt/rocm /usr)
endif()

set(_hip_include "")
set(_hip_library "")
foreach(_hip_root IN LISTS _hip_roots)
  set(_hip_candidate "${_hip_root}/include")
  if(PORTAMEM_HIP_INCLUDE)
    set(_hip_candidate "${PORTAMEM_HIP_INCLUDE}")
  endif()
  if(NOT _hip_root OR NOT EXISTS "${_hip_candidate}/hip/hip_runtime_api.h")
    continue()
  endif()
  set(_hip_include "${_hip_candidate}")
  if(PORTAMEM_HIP_PLATFORM STREQUAL "nvidia")
    break()
  endif()
  foreach(_hip_folder IN ITEMS lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
    if(EXISTS "${_hip_root}/${_hip_folder}/libamdhip64.so")
      set(_hip_library "${_hip_root}/${_hip_folder}/libamdhip64.so")
    endif()
  endforeach()
  if(_hip_library)
    break()
  endif()
endforeach()

set(HipRuntime_MISSING "")
set(HipRuntime_LIBRARY_NAME "")
if(NOT _hip_include)
  set(HipRuntime_MISSING "no hip/hip_runtime_api.h found. Install libamdhip64-dev (Debian, Ubuntu) or ROCm, and set \
ROCM_PATH if it is not in /opt/rocm.")
elseif(PORTAMEM_HIP_PLATFORM STREQUAL "amd")
  if(_hip_library)
    file(REAL_PATH "${_hip_library}" _hip_real)
    cmake_path(GET _hip_real FILENAME _hip_name)
    string(REGEX REPLACE "(\\.so\\.[0-9]+).*" "\\1" HipRuntime_LIBRARY_NAME "${_hip_name}")
  else()
    set(HipRuntime_MISSING "headers in ${_hip_include}, but no libamdhip64.so beside them. Install libamdhip64-dev \
(Debian, Ubuntu) or the whole of ROCm.")
  endif()
else()
  if(PORTAMEM_HIP_CUDA_ROOT)
    set(_hip_cuda_roots "${PORTAMEM_HIP_CUDA_ROOT}")
  else()
    cudart_wheel_roots(_hip_cuda_wheels)
    cudart_system_roots(_hip_cuda_system)
    set(_hip_cuda_roots "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" ${_hip_cuda_wheels} ${_hip_cuda_system})
  endif()
  set(HipRuntime_MISSING "no CUDA older than 13, with its static runtime, to put HIP's headers on. Set \
PORTAMEM_HIP_CUDA_ROOT, or pip install nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-cccl-cu12 \
nvidia-cuda-profiler-api-cu12.")
  foreach(_hip_cuda_root IN LISTS _hip_cuda_roots)
    cudart_probe(_hip_cuda "${_hip_cuda_root}" "static")
    if(_hip_cuda_VERSION AND _hip_cuda_VERSION VERSION_LESS 13 AND NOT _hip_cuda_MISSING)
      set(HipRuntime_MISSING "")
      cudart_targets(HipCudart _hip_cuda)
      break()
    endif()
  endforeach()
endif()

if(_hip_include)
  file(STRINGS "${_hip_include}/hip/hip_version.h" _hip_lines REGEX "#define[ \t]+HIP_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX MATCHALL "[0-9]+" HipRuntime_VERSION "${_hip_lines}")
  list(JOIN HipRuntime_VERSION "." HipRuntime_VERSION)
endif()

if(NOT HipRuntime_MISSING)
  set(HipRuntime_LOCATION "${_hip_include}")
  if(NOT TARGET HipRuntime::HipRuntime)
    add_library(HipRuntime::HipRuntime INTERFACE IMPORTED GLOBAL)
    set_target_properties(HipRuntime::HipRuntime PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_hip_include}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_hip_include}")
    if(PORTAMEM_HIP_PLATFORM STREQUAL "amd")
      set_property(TARGET HipRuntime::HipRuntime PROPERTY INTERFACE_COMPILE_DEFINITIONS __HIP_PLATFORM_AMD__=1)
      set_property(TARGET HipRuntime::HipRuntime PROPERTY INTERFACE_LINK_LIBRARIES "${_hip_library}")
    else()
      set_property(TARGET HipRuntime::HipRuntime PROPERTY INTERFACE_COMPILE_DEFINITIONS __HIP_PLATFORM_NVIDIA__=1)
      set_property(TARGET HipRuntime::HipRuntime PROPERTY INTERFACE_LINK_LIBRARIES HipCudart::static)
    endif()
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HipRuntime
  REQUIRED_VARS HipRuntime_LOCATION VERSION_VAR HipRuntime_VERSION
  REASON_FAILURE_MESSAGE "${HipRuntime_MISSING}")
