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
  install(TARGETS portamem LIBRARY DESTINATION "${PORTAMEM_INSTALL_LIB}")
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
