// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/umpire.cpp: Umpire's QuickPool over device memory. It knows of no streams.
#include <umpire/Allocator.hpp>
#include <umpire/ResourceManager.hpp>
#include <umpire/strategy/QuickPool.hpp>
#include <umpire/strategy/ThreadSafeAllocator.hpp>

#include <atomic>

#include "contender.hpp"

namespace table {
namespace {

class Umpire {
  public:
    Umpire() {
        auto& manager = umpire::ResourceManager::getInstance();
        static std::atomic<int> number{0};
        const std::string name = "table" + std::to_string(number++);
        const auto pool = manager.makeAllocator<umpire::strategy::QuickPool>(name, manager.getAllocator("DEVICE"));
        pool_ = pool;
        allocator_ = manager.makeAllocator<umpire::strategy::ThreadSafeAllocator>(name + " of threads", pool);
    }
    ~Umpire() { pool_.release(); }
    Umpire(const Umpire&) = delete;
    Umpire& operator=(const Umpire&) = delete;

    void* allocate(std::size_t nbytes, int) { return allocator_.allocate(nbytes); }
    void deallocate(void* ptr, std::size_t, int) { allocator_.deallocate(ptr); }
    std::size_t peak_reserved() const { return 0; }

  private:
    umpire::Allocator pool_;
    umpire::Allocator allocator_;
};

}  // namespace

void add_umpire(Contenders& all) {
    all.push_back(contender("Umpire QuickPool", [] { return std::make_unique<Umpire>(); }));
}

}  // namespace table
