# SPDX-License-Identifier: MIT
# peers.cmake: which peers are in the speed table: those that compile and link here.

# Adds a peer's file where a program with that alone can be built.
function(table_add_peer name file function standard includes libraries)
  try_compile(built
    SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/${file}" "${CMAKE_CURRENT_SOURCE_DIR}/probe.cpp"
    COMPILE_DEFINITIONS "-DTABLE_PROBE=table::${function}"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${CMAKE_CURRENT_SOURCE_DIR};${includes}"
    LINK_LIBRARIES ${libraries} pthread # words of their own: in one with semicolons CMake sees no targets
    CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON NO_CACHE OUTPUT_VARIABLE said)
  if(NOT built)
    string(REGEX MATCH "[^\n]*error[^\n]*" why "${said}")
    message(STATUS "table: without ${name}: ${why}")
    return()
  endif()
  message(STATUS "table: with ${name}")
  string(TOUPPER "${function}" upper)
  string(REPLACE "ADD_" "TABLE_WITH_" upper "${upper}")
  add_library(peer_${function} OBJECT ${file})
  set_target_properties(peer_${function} PROPERTIES CXX_STANDARD ${standard})
  target_include_directories(peer_${function} SYSTEM PRIVATE ${includes})
  target_link_libraries(peer_${function} PRIVATE ${libraries})
  target_compile_definitions(${program} PRIVATE ${upper})
  target_link_libraries(${program} PRIVATE peer_${function} ${libraries})
endfunction()
