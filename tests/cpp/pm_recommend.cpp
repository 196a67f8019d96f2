// SPDX-License-Identifier: MIT
// tests/cpp/pm_recommend.cpp: which kind of memory a device's capabilities speak for.
#include "pm_support.hpp"

namespace {

using pm::Purpose;
using pm::ResourceKind;

constexpr Purpose kPurposes[] = {Purpose::Kernels, Purpose::Shared, Purpose::Transfer, Purpose::Larger};

std::vector<ResourceKind> kinds_for(const pm::Capabilities& device) {
    std::vector<ResourceKind> kinds;
    for (const Purpose purpose : kPurposes) {
        const pm::Recommendation found = pm::recommend(device, purpose);
        CHECK(std::string(found.why).size() > 20);
        kinds.push_back(found.kind);
    }
    return kinds;
}

using Kinds = std::vector<ResourceKind>;

pm::Capabilities card() {
    pm::Capabilities device;
    device.managed_mode = pm::ManagedMode::Migrating;
    device.pageable_memory_access = false;
    device.uses_host_page_tables = false;
    device.integrated = false;
    return device;
}

}  // namespace

TEST_CASE("pm recommend: a card with memory of its own") {
    const pm::Capabilities device = card();
    CHECK(kinds_for(device) ==
          Kinds{ResourceKind::Device, ResourceKind::Managed, ResourceKind::Pinned, ResourceKind::Managed});
}

TEST_CASE("pm recommend: a card whose managed memory does not move, or that says nothing of itself") {
    pm::Capabilities device = card();
    const Kinds expected{ResourceKind::Device, ResourceKind::Pinned, ResourceKind::Pinned, ResourceKind::Pinned};
    device.managed_mode = pm::ManagedMode::HostResident;
    CHECK(kinds_for(device) == expected);
    CHECK(kinds_for(pm::Capabilities()) == expected);
}

TEST_CASE("pm recommend: one memory for host and device") {
    pm::Capabilities device = card();
    device.managed_mode = pm::ManagedMode::HostResident;
    device.integrated = device.direct_host_access = device.pageable_memory_access = device.uses_host_page_tables = true;
    CHECK(kinds_for(device) ==
          Kinds{ResourceKind::Device, ResourceKind::Device, ResourceKind::System, ResourceKind::System});
    device.uses_host_page_tables = false;
    CHECK(kinds_for(device) ==
          Kinds{ResourceKind::Device, ResourceKind::Device, ResourceKind::System, ResourceKind::Pinned});
}

TEST_CASE("pm recommend: a node whose device reads the host's page tables") {
    pm::Capabilities device = card();
    device.pageable_memory_access = device.uses_host_page_tables = true;
    CHECK(kinds_for(device) ==
          Kinds{ResourceKind::Device, ResourceKind::System, ResourceKind::System, ResourceKind::System});
}

TEST_CASE("pm recommend: a resource of the recommended kind is made, and serves") {
    if (no_device()) return;
    for (const Purpose purpose : kPurposes) {
        const pm::Recommendation found = pm::recommend(pm::query_capabilities(0), purpose);
        CAPTURE(std::string(pm::to_string(found.kind)));
        const Resource resource = found.make(0);
        CHECK(resource->kind() == found.kind);
        const pm::Buffer buffer(resource, 1000);
        put(buffer, 1);
        CHECK(get(buffer) == pattern(1000, 1));
    }
}
