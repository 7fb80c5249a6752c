# The library, its headers and a package for find_package(stagewire).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/stagewire)

install(TARGETS stagewire EXPORT stagewire)
install(DIRECTORY include/stagewire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT stagewire NAMESPACE stagewire:: FILE stagewireTargets.cmake DESTINATION ${package_folder})

configure_package_config_file(cmake/stagewireConfig.cmake.in ${PROJECT_BINARY_DIR}/stagewireConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stagewireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stagewireConfig.cmake ${PROJECT_BINARY_DIR}/stagewireConfigVersion.cmake
  DESTINATION ${package_folder})
