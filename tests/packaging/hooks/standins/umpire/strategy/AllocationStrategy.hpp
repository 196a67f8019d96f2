// SPDX-License-Identifier: MIT
// A stand-in for Umpire: the interface of its strategies, as far as a program implements it.
#pragma once

#include <cstddef>
#include <string>

namespace umpire {

class Allocator;

enum class Platform { undefined, host, cuda, hip };
struct MemoryResourceTraits {
    int id = 0;
};

namespace strategy {

class AllocationStrategy {
    friend class umpire::Allocator;

  public:
    AllocationStrategy(const std::string& name, int, AllocationStrategy* parent, const std::string&) noexcept
        : m_name(name), m_parent(parent) {}
    virtual ~AllocationStrategy() = default;
    AllocationStrategy(const AllocationStrategy&) = delete;
    AllocationStrategy& operator=(const AllocationStrategy&) = delete;

    virtual void release() {}
    virtual std::size_t getCurrentSize() const noexcept { return 0; }
    virtual std::size_t getActualSize() const noexcept { return 0; }
    virtual Platform getPlatform() noexcept = 0;
    virtual MemoryResourceTraits getTraits() const noexcept { return {}; }

  protected:
    std::string m_name;
    AllocationStrategy* m_parent;

  private:
    virtual void* allocate(std::size_t nbytes) = 0;
    virtual void deallocate(void* ptr, std::size_t nbytes = 0) = 0;
};

}  // namespace strategy
}  // namespace umpire
