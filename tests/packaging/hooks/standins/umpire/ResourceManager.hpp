// SPDX-License-Identifier: MIT
// A stand-in for Umpire: a manager that makes strategies and keeps them until after main, and what calls them.
#pragma once

#include <umpire/strategy/AllocationStrategy.hpp>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace umpire {

class out_of_memory_error : public std::runtime_error {
  public:
    out_of_memory_error(const std::string& text, const std::string&, int) : std::runtime_error(text) {}
};

/// Calls a strategy, and tells it no size, as an allocator does that is not tracked.
class Allocator {
  public:
    explicit Allocator(strategy::AllocationStrategy* strategy) noexcept : strategy_(strategy) {}
    void* allocate(std::size_t nbytes) { return strategy_->allocate(nbytes); }
    void deallocate(void* ptr) {
        if (ptr != nullptr) strategy_->deallocate(ptr);
    }
    void release() { strategy_->release(); }
    std::size_t getCurrentSize() const noexcept { return strategy_->getCurrentSize(); }
    std::size_t getActualSize() const noexcept { return strategy_->getActualSize(); }
    Platform getPlatform() noexcept { return strategy_->getPlatform(); }
    strategy::AllocationStrategy* getAllocationStrategy() noexcept { return strategy_; }

  private:
    strategy::AllocationStrategy* strategy_;
};

class ResourceManager {
  public:
    static ResourceManager& getInstance() {
        static ResourceManager manager;
        return manager;
    }
    Allocator getAllocator(const std::string& name) { return Allocator(all_.at(name).get()); }

    template <class Strategy, class... Arguments>
    Allocator makeAllocator(const std::string& name, Arguments&&... arguments) {
        all_[name] =
            std::make_unique<Strategy>(name, static_cast<int>(all_.size()), std::forward<Arguments>(arguments)...);
        return getAllocator(name);
    }

  private:
    class Device final : public strategy::AllocationStrategy {
      public:
        Device() : AllocationStrategy("DEVICE", 0, nullptr, "Device") {}
        Platform getPlatform() noexcept override { return Platform::cuda; }

      private:
        void* allocate(std::size_t) override { return nullptr; }
        void deallocate(void*, std::size_t) override {}
    };

    ResourceManager() { all_["DEVICE"] = std::make_unique<Device>(); }

    std::map<std::string, std::unique_ptr<strategy::AllocationStrategy>> all_;
};

}  // namespace umpire
