#include "daemon/sizing/host_places.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace harmonaize::daemon {
namespace {

TEST(HostPlaces, AreOneForEachGpu) {
  char name[] = "/tmp/harmonaize-places-test-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  EXPECT_EQ(PlacesOfHost(6, folder), 6) << "one for each processor where there is none";
  for (const std::string device :
       {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia12", "nvidia", "nvidia-modeset"}) {
    std::ofstream(folder / device) << "\n";
  }
  EXPECT_EQ(PlacesOfHost(6, folder), 3);
  EXPECT_EQ(PlacesOfHost(6, folder / "missing"), 6);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace harmonaize::daemon
