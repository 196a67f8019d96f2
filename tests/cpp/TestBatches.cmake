# SPDX-License-Identifier: MIT
# TestBatches.cmake: test files compiled several at once. Most of the time for one goes into what it includes, templates
# and inline functions above all: together they take an eighth of the time.
#
# Each file stands in a namespace of its own, so that it may use any name. What it includes comes before, at the top of
# the batch; so the files of one batch have to get along with each other's headers. A file that defines what only the
# global namespace may hold (operator new) is compiled alone. CMake's own UNITY_BUILD cannot put the headers outside of the
# namespaces.

# portamem_test_batches(SOURCES NAME COUNT FILE...): COUNT sources (never more than files) that hold the files between
# them, or, with PORTAMEM_UNITY off, the files themselves, are appended to the list SOURCES.
function(portamem_test_batches sources name count)
  if(NOT PORTAMEM_UNITY)
    set(${sources} ${${sources}} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN}) # a file may include something else tomorrow
  list(LENGTH ARGN files)
  if(count GREATER files)
    set(count ${files})
  endif()
  set(batch 0)
  foreach(file IN LISTS ARGN)
    math(EXPR batch "(${batch} + 1) % ${count}") # in turns: files about one subject are of one size
    file(STRINGS "${file}" includes REGEX "^#include ")
    list(APPEND headers_${batch} ${includes})
    get_filename_component(space "${file}" NAME_WE)
    string(APPEND bodies_${batch} "namespace test_file_${space} {\n#include \"${file}\"\n}\n")
  endforeach()
  math(EXPR last "${count} - 1")
  foreach(batch RANGE ${last})
    list(REMOVE_DUPLICATES headers_${batch})
    list(JOIN headers_${batch} "\n" headers)
    set(path "${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${batch}.cpp")
    file(CONFIGURE OUTPUT "${path}" CONTENT "${headers}\n${bodies_${batch}}" @ONLY) # written if it differs
    list(APPEND ${sources} "${path}")
  endforeach()
  set(${sources} ${${sources}} PARENT_SCOPE)
endfunction()
