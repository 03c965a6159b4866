# axla_tf_library: a TensorFlow graph as a library of C++, without TensorFlow.
#
#   execute_process(COMMAND axla tfcompile --cmake_dir OUTPUT_VARIABLE axla_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
#   find_package(axla REQUIRED)
#   axla_tf_library(name graph config cpp_class
#     [FREEZE_CHECKPOINT file] [FREEZE_SAVER file] [TARGET_TRIPLE triple] [TFCOMPILE_FLAGS flag...])
#
# makes the targets
#   name            a static library; who links it includes "name.h"
#   name_test       a program that compares a recorded call; it is a test of CTest
#   name_benchmark  a program that measures how long a call takes
#
# Files called .pbtxt are text, others binary messages. AXLA_COMMAND is what runs axla.
enable_language(C)
if(NOT AXLA_COMMAND)
  find_program(AXLA_COMMAND axla REQUIRED)
endif()

function(axla_tf_library name graph config cpp_class)
  cmake_parse_arguments(PARSE_ARGV 4 given "" "FREEZE_CHECKPOINT;FREEZE_SAVER;TARGET_TRIPLE" "TFCOMPILE_FLAGS")
  if(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "axla_tf_library: ${given_UNPARSED_ARGUMENTS}: there is no such argument")
  endif()
  if(NOT given_TARGET_TRIPLE)
    if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
      message(FATAL_ERROR "axla_tf_library: TARGET_TRIPLE is missing; `axla targets` lists triples")
    endif()
    set(given_TARGET_TRIPLE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
  endif()
  get_filename_component(graph "${graph}" ABSOLUTE)
  get_filename_component(config "${config}" ABSOLUTE)
  set(needed "${graph}" "${config}")
  set(flags --graph=${graph} --config=${config} --cpp_class=${cpp_class} --target_triple=${given_TARGET_TRIPLE})
  if(given_FREEZE_CHECKPOINT)
    get_filename_component(checkpoint "${given_FREEZE_CHECKPOINT}" ABSOLUTE)
    list(APPEND flags --freeze_checkpoint=${checkpoint})
    file(GLOB parts "${checkpoint}*")
    list(APPEND needed ${parts})
  endif()
  if(given_FREEZE_SAVER)
    get_filename_component(saver "${given_FREEZE_SAVER}" ABSOLUTE)
    list(APPEND flags --freeze_saver=${saver})
    list(APPEND needed "${saver}")
  endif()

  string(MAKE_C_IDENTIFIER "${name}" symbol)
  string(REGEX REPLACE "_+" "_" symbol "${symbol}")
  set(here "${CMAKE_CURRENT_BINARY_DIR}")
  set(package "${here}/${name}_package")
  add_custom_command(
    OUTPUT "${here}/${name}.o" "${here}/${name}.h" "${package}/${symbol}_test.c" "${package}/${symbol}_benchmark.c"
    COMMAND ${AXLA_COMMAND} tfcompile ${flags} --entry_point=${symbol} --out_function_object=${here}/${name}.o
      --out_header=${here}/${name}.h --out_package=${package} ${given_TFCOMPILE_FLAGS}
    DEPENDS ${needed} COMMENT "Compiling ${graph}" VERBATIM)
  set_source_files_properties("${here}/${name}.o" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${name} STATIC "${here}/${name}.o" "${here}/${name}.h")
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${name} PUBLIC "${here}")

  foreach(program test benchmark)
    add_executable(${name}_${program} "${package}/${symbol}_${program}.c")
    target_include_directories(${name}_${program} BEFORE PRIVATE "${package}")
    target_link_libraries(${name}_${program} PRIVATE ${name})
  endforeach()
  add_test(NAME ${name}_test COMMAND ${name}_test WORKING_DIRECTORY "${package}")
endfunction()
