// SPDX-License-Identifier: MIT
// portamem/detail/number_map.hpp: an ordered map from numbers or addresses, of which each value type costs little to
// compile.
//
// Each type of std::map that a header uses takes every program that includes it tens of milliseconds to compile. Here
// all maps share one type of tree, and a map of its own has only what depends on its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <utility>

#include "portamem/backend.hpp"
#include "portamem/detail/owned.hpp"

PORTAMEM_OPEN
namespace detail {

/// Is the tree of all these maps, and the map of numbers to numbers itself. The headers add entries by insert of a pair
/// alone: each further way costs about ten milliseconds.
using NumberTree = std::map<std::uintptr_t, std::uintptr_t>;

inline std::uintptr_t number_of(std::uintptr_t key) noexcept { return key; }
inline std::uintptr_t number_of(int key) noexcept { return static_cast<std::uintptr_t>(key); }
inline std::uintptr_t number_of(const void* key) noexcept { return reinterpret_cast<std::uintptr_t>(key); }

/// Has the members of std::map that portamem uses, with their meaning: an entry stays at its address while it is in the
/// map or in a node, and inserting a node throws nothing. It orders keys as unsigned numbers.
template <class Key, class Value>
class NumberMap {
  public:
    struct Entry {
        const Key first;
        Value second;
    };

    class iterator {
      public:
        explicit iterator(NumberTree::const_iterator at) noexcept : at_(at) {}
        Entry& operator*() const noexcept { return *entry(at_->second); }
        Entry* operator->() const noexcept { return entry(at_->second); }
        iterator& operator++() noexcept { return ++at_, *this; }
        iterator& operator--() noexcept { return --at_, *this; }
        bool operator==(const iterator& other) const noexcept { return at_ == other.at_; }
        bool operator!=(const iterator& other) const noexcept { return at_ != other.at_; }

      private:
        friend class NumberMap;
        NumberTree::const_iterator at_;
    };

    /// Holds an entry that is in no map, or nothing.
    class Node {
      public:
        Node() = default;
        Entry* operator->() const noexcept { return entry_.get(); }

      private:
        friend class NumberMap;
        Node(NumberTree::node_type slot, Entry* entry) noexcept : slot_(std::move(slot)), entry_(entry) {}
        NumberTree::node_type slot_;
        Owned<Entry> entry_;
    };

    NumberMap() = default;
    ~NumberMap() { clear(); }
    NumberMap(NumberMap&& other) noexcept { tree_.swap(other.tree_); }
    NumberMap& operator=(NumberMap&& other) noexcept {
        tree_.swap(other.tree_);
        return *this;
    }

    bool empty() const noexcept { return tree_.empty(); }
    std::size_t size() const noexcept { return tree_.size(); }
    iterator begin() const noexcept { return iterator(tree_.begin()); }
    iterator end() const noexcept { return iterator(tree_.end()); }
    iterator find(Key key) const noexcept { return iterator(tree_.find(number_of(key))); }
    iterator lower_bound(Key key) const noexcept { return iterator(tree_.lower_bound(number_of(key))); }
    iterator upper_bound(Key key) const noexcept { return iterator(tree_.upper_bound(number_of(key))); }

    /// Returns the entry of a key, and makes it with a value of nothing where there is none. Throws std::bad_alloc, and
    /// nothing has changed.
    iterator at_or_new(Key key) {
        const auto slot = tree_.insert({number_of(key), 0}).first;
        if (slot->second == 0) {
            try {
                slot->second = reinterpret_cast<std::uintptr_t>(new Entry{key, Value()});
            } catch (...) {
                tree_.erase(slot);
                throw;
            }
        }
        return iterator(slot);
    }
    Value& operator[](Key key) { return at_or_new(key)->second; }

    iterator erase(iterator at) {
        delete entry(at.at_->second);
        return iterator(tree_.erase(at.at_));
    }
    void erase(Key key) {
        const iterator found = find(key);
        if (found != end()) erase(found);
    }
    /// Takes an entry out of the map.
    Node extract(iterator at) {
        Entry* const taken = entry(at.at_->second);
        return Node(tree_.extract(at.at_), taken);
    }
    /// Puts the value of a node into the map. Where the map has the key, its own entry stays, and the node's is lost.
    void insert(Key key, Node node) noexcept {
        Entry* const former = node.entry_.release();
        Value value = std::move(former->second);
        former->~Entry();
        node.entry_ = Owned<Entry>(new (static_cast<void*>(former)) Entry{key, std::move(value)});
        node.slot_.key() = number_of(key);
        node.slot_.mapped() = reinterpret_cast<std::uintptr_t>(node.entry_.get());
        if (tree_.insert(std::move(node.slot_)).inserted) (void)node.entry_.release();
    }
    void clear() {
        for (const auto& slot : tree_) delete entry(slot.second);
        tree_.clear();
    }

  private:
    static Entry* entry(std::uintptr_t slot) noexcept { return reinterpret_cast<Entry*>(slot); }

    NumberTree tree_;
};

}  // namespace detail
PORTAMEM_CLOSE
