# Install rules of what no single folder owns: headers, packages, the service and the documents.

include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/include/nccl.h" "${PROJECT_SOURCE_DIR}/include/harmonaize.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

# find_package(harmonaize) gives the target harmonaize::nccl.
set(HARMONAIZE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/harmonaize")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/harmonaizeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/packaging/harmonaizeConfig.cmake"
  INSTALL_DESTINATION "${HARMONAIZE_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/packaging/harmonaizeConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/packaging/harmonaizeConfig.cmake"
              "${PROJECT_BINARY_DIR}/packaging/harmonaizeConfigVersion.cmake"
        DESTINATION "${HARMONAIZE_PACKAGE_DIR}")
set_target_properties(harmonaize_nccl PROPERTIES EXPORT_NAME nccl)
install(EXPORT harmonaize NAMESPACE harmonaize:: FILE harmonaizeTargets.cmake
        DESTINATION "${HARMONAIZE_PACKAGE_DIR}")

# From the folder of harmonaize.pc to the prefix, so that an installation can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
           OUTPUT_VARIABLE HARMONAIZE_PC_PREFIX)
configure_file("${PROJECT_SOURCE_DIR}/cmake/harmonaize.pc.in"
               "${PROJECT_BINARY_DIR}/packaging/harmonaize.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/packaging/harmonaize.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# systemd looks in lib/, never in lib/<architecture>/.
configure_file("${PROJECT_SOURCE_DIR}/daemon/service/harmonaized.service.in"
               "${PROJECT_BINARY_DIR}/packaging/harmonaized.service" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/packaging/harmonaized.service"
        DESTINATION "lib/systemd/system")
# The daemon's user, and the file that names it to clients; systemd-sysusers and systemd-tmpfiles make both.
foreach(file sysusers.conf tmpfiles.conf move-connections.conf)
  configure_file("${PROJECT_SOURCE_DIR}/daemon/service/${file}" "${PROJECT_BINARY_DIR}/packaging/${file}" COPYONLY)
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/packaging/sysusers.conf"
        DESTINATION "lib/sysusers.d" RENAME harmonaize.conf)
install(FILES "${PROJECT_BINARY_DIR}/packaging/tmpfiles.conf"
        DESTINATION "lib/tmpfiles.d" RENAME harmonaize.conf)
install(FILES "${PROJECT_BINARY_DIR}/packaging/move-connections.conf"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/harmonaize")

# What the programs have written of themselves (cli/CMakeLists.txt).
install(DIRECTORY "${HARMONAIZE_MADE_BY_PROGRAMS}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1"
        FILES_MATCHING PATTERN "*.1")
install(DIRECTORY "${HARMONAIZE_MADE_BY_PROGRAMS}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man8"
        FILES_MATCHING PATTERN "*.8")
install(FILES "${HARMONAIZE_MADE_BY_PROGRAMS}/harmonaize"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
# Debian's zsh looks in vendor-completions below /usr, and in site-functions below /usr/local.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(HARMONAIZE_ZSH_FOLDER "vendor-completions")
else()
  set(HARMONAIZE_ZSH_FOLDER "site-functions")
endif()
install(FILES "${HARMONAIZE_MADE_BY_PROGRAMS}/_harmonaize"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/${HARMONAIZE_ZSH_FOLDER}")

install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")

include(HarmonaizeChecks)
