#include "plugins/torch/source/coalesced_work.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

#include "plugins/torch/source/errors.h"

namespace harmonaize_torch {

CoalescedWork::CoalescedWork(int rank, std::vector<c10::intrusive_ptr<Operation>> operations)
    : Work(rank, c10d::OpType::UNKNOWN), operations_(std::move(operations)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(operations_.begin(), operations_.end(),
                     [](const auto& one) { return one->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(operations_.begin(), operations_.end(),
                     [](const auto& one) { return one->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& one : operations_) {
    if (const std::exception_ptr error = one->exception()) return error;
  }
  return nullptr;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& one : operations_) {
    const std::vector<at::Tensor> tensors = one->result();
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  return all;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& one : operations_) one->wait(timeout);
  return true;
}

void CoalescedWork::abort() {
  for (const auto& one : operations_) one->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::AnyType::get()));
  for (const auto& one : operations_) futures.push_back(one->getFuture());
  return c10::collectAll(futures);
}

void Coalescing::Start() {
  const std::lock_guard lock(mutex_);
  begun_.emplace();
}

void Coalescing::Note(const c10::intrusive_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (begun_) begun_->push_back(operation);
}

c10::intrusive_ptr<c10d::Work> Coalescing::End(int rank) {
  const std::lock_guard lock(mutex_);
  if (!begun_) ThrowError("endCoalescing was called without startCoalescing");
  auto operations = *std::exchange(begun_, std::nullopt);
  return c10::make_intrusive<CoalescedWork>(rank, std::move(operations));
}

}  // namespace harmonaize_torch
