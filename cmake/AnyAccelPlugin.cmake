# anyaccel_add_plugin(NAME SOURCES a.cpp ... TRAITS name.traits [FILES folder ...]
#                     [LIBRARIES x ...])
#
# Adds the plugin NAME for DS_ACCELERATOR=NAME: the target anyaccel_NAME, the library
# libanyaccel_NAME.so, and next to it the text file NAME.plugin, which is generated from TRAITS and
# from the versions recorded in the library. Both are in the build's folder `plugins`, to which
# ANYACCEL_PLUGIN_PATH can point. If the install prefix is AnyAccel's, AnyAccel finds the installed
# plugin automatically. FILES are folders to place next to the library in both locations, for
# example sources of ops that are built when they are loaded.
#
# The installed library's RUNPATH contains CMAKE_INSTALL_RPATH and AnyAccel's lib folder, but no
# paths of the build machine. Set CMAKE_INSTALL_RPATH before the call if a library in LIBRARIES is
# not in the loader's default path.
set(ANYACCEL_PLUGIN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")

function(anyaccel_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TRAITS" "SOURCES;FILES;LIBRARIES")
  if(NOT name MATCHES "^[a-z][a-z0-9_]+$")
    message(FATAL_ERROR "anyaccel_add_plugin: invalid plugin name (got '${name}', expected a letter followed by at least one of a-z, 0-9 and _)")
  endif()
  if(NOT ARG_SOURCES OR NOT ARG_TRAITS OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "anyaccel_add_plugin(${name}): missing SOURCES or TRAITS, or unknown arguments (got '${ARG_UNPARSED_ARGUMENTS}')")
  endif()
  include(GNUInstallDirs)
  get_filename_component(traits "${ARG_TRAITS}" ABSOLUTE)
  set(target anyaccel_${name})
  set(folder "${CMAKE_BINARY_DIR}/plugins")
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE anyaccel::anyaccel ${ARG_LIBRARIES})
  target_compile_definitions(${target} PRIVATE ANYACCEL_PLUGIN_NAME="${name}")
  set_target_properties(${target} PROPERTIES
    PREFIX lib SUFFIX .so CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "${folder}" LINK_DEPENDS "${traits}"
    ANYACCEL_PLUGIN ON INSTALL_RPATH "${CMAKE_INSTALL_RPATH};\$ORIGIN/../.." INSTALL_RPATH_USE_LINK_PATH OFF)
  # The versions are read from the library, so that the text file always matches it.
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DNAME=${name}" "-DLIBRARY=$<TARGET_FILE:${target}>" "-DTRAITS=${traits}"
            "-DOUT=${folder}/${name}.plugin" -P "${ANYACCEL_PLUGIN_CMAKE_DIR}/AnyAccelPluginFile.cmake")
  set(destination "${CMAKE_INSTALL_LIBDIR}/anyaccel/plugins")
  install(TARGETS ${target} LIBRARY DESTINATION "${destination}")
  install(FILES "${folder}/${name}.plugin" DESTINATION "${destination}")
  foreach(files ${ARG_FILES})
    get_filename_component(source "${files}" ABSOLUTE)
    get_filename_component(files "${source}" NAME)
    install(DIRECTORY "${source}/" DESTINATION "${destination}/${name}/${files}")
    # A symbolic link, so that edits of the sources take effect.
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}/${name}"
      COMMAND "${CMAKE_COMMAND}" -E create_symlink "${source}" "${folder}/${name}/${files}")
  endforeach()
endfunction()
