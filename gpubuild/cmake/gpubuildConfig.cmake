# Programs that gpubuild builds as targets of CMake:
#
#   find_package(gpubuild REQUIRED)
#   gpubuild_add_program(NAME [PROJECT FILE] [BUILD_DIR DIR] [TARGETS TARGET…])
#
# defines the imported target NAME::NAME for program NAME of FILE (targets.yaml): a library to link, an object, or
# an executable, as its `product:` says. Every build runs gpubuild, which does what is out of date.
if(CMAKE_VERSION VERSION_LESS 3.20)
  set(gpubuild_FOUND FALSE)
  set(gpubuild_NOT_FOUND_MESSAGE "gpubuild needs CMake 3.20")
  return()
endif()
# This file is in PREFIX/share/cmake/gpubuild and in PREFIX/lib/pythonX/site-packages/gpubuild/cmake.
find_program(GPUBUILD_EXECUTABLE gpubuild
             HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../../../bin")
if(NOT GPUBUILD_EXECUTABLE)
  set(gpubuild_FOUND FALSE)
  set(gpubuild_NOT_FOUND_MESSAGE "there is no command gpubuild; set GPUBUILD_EXECUTABLE")
  return()
endif()

function(gpubuild_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROJECT;BUILD_DIR" "TARGETS")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "gpubuild_add_program(${name}): unexpected ${arg_UNPARSED_ARGUMENTS} "
                        "${arg_KEYWORDS_MISSING_VALUES}; it has PROJECT, BUILD_DIR and TARGETS")
  endif()
  if(NOT arg_PROJECT)
    set(arg_PROJECT targets.yaml)
  endif()
  if(NOT arg_BUILD_DIR)
    set(arg_BUILD_DIR gpubuild)
  endif()
  get_filename_component(file "${arg_PROJECT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  get_filename_component(build_dir "${arg_BUILD_DIR}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  set(prefix "${CMAKE_CURRENT_BINARY_DIR}/gpubuild-${name}")
  set(command "${CMAKE_COMMAND}" -E env --unset=DESTDIR
              "${GPUBUILD_EXECUTABLE}" install "${name}" -q -f "${file}" --build-dir "${build_dir}" --prefix "${prefix}")
  foreach(target IN LISTS arg_TARGETS)
    list(APPEND command -t "${target}")
  endforeach()

  # Once now, to know the product; then at every build.
  file(GLOB_RECURSE package "${prefix}/${name}Config.cmake")
  if(package)
    file(REMOVE ${package})
  endif()
  execute_process(COMMAND ${command} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "gpubuild could not build ${name}")
  endif()
  file(GLOB_RECURSE package "${prefix}/${name}Config.cmake") # in the folder that `install: {lib: …}` names
  if(package)
    include("${package}")
    set_target_properties(${name}::${name} PROPERTIES IMPORTED_GLOBAL TRUE)
    get_target_property(product ${name}::${name} IMPORTED_LOCATION)
    if(NOT product)
      get_target_property(product ${name}::${name} IMPORTED_OBJECTS)
    endif()
  else()
    set(product "${prefix}/bin/${name}")
    add_executable(${name}::${name} IMPORTED GLOBAL)
    set_target_properties(${name}::${name} PROPERTIES IMPORTED_LOCATION "${product}")
  endif()
  add_custom_target(${name}_gpubuild ALL COMMAND ${command} BYPRODUCTS "${product}" USES_TERMINAL VERBATIM)
  add_dependencies(${name}::${name} ${name}_gpubuild)
endfunction()
