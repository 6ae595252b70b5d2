# Install rules of what no single folder owns.
install(FILES "${PROJECT_SOURCE_DIR}/include/nccl.h" "${PROJECT_SOURCE_DIR}/include/harmonaize.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
