// The Python module harmonaize_torch._native.

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <string>
#include <utility>

#include "plugins/torch/source/backend.h"
#include "plugins/torch/source/library.h"
#include "plugins/torch/source/progress.h"
#include "plugins/torch/source/registered_memory.h"

namespace harmonaize_torch {
namespace {

namespace py = pybind11;

c10::intrusive_ptr<BackendBase> CreateBackend(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int size, int64_t timeout_ms,
                                              const std::string& name) {
  HANDLE_TH_ERRORS
  const py::gil_scoped_release release;
  return Backend::Create({store, rank, size, std::chrono::milliseconds(timeout_ms), name});
  END_HANDLE_TH_ERRORS_PYBIND
}

c10::intrusive_ptr<BackendBase> CreateUnformedBackend(const c10::intrusive_ptr<c10d::Store>& store,
                                                      int rank, int size, int64_t timeout_ms,
                                                      const std::string& name) {
  HANDLE_TH_ERRORS
  return Backend::CreateUnformed({store, rank, size, std::chrono::milliseconds(timeout_ms), name});
  END_HANDLE_TH_ERRORS_PYBIND
}

std::vector<int> LostRanks(const c10::intrusive_ptr<BackendBase>& group) {
  HANDLE_TH_ERRORS
  const auto* const backend = dynamic_cast<const Backend*>(group.get());
  TORCH_CHECK_VALUE(backend != nullptr, "lost_ranks: Harmonaize is not the backend of this group");
  const py::gil_scoped_release release;
  return backend->LostRanks();
  END_HANDLE_TH_ERRORS_PYBIND
}

at::Tensor Allocate(int64_t bytes) {
  HANDLE_TH_ERRORS
  return RegisteredTensor(bytes, at::TensorOptions().dtype(at::kByte));
  END_HANDLE_TH_ERRORS_PYBIND
}

void StopProgress() {
  const py::gil_scoped_release release;
  Progress::Get().Stop();
}

std::string LibraryPath() {
  return Library::Get().path();
}
std::string LibraryVersion() {
  return Library::Get().hzGetVersion();
}

}  // namespace
}  // namespace harmonaize_torch

PYBIND11_MODULE(_native, module) {
  namespace py = pybind11;
  using namespace harmonaize_torch;  // NOLINT(google-build-using-namespace)
  module.doc() = "Harmonaize's backend for torch.distributed; see harmonaize_torch.";
  module.def("create_backend", &CreateBackend, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout_ms"), py::arg("name"));
  module.def("create_unformed_backend", &CreateUnformedBackend, py::arg("store"), py::arg("rank"),
             py::arg("size"), py::arg("timeout_ms"), py::arg("name"));
  module.def("lost_ranks", &LostRanks, py::arg("group"));
  module.def("allocate", &Allocate, py::arg("bytes"));
  module.def("stop_progress", &StopProgress);
  module.def("library_path", &LibraryPath);
  module.def("library_version", &LibraryVersion);
}
