# SPDX-License-Identifier: MIT
# PortamemPython.cmake: the extension modules _host, _cuda, _hip and _knobs, and what Python knows about this build.

# Link-time optimisation costs half of the build time and gains nothing measurable in thin wrappers. Setting the
# variable keeps pybind11 from adding it.
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
set(PYBIND11_FINDPYTHON ON)
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

function(portamem_python_module name)
  pybind11_add_module(${name} MODULE ${ARGN})
  portamem_own_code(${name})
  portamem_in_batches(${name})
  # Bound at load, so that a symbol that the vendor's library lacks refuses the import, not the hundredth call.
  set(exports "${PROJECT_SOURCE_DIR}/csrc/cmake/module.map")
  target_link_options(${name} PRIVATE -Wl,-z,now -Wl,--gc-sections "-Wl,--version-script=${exports}")
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN" LINK_DEPENDS "${exports}")
  if(NOT CMAKE_CROSSCOMPILING AND NOT PORTAMEM_SANITIZE)
    # Python's own symbols are in no library, so the linker cannot be told --no-undefined. Loading the module can.
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND "${Python_EXECUTABLE}" -c "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)"
              "$<TARGET_FILE:${name}>"
      COMMENT "Checking that every symbol of ${name} is found" VERBATIM)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION .)
endfunction()

# Allocations, copies and exports are compiled for speed, the rest for size: a wheel holds three modules.
set(PORTAMEM_SELDOM_CALLED
  adaptors array_interface async_resource callbacks capabilities composed_resources copy device dlpack dlpack_contents
  dlpack_import dlpack_table errors event foreign forks host_export module order_check own_class pointer_info
  plugins/graph_memory
  plugins/hook_bindings plugins/torch_error plugins/torch_hook plugins/tvm_ffi_hook pool_resource prefaulted_resource quirks recording_adaptors refusals registration scope stream versions view_bindings
  view_parts waits words)

function(portamem_add_backend_module backend)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/csrc/python/*.cpp"
       "${PROJECT_SOURCE_DIR}/csrc/python/fast/*.cpp" "${PROJECT_SOURCE_DIR}/csrc/python/plugins/*.cpp")
  set(seldom "${PORTAMEM_SELDOM_CALLED}")
  list(TRANSFORM seldom REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/csrc/python/\\1.cpp")
  list(REMOVE_ITEM sources ${seldom})
  add_library(_${backend}_seldom OBJECT ${seldom})
  portamem_own_code(_${backend}_seldom)
  target_compile_options(_${backend}_seldom PRIVATE $<$<CONFIG:Release>:-Os>)
  set_target_properties(_${backend}_seldom PROPERTIES UNITY_BUILD ${PORTAMEM_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(_${backend}_seldom PRIVATE pybind11::module)
  # CMake puts these objects before those of the sources. Of an inline function that both halves have, the linker takes
  # the first, which is the small one. The other order costs a seventh of the module, and gains nothing measurable.
  portamem_python_module(_${backend} ${sources} $<TARGET_OBJECTS:_${backend}_seldom>)
  set_target_properties(_${backend} PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
  foreach(half IN ITEMS _${backend} _${backend}_seldom)
    target_compile_definitions(${half} PRIVATE PORTAMEM_MODULE=_${backend})
    target_link_libraries(${half} PRIVATE portamem_own::${backend})
  endforeach()
endfunction()

# The host runtime's knobs are no backend's API, so they are a module of their own.
function(portamem_add_knobs_module)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/csrc/python/knobs/*.cpp")
  portamem_python_module(_knobs ${sources})
  target_compile_options(_knobs PRIVATE $<$<CONFIG:Release>:-Os>)
  target_link_libraries(_knobs PRIVATE portamem_own::host)
endfunction()

# _build_info.json: what was built with what. No paths: a wheel is made on one machine and read on another.
function(portamem_write_build_info)
  set(info "{}")
  string(JSON info SET "${info}" version "\"${PROJECT_VERSION}\"")
  string(JSON info SET "${info}" compiler "\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
  string(JSON info SET "${info}" build_type "\"${CMAKE_BUILD_TYPE}\"")
  string(JSON info SET "${info}" backends "{}")
  string(JSON info SET "${info}" not_built "{}")
  foreach(backend IN ITEMS host cuda hip)
    if(NOT_BUILT_${backend})
      string(REGEX REPLACE "/[^ ;:]*/" "" reason "${NOT_BUILT_${backend}}")
      string(JSON info SET "${info}" not_built ${backend} "\"${reason}\"")
      continue()
    endif()
    string(JSON info SET "${info}" backends ${backend} "{}")
  endforeach()
  if("host" IN_LIST PORTAMEM_BUILT)
    string(JSON info SET "${info}" backends host headers "\"${PROJECT_VERSION}\"")
  endif()
  if("cuda" IN_LIST PORTAMEM_BUILT)
    string(JSON info SET "${info}" backends cuda headers "\"${Cudart_VERSION}\"")
    string(JSON info SET "${info}" backends cuda runtime "\"static\"")
  endif()
  if("hip" IN_LIST PORTAMEM_BUILT)
    string(JSON info SET "${info}" backends hip headers "\"${HipRuntime_VERSION}\"")
    string(JSON info SET "${info}" backends hip platform "\"${PORTAMEM_HIP_PLATFORM}\"")
    string(JSON info SET "${info}" backends hip library "\"${HipRuntime_LIBRARY_NAME}\"")
  endif()
  file(WRITE "${PROJECT_BINARY_DIR}/_build_info.json" "${info}\n")
  install(FILES "${PROJECT_BINARY_DIR}/_build_info.json" DESTINATION .)
endfunction()
