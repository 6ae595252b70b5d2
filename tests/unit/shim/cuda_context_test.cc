#include "shim/cuda_context.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace harmonaize::shim {
namespace {

/// The stand-in for CUDA's driver, once it is loaded.
class Driver {
 public:
  Driver() : handle_(dlopen(STAND_IN_CUDA, RTLD_NOW)) { EXPECT_NE(handle_, nullptr) << dlerror(); }
  void SetContext(void* context) { Find<void(void*)>("StandInSetContext")(context); }
  void SetPrimary(bool is_active) { Find<void(int)>("StandInSetPrimary")(is_active ? 1 : 0); }
  void FailNext(int error) { Find<void(int)>("StandInFailNext")(error); }

 private:
  template <typename Function>
  Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  void* handle_;
};

TEST(CudaContext, IsUsableWhereAThreadHasOneOrADeviceIsInUse) {
  EXPECT_FALSE(CudaContext::OfThisThread().usable()) << "no driver is loaded yet";
  Driver driver;
  EXPECT_FALSE(CudaContext::OfThisThread().usable());
  int place = 0;
  driver.SetContext(&place);
  EXPECT_TRUE(CudaContext::OfThisThread().usable());
  std::thread([] { EXPECT_FALSE(CudaContext::OfThisThread().usable()); }).join();
  driver.SetContext(nullptr);
  driver.SetPrimary(true);
  EXPECT_TRUE(CudaContext::OfThisThread().usable());
  driver.SetPrimary(false);
}

TEST(CudaContext, IsMadeCurrentAgainInAnyThread) {
  Driver driver;
  int place = 0;
  driver.SetContext(&place);
  const CudaContext context = CudaContext::OfThisThread();
  std::thread([&] {
    EXPECT_TRUE(context.MakeCurrent().ok());
    EXPECT_TRUE(CudaContext::OfThisThread().usable());
    driver.FailNext(201);  // of this thread
    const Status refused = context.MakeCurrent();
    EXPECT_EQ(refused.code(), Code::kSystemError);
    EXPECT_NE(refused.message().find("error 201"), std::string::npos) << refused.message();
  }).join();
  driver.SetContext(nullptr);
  // None is left as it is.
  EXPECT_TRUE(CudaContext::OfThisThread().MakeCurrent().ok());
}

}  // namespace
}  // namespace harmonaize::shim
