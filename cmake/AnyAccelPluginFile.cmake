# Writes OUT, the text file of the plugin NAME, from TRAITS and the versions recorded in LIBRARY.
# The build runs this.
file(STRINGS "${LIBRARY}" said REGEX "^anyaccel-plugin:")
if(NOT said)
  message(FATAL_ERROR "${LIBRARY} is not a plugin. Add ANYACCEL_PLUGIN(function) of anyaccel/sdk/plugin.h to one of its sources.")
endif()
file(READ "${TRAITS}" traits)
get_filename_component(library "${LIBRARY}" NAME)
get_filename_component(traits_name "${TRAITS}" NAME)
set(text "# Generated from ${traits_name} and ${library} by their build; do not edit.\nanyaccel_plugin = 1\nlibrary = ${library}\n")
foreach(line IN LISTS said)
  string(REPLACE "anyaccel-plugin:" "" line "${line}")
  string(APPEND text "${line}\n")
endforeach()
file(WRITE "${OUT}" "${text}\n${traits}")
# AnyAccel rejects world-writable plugin files.
file(CHMOD "${OUT}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
