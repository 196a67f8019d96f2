# SPDX-License-Identifier: MIT
# PortamemInstall.cmake: library, headers and package config, in one of two layouts.
#
# For Python the prefix is the package's own folder (portamem/libportamem.so.0.2, portamem/include, portamem/cmake).
# Otherwise it is the usual one (lib, include, lib/cmake/portamem). The library's file and SONAME carry major and minor in
# both; a wheel has no links, so libportamem.so is a linker's script there, by which -lportamem finds the file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(PORTAMEM_PYTHON)
  set(PORTAMEM_INSTALL_LIB ".")
  set(PORTAMEM_INSTALL_INCLUDE include)
  set(PORTAMEM_INSTALL_CMAKE cmake)
  set_target_properties(portamem PROPERTIES SUFFIX ".so.${PORTAMEM_SOVERSION}")
  file(WRITE "${PROJECT_BINARY_DIR}/linker/libportamem.so" "INPUT(-l:libportamem.so.${PORTAMEM_SOVERSION})\n")
else()
  set(PORTAMEM_INSTALL_LIB "${CMAKE_INSTALL_LIBDIR}")
  set(PORTAMEM_INSTALL_INCLUDE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(PORTAMEM_INSTALL_CMAKE "${CMAKE_INSTALL_LIBDIR}/cmake/portamem")
  if(PORTAMEM_LIBRARY STREQUAL "shared")
    set_target_properties(portamem PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PORTAMEM_SOVERSION})
  endif()
endif()
if(PORTAMEM_LIBRARY STREQUAL "shared")
  set(PORTAMEM_FILE "libportamem.so.${PORTAMEM_SOVERSION}")
else()
  set(PORTAMEM_FILE libportamem.a)
endif()
if(NOT PROJECT_IS_TOP_LEVEL AND NOT PORTAMEM_INSTALL AND PORTAMEM_LIBRARY STREQUAL "shared")
  message(STATUS "portamem: libportamem is not installed with the whole project: for installed programs set \
PORTAMEM_LIBRARY=static, or PORTAMEM_INSTALL=ON and an INSTALL_RPATH to it")
endif()

set(PORTAMEM_PACKAGE_FILES
  "${PROJECT_SOURCE_DIR}/csrc/cmake/PortamemBackends.cmake"
  "${PROJECT_SOURCE_DIR}/csrc/cmake/CudartRoots.cmake"
  "${PROJECT_SOURCE_DIR}/csrc/cmake/FindCudart.cmake"
  "${PROJECT_SOURCE_DIR}/csrc/cmake/FindHipRuntime.cmake")

# Writes package config and version into `folder`, for library and headers below `prefix`.
function(portamem_write_package folder prefix destination lib include)
  set(PORTAMEM_INSTALL_LIB "${lib}")
  set(PORTAMEM_INSTALL_INCLUDE "${include}")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/csrc/cmake/portamem-config.cmake.in" "${folder}/portamem-config.cmake"
    INSTALL_PREFIX "${prefix}" INSTALL_DESTINATION "${destination}"
    PATH_VARS PORTAMEM_INSTALL_LIB PORTAMEM_INSTALL_INCLUDE)
  write_basic_package_version_file("${folder}/portamem-config-version.cmake" COMPATIBILITY SameMinorVersion)
endfunction()

if(PORTAMEM_INSTALL)
  set(package "${PROJECT_BINARY_DIR}/package")
  portamem_write_package("${package}" "${CMAKE_INSTALL_PREFIX}" "${PORTAMEM_INSTALL_CMAKE}"
                         "${PORTAMEM_INSTALL_LIB}" "${PORTAMEM_INSTALL_INCLUDE}")
  install(TARGETS portamem LIBRARY DESTINATION "${PORTAMEM_INSTALL_LIB}" ARCHIVE DESTINATION "${PORTAMEM_INSTALL_LIB}")
  if(PORTAMEM_PYTHON)
    install(FILES "${PROJECT_BINARY_DIR}/linker/libportamem.so" DESTINATION "${PORTAMEM_INSTALL_LIB}")
  endif()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/csrc/include/portamem" DESTINATION "${PORTAMEM_INSTALL_INCLUDE}")
  install(
    FILES "${package}/portamem-config.cmake" "${package}/portamem-config-version.cmake" ${PORTAMEM_PACKAGE_FILES}
    DESTINATION "${PORTAMEM_INSTALL_CMAKE}")
endif()

# The build folder is a package too: portamem_DIR may name it while portamem itself is worked on.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CONFIGURATION_TYPES)
  set(lib "${PROJECT_BINARY_DIR}")
  if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set(lib "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  endif()
  portamem_write_package("${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}"
                         "${lib}" "${PROJECT_SOURCE_DIR}/csrc/include")
  file(COPY ${PORTAMEM_PACKAGE_FILES} DESTINATION "${PROJECT_BINARY_DIR}")
endif()
