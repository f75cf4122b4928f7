#include "harness/memory_probe.hpp"

#include "core/error.hpp"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

namespace shardproof {
namespace {

struct Count {
  int64_t live = 0;
  int64_t peak = 0;

  void add(int64_t bytes) {
    live += bytes;
    peak = std::max(peak, live);
  }
};

struct Block {
  int owner;
  int64_t bytes;
};

/// What is allocated now and by whom. A side table, not a header before each block: a block stays exactly what
/// the default allocator gave, so it may be freed by it after the probe is gone, and blocks from before the
/// probe, which the table does not know, may be freed through the probe.
class Ledger {
 public:
  void allocated(const void* data, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    forget(data);  // freed behind our back, and now handed out again
    const int owner = current_;
    blocks_[data] = {owner, bytes};
    owners_[owner].add(bytes);
    total_.add(bytes);
  }

  void freed(const void* data) {
    const std::lock_guard lock(mutex_);
    forget(data);
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    blocks_.clear();
    owners_.clear();
    total_ = {};
    current_ = -1;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    for (auto& [owner, count] : owners_) count.peak = count.live;
    total_.peak = total_.live;
  }

  void set_owner(int owner) { current_ = owner; }

  Count of(int owner) {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(owner);
    return found == owners_.end() ? Count{} : found->second;
  }

  Count total() {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  void forget(const void* data) {
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    owners_[found->second.owner].add(-found->second.bytes);
    total_.add(-found->second.bytes);
    blocks_.erase(found);
  }

  std::mutex mutex_;
  std::atomic<int> current_{-1};  // not thread_local: OpenMP workers allocate for the rank that runs
  std::unordered_map<const void*, Block> blocks_;
  std::map<int, Count> owners_;
  Count total_;
};

/// The process's CPU allocator is one, and deleters carry no state, so this is too. It is never destroyed:
/// storages may be freed after main.
Ledger& ledger() {
  static Ledger* const one = new Ledger;
  return *one;
}

std::atomic<bool> installed{false};
std::atomic<at::Allocator*> wrapped{nullptr};

void free_counted(void* data) {
  ledger().freed(data);
  wrapped.load()->raw_deleter()(data);
}

class CountingAllocator final : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    at::DataPtr block = wrapped.load()->allocate(bytes);
    if (block.get() == nullptr) return block;
    ledger().allocated(block.get(), static_cast<int64_t>(bytes));
    if (!block.compare_exchange_deleter(wrapped.load()->raw_deleter(), &free_counted))
      fail_runtime("memory", "the CPU allocator frees its blocks in a way that cannot be counted");
    return block;
  }
  /// Users of the raw interface (oneDNN) pass plain pointers, possibly older than the probe.
  at::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

CountingAllocator& counting() {
  static CountingAllocator* const one = new CountingAllocator;
  return *one;
}

}  // namespace

MemoryProbe::MemoryProbe() {
  if (installed.exchange(true)) fail_input("memory", "a memory probe is installed already; one at a time");
  if (wrapped.load() == nullptr) wrapped = c10::GetCPUAllocator();
  ledger().clear();
  c10::SetCPUAllocator(&counting());
}

MemoryProbe::~MemoryProbe() {
  c10::SetCPUAllocator(wrapped.load());
  installed = false;
}

void MemoryProbe::set_owner(int owner) { ledger().set_owner(owner); }
int64_t MemoryProbe::live(int owner) const { return ledger().of(owner).live; }
int64_t MemoryProbe::peak(int owner) const { return ledger().of(owner).peak; }
int64_t MemoryProbe::live() const { return ledger().total().live; }
int64_t MemoryProbe::peak() const { return ledger().total().peak; }
void MemoryProbe::reset_peak() { ledger().reset_peak(); }

}  // namespace shardproof
