#include "shim/stock_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace harmonaize::shim {
namespace {

namespace fs = std::filesystem;

TEST(StockLibrary, AFolderOfPackagesEndsWithItsName) {
  EXPECT_EQ(PackageFolderOf("/venv/lib/python3.11/site-packages/torch/lib/libc10.so"),
            "/venv/lib/python3.11/site-packages");
  EXPECT_EQ(PackageFolderOf("/usr/lib/python3/dist-packages/cupy/core.so"),
            "/usr/lib/python3/dist-packages");
  EXPECT_EQ(PackageFolderOf("/usr/lib/x86_64-linux-gnu/libc.so.6"), "");
  EXPECT_EQ(PackageFolderOf("/tmp/site-packages"), "");
  EXPECT_EQ(PackageFolderOf(""), "");
}

TEST(StockLibrary, ANamedFileIsTheOnlyCandidate) {
  setenv("HARMONAIZE_NCCL_LIBRARY", "/named/libnccl.so.2", 1);
  setenv("LD_LIBRARY_PATH", "/first", 1);
  EXPECT_EQ(StockCandidates(), std::vector<std::string>{"/named/libnccl.so.2"});
  unsetenv("HARMONAIZE_NCCL_LIBRARY");
  unsetenv("LD_LIBRARY_PATH");
}

TEST(StockLibrary, TheLoadersPathComesBeforePythonAndPythonBeforeTheSystem) {
  const fs::path folder = fs::path(::testing::TempDir()) /
                          ("stock_library." + std::to_string(getpid())) / "site-packages";
  fs::create_directories(folder / "some");
  fs::copy_file(SOME_LIBRARY, folder / "some" / "native.so");
  setenv("LD_LIBRARY_PATH", "/first::/second", 1);
  const std::string in_wheel = (folder / "nvidia/nccl/lib/libnccl.so.2").string();
  const auto place = [&](const std::string& file) {
    const std::vector<std::string> all = StockCandidates();
    return std::find(all.begin(), all.end(), file) - all.begin();
  };
  const auto candidates = static_cast<std::ptrdiff_t>(StockCandidates().size());
  EXPECT_EQ(place(in_wheel), candidates) << "nothing of it is loaded yet";
  ASSERT_NE(dlopen((folder / "some" / "native.so").c_str(), RTLD_NOW), nullptr) << dlerror();
  EXPECT_EQ(place("/first/libnccl.so.2"), 0);
  EXPECT_EQ(place("/second/libnccl.so.2"), 1);
  EXPECT_EQ(place(in_wheel), 2);
  EXPECT_EQ(place("/usr/local/cuda/lib64/libnccl.so.2"), 3);
  unsetenv("LD_LIBRARY_PATH");
  fs::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace harmonaize::shim
