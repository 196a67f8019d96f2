// SPDX-License-Identifier: MIT
// portamem/detail/light_vector.hpp: a vector, of which each element type costs little to compile.
//
// A std::vector costs every program that includes the headers about twenty milliseconds of compile time for each
// element type, and the headers have a score of those. The functions that programs call return std::vector.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "portamem/backend.hpp"

PORTAMEM_OPEN
namespace detail {

/// Has the members of std::vector that portamem uses, with their meaning and their guarantees: where one throws
/// std::bad_alloc, nothing has changed, and a value that was to be moved in is still the caller's. Moving an element
/// throws nothing.
template <class T>
class LightVector {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "the elements need memory of another alignment");

  public:
    using iterator = T*;
    using const_iterator = const T*;

    LightVector() noexcept = default;
    LightVector(std::size_t count, const T& value) : LightVector() {
        reserve(count);
        while (size_ != count) push_back(value);
    }
    LightVector(const LightVector& other) : LightVector() {
        reserve(other.size_);
        append(other);
    }
    LightVector(LightVector&& other) noexcept { swap(other); }
    LightVector& operator=(LightVector other) noexcept {
        swap(other);
        return *this;
    }
    ~LightVector() {
        clear();
        ::operator delete(data_);
    }

    bool empty() const noexcept { return size_ == 0; }
    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return capacity_; }
    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    T* begin() noexcept { return data_; }
    T* end() noexcept { return data_ + size_; }
    const T* begin() const noexcept { return data_; }
    const T* end() const noexcept { return data_ + size_; }
    T& operator[](std::size_t i) noexcept { return data_[i]; }
    const T& operator[](std::size_t i) const noexcept { return data_[i]; }
    T& front() noexcept { return data_[0]; }
    const T& front() const noexcept { return data_[0]; }
    T& back() noexcept { return data_[size_ - 1]; }
    const T& back() const noexcept { return data_[size_ - 1]; }

    void reserve(std::size_t count) {
        if (count > capacity_) move_to(count);
    }
    void push_back(const T& value) { push_back(T(value)); }  // a copy: the value may be an element of this vector
    void push_back(T&& value) {
        if (size_ == capacity_) move_to(capacity_ == 0 ? 4 : 2 * capacity_);
        new (static_cast<void*>(data_ + size_)) T(std::move(value));
        ++size_;
    }
    /// Appends copies of another vector's elements. Nothing is appended where there is no host memory for them.
    void append(const LightVector& other) {
        const std::size_t count = other.size_;
        if (size_ + count > capacity_) move_to(size_ + count > 2 * capacity_ ? size_ + count : 2 * capacity_);
        for (std::size_t i = 0; i < count; ++i) push_back(other.data_[i]);
    }

    void pop_back() noexcept { data_[--size_].~T(); }
    T* erase(T* at) noexcept { return erase(at, at + 1); }
    T* erase(T* from, T* to) noexcept {
        if (from == to) return from;
        T* kept = from;
        for (T* next = to; next != end(); ++next, ++kept) *kept = std::move(*next);
        while (end() != kept) pop_back();
        return from;
    }
    /// Erases the elements that meet a condition. It costs less to compile than std::remove_if does.
    template <class Condition>
    void erase_if(const Condition& condition) {
        T* kept = begin();
        for (T& each : *this) {
            if (condition(each)) continue;
            if (kept != &each) *kept = std::move(each);
            ++kept;
        }
        erase(kept, end());
    }
    /// Returns whether any element meets a condition, as std::any_of does, which costs more to compile.
    template <class Condition>
    bool any_of(const Condition& condition) const {
        for (const T& each : *this) {
            if (condition(each)) return true;
        }
        return false;
    }
    void clear() noexcept {
        for (T& each : *this) each.~T();
        size_ = 0;
    }
    void swap(LightVector& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

  private:
    void move_to(std::size_t capacity) {
        static_assert(std::is_nothrow_move_constructible_v<T>, "elements are moved where nothing may fail");
        if (capacity > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
        T* const data = static_cast<T*>(::operator new(capacity * sizeof(T)));
        for (std::size_t i = 0; i < size_; ++i) {
            new (static_cast<void*>(data + i)) T(std::move(data_[i]));
            data_[i].~T();
        }
        ::operator delete(data_);
        data_ = data;
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace detail
PORTAMEM_CLOSE
