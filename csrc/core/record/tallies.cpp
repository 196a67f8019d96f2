// SPDX-License-Identifier: MIT
// core/record/tallies.cpp: counting.
#include "tallies.hpp"

#include <algorithm>

namespace portamem::record {
namespace {

void add(Counts& counts, std::int64_t nbytes, std::int64_t count) {
    counts.current_bytes += nbytes;
    counts.current_count += count;
    counts.peak_bytes = std::max(counts.peak_bytes, counts.current_bytes);
    counts.peak_count = std::max(counts.peak_count, counts.current_count);
}

template <class Map>
auto rows_of(std::mutex& mutex, const Map& map) {
    const std::lock_guard<std::mutex> lock(mutex);
    return std::vector<std::pair<typename Map::key_type, Counts>>(map.begin(), map.end());
}

}  // namespace

// Finds all rows before it changes any of them: if there is no host memory for a new row, nothing is counted.
template <class Change>
void Tallies::change(const Filed& under, Change&& change, const portamem_record_resource* resource) {
    const std::lock_guard<std::mutex> lock(mutex_);
    OfResource& of = resources_[under.resource];
    if (resource != nullptr) of.resource = *resource;
    Counts* rows[] = {&of.counts, &tags_[under.tag], &threads_[under.thread]};
    change(all_);
    for (Counts* row : rows) change(*row);
    for (auto& [number, counts] : scopes_) change(counts);
}

void Tallies::allocated(const portamem_record_resource& resource, const Filed& under, std::size_t nbytes) {
    const auto bytes = static_cast<std::int64_t>(nbytes);
    const auto count = [bytes](Counts& counts) {
        add(counts, bytes, bytes == 0 ? 0 : 1);
        counts.total_bytes += bytes;
        ++counts.total_count;
    };
    change(under, count, &resource);
}

void Tallies::freed(const Filed& under, std::size_t nbytes) {
    change(under, [bytes = static_cast<std::int64_t>(nbytes)](Counts& counts) { add(counts, -bytes, -1); });
}

void Tallies::not_freed(const Filed& under, std::size_t nbytes) {
    change(under, [bytes = static_cast<std::int64_t>(nbytes)](Counts& counts) { add(counts, bytes, 1); });
}

void Tallies::failed(const portamem_record_resource& resource, const Filed& under) {
    change(
        under, [](Counts& counts) { ++counts.failed_count; }, &resource);
}

std::uint64_t Tallies::begin_scope() {
    const std::lock_guard<std::mutex> lock(mutex_);
    scopes_.emplace(last_scope_ + 1, Counts{});
    return ++last_scope_;
}

bool Tallies::end_scope(std::uint64_t scope) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return scopes_.erase(scope) != 0;
}

std::optional<Counts> Tallies::counts(std::uint64_t scope) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (scope == 0) return all_;
    const auto found = scopes_.find(scope);
    if (found == scopes_.end()) return std::nullopt;
    return found->second;
}

void Tallies::reset_peak() {
    const auto reset = [](Counts& counts) {
        counts.peak_bytes = counts.current_bytes;
        counts.peak_count = counts.current_count;
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    reset(all_);
    for (auto& [key, counts] : scopes_) reset(counts);
    for (auto& [key, of] : resources_) reset(of.counts);
    for (auto& [key, counts] : tags_) reset(counts);
    for (auto& [key, counts] : threads_) reset(counts);
}

std::vector<std::pair<TagId, Counts>> Tallies::by_tag() const { return rows_of(mutex_, tags_); }
std::vector<std::pair<ThreadNumber, Counts>> Tallies::by_thread() const { return rows_of(mutex_, threads_); }

std::vector<std::pair<portamem_record_resource, Counts>> Tallies::by_resource() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::pair<portamem_record_resource, Counts>> rows;
    for (const auto& [identity, of] : resources_) rows.emplace_back(of.resource, of.counts);
    return rows;
}

}  // namespace portamem::record
