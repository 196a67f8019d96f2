// SPDX-License-Identifier: MIT
// core/record/tallies.hpp: counts of allocations: in all, and by resource, tag and thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "portamem/abi/record_api.h"
#include "thread.hpp"

namespace portamem::record {

using Counts = portamem_record_counts;

/// The keys that a count is filed under.
struct Filed {
    std::uint64_t resource = 0;
    TagId tag = 0;
    ThreadNumber thread = 0;
};

/// Counts under one lock, held for a few additions: the time for which threads wait for each other does not grow with
/// the number of counts.
class Tallies {
  public:
    void allocated(const portamem_record_resource& resource, const Filed& under, std::size_t nbytes);
    void freed(const Filed& under, std::size_t nbytes);
    /// Takes back a free that was counted but did not happen. It does not count as an allocation.
    void not_freed(const Filed& under, std::size_t nbytes);
    void failed(const portamem_record_resource& resource, const Filed& under);

    std::uint64_t begin_scope();
    bool end_scope(std::uint64_t scope);
    /// Returns the counts of a scope, or of everything for 0; nothing for a scope that is not open.
    std::optional<Counts> counts(std::uint64_t scope) const;
    void reset_peak();

    std::vector<std::pair<TagId, Counts>> by_tag() const;
    std::vector<std::pair<ThreadNumber, Counts>> by_thread() const;
    /// Returns the resources in the order in which they were made.
    std::vector<std::pair<portamem_record_resource, Counts>> by_resource() const;

  private:
    struct OfResource {
        portamem_record_resource resource{};
        Counts counts{};
    };

    template <class Change>
    void change(const Filed& under, Change&& change, const portamem_record_resource* resource = nullptr);

    mutable std::mutex mutex_;  ///< a leaf
    Counts all_{};
    std::uint64_t last_scope_ = 0;
    std::map<std::uint64_t, Counts> scopes_;
    std::map<std::uint64_t, OfResource> resources_;
    std::unordered_map<TagId, Counts> tags_;
    std::unordered_map<ThreadNumber, Counts> threads_;
};

}  // namespace portamem::record
