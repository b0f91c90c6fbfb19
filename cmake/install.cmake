# Installs the library and the package that find_package(Sluice) finds. Include
# it after the targets are made.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)

install(TARGETS sluice EXPORT SluiceTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET sluice_program)
  if(SLUICE_WITH_TORCH)
    # CMake leaves out folders below the sources, where tools/setup puts torch.
    set_property(TARGET sluice_program APPEND PROPERTY
      INSTALL_RPATH $<TARGET_FILE_DIR:torch>)
  endif()
  install(TARGETS sluice_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS sluice_bind_to_loopback DESTINATION ${CMAKE_INSTALL_LIBDIR}/sluice)
  if(SKBUILD)
    install(TARGETS sluice_program RUNTIME DESTINATION sluice/bin COMPONENT python)
    install(TARGETS sluice_bind_to_loopback
      DESTINATION sluice/${CMAKE_INSTALL_LIBDIR}/sluice COMPONENT python)
  endif()
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice)

# Not the inside of the backends, what needs torch, nor folders whose headers serve
# the program and the tests.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/sluice/
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice
  FILES_MATCHING PATTERN "*.h"
  REGEX "/sluice/(backend/(cpu|cuda)|comm/c10d)$" EXCLUDE
  REGEX "/sluice/(audio|cli|config|data|python|report|run|study|text|torch|weights)$" EXCLUDE)

install(EXPORT SluiceTargets NAMESPACE Sluice:: DESTINATION ${package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/SluiceConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor release may break callers.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/SluiceConfig.cmake
  ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake
  DESTINATION ${package_dir})
