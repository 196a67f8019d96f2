// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/umpire.cpp: Umpire's QuickPool, with the map of addresses that makeAllocator gives it
// unasked. It knows of no streams.
#include <umpire/Allocator.hpp>
#include <umpire/ResourceManager.hpp>
#include <umpire/strategy/QuickPool.hpp>
#include <umpire/strategy/ThreadSafeAllocator.hpp>

#include <atomic>

#include "contender.hpp"

namespace table {
namespace {

/// A QuickPool, which is for one thread; for several there is one behind a ThreadSafeAllocator, as Umpire's users have it.
class Umpire {
  public:
    Umpire(const char* memory, bool threads) {
        auto& manager = umpire::ResourceManager::getInstance();
        static std::atomic<int> number{0};
        const std::string name = "table" + std::to_string(number++);
        pool_ = manager.makeAllocator<umpire::strategy::QuickPool>(name, manager.getAllocator(memory));
        allocator_ = pool_;
        if (threads) {
            allocator_ = manager.makeAllocator<umpire::strategy::ThreadSafeAllocator>(name + " of threads", pool_);
        }
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

/// Locks where there are threads, and only there.
class QuickPool final : public Contender {
  public:
    QuickPool(const std::string& name, const char* memory)
        : Contender(name),
          alone_(contender(name, [memory] { return std::make_unique<Umpire>(memory, false); })),
          shared_(contender(name, [memory] { return std::make_unique<Umpire>(memory, true); })) {}

    double pair(std::size_t nbytes, int count) const override { return alone_->pair(nbytes, count); }
    double random_pair(std::size_t nbytes, int count) const override { return alone_->random_pair(nbytes, count); }
    Live live(std::size_t count, std::size_t least, std::size_t most) const override {
        return alone_->live(count, least, most);
    }
    double other_thread(std::size_t nbytes, int rounds) const override { return shared_->other_thread(nbytes, rounds); }
    double threads(int count, std::size_t nbytes, double seconds) const override {
        return shared_->threads(count, nbytes, seconds);
    }
    double stream_pairs(std::size_t nbytes, double seconds) const override {
        return shared_->stream_pairs(nbytes, seconds);
    }
    Latency mixed(std::size_t calls) const override { return alone_->mixed(calls); }

  private:
    std::unique_ptr<Contender> alone_;
    std::unique_ptr<Contender> shared_;
};

}  // namespace

void add_umpire(Contenders& all, const char* memory) {
    all.push_back(std::make_unique<QuickPool>("Umpire QuickPool", memory));
}

}  // namespace table
