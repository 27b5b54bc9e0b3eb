# Install rules for programs, libraries, headers and the package file, and the target `uninstall`.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/anyaccel)

# Collects all libraries and programs in a folder, so that the install rules include new ones
# automatically.
function(anyaccel_targets_under dir result)
  get_property(found DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${dir} PROPERTY SUBDIRECTORIES)
  foreach(folder ${folders})
    anyaccel_targets_under(${folder} more)
    list(APPEND found ${more})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

set(installed_targets)
foreach(folder src/base src/topology src/launch src/build src/core src/backends src/ops src/comm src/text src/llm src/cli conformance)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    get_property(folders DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
    if("${PROJECT_SOURCE_DIR}/${folder}" IN_LIST folders)
      anyaccel_targets_under(${PROJECT_SOURCE_DIR}/${folder} found)
      list(APPEND installed_targets ${found})
    endif()
  endif()
endforeach()

set_property(GLOBAL PROPERTY ANYACCEL_INSTALLED_TARGETS ${installed_targets})
# Targets that other projects may link. These libraries load the remaining ones at run time.
set(exported_targets anyaccel_torch anyaccel_base anyaccel anyaccel_ops anyaccel_comm anyaccel_text anyaccel_llm anyaccel_conformance)
set_target_properties(anyaccel_torch PROPERTIES EXPORT_NAME torch)
foreach(target ${installed_targets})
  get_target_property(type ${target} TYPE)
  if(target IN_LIST exported_targets)
    string(REGEX REPLACE "^anyaccel_" "" export_name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name})
    target_compile_features(${target} PUBLIC cxx_std_20)
    install(TARGETS ${target} EXPORT anyaccelTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    add_library(anyaccel::${export_name} ALIAS ${target})
  elseif(type MATCHES "SHARED_LIBRARY|MODULE_LIBRARY")
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  elseif(type STREQUAL EXECUTABLE)
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(TARGETS anyaccel_torch EXPORT anyaccelTargets)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/anyaccel ${PROJECT_BINARY_DIR}/include/anyaccel
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT anyaccelTargets NAMESPACE anyaccel:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/anyaccelConfig.cmake.in
  ${PROJECT_BINARY_DIR}/anyaccelConfig.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/anyaccelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/anyaccelConfig.cmake ${PROJECT_BINARY_DIR}/anyaccelConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/AnyAccelTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/AnyAccelPlugin.cmake
              ${PROJECT_SOURCE_DIR}/cmake/AnyAccelPluginFile.cmake
        DESTINATION ${package_dir})
# The template that `anyaccel new-backend` copies.
if(NOT ANYACCEL_MINIMAL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/out_of_tree_backend/
          DESTINATION ${CMAKE_INSTALL_DATADIR}/anyaccel/backend_template)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_file(${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake.in ${PROJECT_BINARY_DIR}/uninstall.cmake @ONLY)
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/uninstall.cmake
                    COMMENT "Removing the files of the last install" VERBATIM)
endif()
