# SPDX-License-Identifier: MIT
# PortamemSelect.cmake: which backends this build makes.
#
# PORTAMEM_BACKENDS=auto takes host and every vendor whose parts are found. A list ("host;cuda" or "host,cuda") is
# strict: what it names and this machine lacks is an error that says how to get it.

# Sets `out` to the backends to build, and NOT_BUILT_<backend> to the reason for each other one.
macro(portamem_select_backends out)
  string(TOLOWER "${PORTAMEM_BACKENDS}" _portamem_wanted)
  string(REGEX REPLACE "[, ]+" ";" _portamem_wanted "${_portamem_wanted}")
  list(REMOVE_DUPLICATES _portamem_wanted)
  set(_portamem_strict TRUE)
  if(_portamem_wanted STREQUAL "auto" OR _portamem_wanted STREQUAL "")
    set(_portamem_strict FALSE)
    set(_portamem_wanted host cuda hip)
  endif()
  foreach(_portamem_backend IN LISTS _portamem_wanted)
    if(NOT _portamem_backend MATCHES "^(host|cuda|hip)$")
      message(FATAL_ERROR "PORTAMEM_BACKENDS is auto or a list of host, cuda, hip; '${_portamem_backend}' is neither")
    endif()
  endforeach()

  set(${out} "")
  portamem_cudart_choice(_portamem_cudart)
  foreach(_portamem_backend IN ITEMS host cuda hip)
    set(NOT_BUILT_${_portamem_backend} "")
    if(NOT _portamem_backend IN_LIST _portamem_wanted)
      set(NOT_BUILT_${_portamem_backend} "PORTAMEM_BACKENDS=${PORTAMEM_BACKENDS} leaves it out.")
      continue()
    endif()
    # The modules and tests of this build always link the static CUDA runtime: they load where there is no driver.
    set(_portamem_runtimes static ${_portamem_cudart_WANTED})
    list(REMOVE_DUPLICATES _portamem_runtimes)
    portamem_find_vendor(${_portamem_backend} _portamem_missing ${_portamem_runtimes})
    if(NOT _portamem_missing)
      list(APPEND ${out} ${_portamem_backend})
      portamem_backend_target(portamem::${_portamem_backend} ${_portamem_backend} ${_portamem_cudart})
      portamem_backend_target(portamem_own::${_portamem_backend} ${_portamem_backend} static)
    elseif(_portamem_strict)
      message(FATAL_ERROR "portamem: cannot build the backend ${_portamem_backend}: ${_portamem_missing}")
    else()
      set(NOT_BUILT_${_portamem_backend} "${_portamem_missing}")
    endif()
  endforeach()
endmacro()
