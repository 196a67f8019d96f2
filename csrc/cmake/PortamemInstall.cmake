# SPDX-License-Identifier: MIT
# PortamemInstall.cmake: library, headers and package config, in one of two layouts.
#
# For Python the prefix is the package's own folder (portamem/libportamem.so, portamem/include, portamem/cmake).
# Otherwise it is the usual one (lib, include, lib/cmake/portamem), and the library has a version in its name.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(PORTAMEM_PYTHON)
  set(PORTAMEM_INSTALL_LIB ".")
  set(PORTAMEM_INSTALL_INCLUDE include)
  set(PORTAMEM_INSTALL_CMAKE cmake)
else()
  set(PORTAMEM_INSTALL_LIB "${CMAKE_INSTALL_LIBDIR}")
  set(PORTAMEM_INSTALL_INCLUDE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(PORTAMEM_INSTALL_CMAKE "${CMAKE_INSTALL_LIBDIR}/cmake/portamem")
  file(STRINGS "${PROJECT_SOURCE_DIR}/csrc/include/portamem/c_api.h" abi REGEX "#define PORTAMEM_ABI_VERSION")
  string(REGEX MATCH "[0-9]+" abi "${abi}")
  set_target_properties(portamem PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${abi})
endif()

install(TARGETS portamem LIBRARY DESTINATION "${PORTAMEM_INSTALL_LIB}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/csrc/include/portamem" DESTINATION "${PORTAMEM_INSTALL_INCLUDE}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/csrc/cmake/portamem-config.cmake.in" "${PROJECT_BINARY_DIR}/portamem-config.cmake"
  INSTALL_DESTINATION "${PORTAMEM_INSTALL_CMAKE}"
  PATH_VARS PORTAMEM_INSTALL_LIB PORTAMEM_INSTALL_INCLUDE)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/portamem-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES
    "${PROJECT_BINARY_DIR}/portamem-config.cmake"
    "${PROJECT_BINARY_DIR}/portamem-config-version.cmake"
    "${PROJECT_SOURCE_DIR}/csrc/cmake/PortamemBackends.cmake"
    "${PROJECT_SOURCE_DIR}/csrc/cmake/CudartRoots.cmake"
    "${PROJECT_SOURCE_DIR}/csrc/cmake/FindCudart.cmake"
    "${PROJECT_SOURCE_DIR}/csrc/cmake/FindHipRuntime.cmake"
  DESTINATION "${PORTAMEM_INSTALL_CMAKE}")
