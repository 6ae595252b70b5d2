// The public headers in C, without CUDA whatever is installed.
#include "include/harmonaize.h"

size_t ShimHeaderInC(ncclConfig_t* config, ncclSimInfo_t* simulation);

size_t ShimHeaderInC(ncclConfig_t* config, ncclSimInfo_t* simulation) {
  const ncclConfig_t initial_config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t initial_simulation = NCCL_SIM_INFO_INITIALIZER;
  *config = initial_config;
  *simulation = initial_simulation;
  return sizeof *config + sizeof *simulation;
}
