# SPDX-License-Identifier: MIT
# PortamemOwnCode.cmake: how portamem's own sources are compiled. Nothing of this reaches a consumer.

option(PORTAMEM_WERROR "Treat warnings in portamem's own code as errors" OFF)
set(PORTAMEM_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")

function(portamem_own_code target)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion $<$<BOOL:${PORTAMEM_WERROR}>:-Werror>)
  if(PORTAMEM_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${PORTAMEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${PORTAMEM_SANITIZE})
  endif()
endfunction()
