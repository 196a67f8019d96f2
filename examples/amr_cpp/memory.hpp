// SPDX-License-Identifier: MIT
// amr_cpp/memory.hpp: arrays in memory of a resource, and what asking for that memory cost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <portamem/portamem.hpp>

/// A resource, with the time that its calls took and what was held after each of them. Any thread may allocate.
class Memory {
  public:
    /// After an allocation or a free: bytes in use, and bytes that the resource holds of the runtime's memory.
    struct Entry {
        std::size_t live, reserved;
    };

    /// below: what is between a pool and the runtime, and sees what the pool asks for. Null: each call of the resource
    /// is one of the runtime.
    Memory(std::shared_ptr<portamem::MemoryResource> resource, std::shared_ptr<portamem::StatisticsAdaptor> below);

    portamem::Buffer allocate(std::size_t nbytes, const std::shared_ptr<portamem::Stream>& stream);
    void give_back(portamem::Buffer& buffer) noexcept;

    const portamem::MemoryResource& resource() const { return *resource_; }
    std::uint64_t allocations() const { return allocations_; }
    /// In allocating and freeing, of all threads.
    double seconds() const { return static_cast<double>(nanoseconds_) * 1e-9; }
    /// How often the runtime was asked for memory or given some back.
    std::uint64_t runtime_calls() const;
    const std::vector<Entry>& series() const { return series_; }
    std::size_t peak_live() const;
    std::size_t peak_reserved() const;

  private:
    void note(std::size_t more, std::size_t less);

    const std::shared_ptr<portamem::MemoryResource> resource_;
    const std::shared_ptr<portamem::StatisticsAdaptor> below_;
    std::atomic<std::uint64_t> allocations_{0};
    std::atomic<std::int64_t> nanoseconds_{0};
    std::mutex mutex_;  // of what follows
    std::size_t live_ = 0;
    std::vector<Entry> series_;
};

/// An array in memory of its own, until it goes out of scope. T: what may be copied byte by byte.
template <class T>
class Array {
  public:
    /// The values are whatever the memory holds.
    Array(Memory& memory, std::size_t size, const std::shared_ptr<portamem::Stream>& stream)
        : memory_(&memory), buffer_(memory.allocate(size * sizeof(T), stream)) {}

    /// With values of the host. They are there on return.
    Array(Memory& memory, const std::vector<T>& values, const std::shared_ptr<portamem::Stream>& stream)
        : Array(memory, values.size(), stream) {
        auto* const from = const_cast<T*>(values.data());
        portamem::copy(portamem::Span::of(buffer_), portamem::Span::host(from, buffer_.nbytes()), stream);
        stream->synchronize();
    }

    ~Array() { close(); }
    Array(Array&& other) noexcept : memory_(other.memory_), buffer_(std::move(other.buffer_)) {}
    Array& operator=(Array&& other) noexcept {
        close();
        memory_ = other.memory_;
        buffer_ = std::move(other.buffer_);
        return *this;
    }

    T* data() const { return static_cast<T*>(buffer_.ptr()); }

    /// A copy on the host, behind the work on the stream.
    std::vector<T> get() const {
        const auto stream = buffer_.stream();
        std::vector<T> values(buffer_.nbytes() / sizeof(T));
        portamem::copy(portamem::Span::host(values.data(), buffer_.nbytes()), portamem::Span::of(buffer_), stream);
        stream->synchronize();
        return values;
    }

  private:
    void close() noexcept {
        if (!buffer_.is_closed()) memory_->give_back(buffer_);
    }

    Memory* memory_;
    portamem::Buffer buffer_;
};
