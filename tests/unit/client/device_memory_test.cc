#include "src/client/memory/device_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace harmonaize {
namespace {

const void* Address(unsigned long long number) {
  return reinterpret_cast<const void*>(number);
}

TEST(DeviceMemory, IsWhatTheDriverSaysOnceItIsLoaded) {
  int here = 0;
  LookForDeviceDriver();
  EXPECT_FALSE(IsDeviceMemory(&here));
  EXPECT_FALSE(IsDeviceMemory(Address(0x700000000000))) << "no driver is loaded yet";
  ASSERT_NE(dlopen(FAKE_CUDA_DRIVER, RTLD_NOW), nullptr) << dlerror();
  LookForDeviceDriver();
  EXPECT_TRUE(IsDeviceMemory(Address(0x700000000000)));
  EXPECT_FALSE(IsDeviceMemory(Address(0x710000000000))) << "managed memory";
  EXPECT_FALSE(IsDeviceMemory(Address(0x1000)));
}

}  // namespace
}  // namespace harmonaize
