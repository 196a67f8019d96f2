// SPDX-License-Identifier: MIT
// portamem/mr/detail/recording_adaptor.hpp: adaptors that record what goes through them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "portamem/mr/resource_adaptor.hpp"

PORTAMEM_OPEN

/// Stands over another resource, with a recorder of its own. It takes back only what it gave: another address or
/// another size throws std::invalid_argument, and the memory is still allocated.
class RecordingAdaptor : public ResourceAdaptor {
  public:
    ~RecordingAdaptor() override { portamem_recorder_close(recorder_); }

  protected:
    /// flags and log are as for portamem_recorder_open. Throws std::invalid_argument where the log cannot be written.
    RecordingAdaptor(std::shared_ptr<MemoryResource> upstream, unsigned flags, const std::string& log = {})
        : ResourceAdaptor(std::move(upstream)), recorder_(open(flags, log)) {}

    portamem_recorder* recorder() const noexcept { return recorder_; }

    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        return recorded(recorder_, *stream, nullptr, nbytes, options.alignment).allocate([&] {
            return ResourceAdaptor::take(nbytes, stream, options);
        });
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        recorded(recorder_, *stream, ptr, nbytes, 0)
            .deallocate([&] { ResourceAdaptor::give_back(ptr, nbytes, stream); }, true);
    }
    portamem_address do_find(const void* ptr) const override {
        const std::size_t nbytes = portamem_recorder_size_of(recorder_, identity(), ptr);
        return nbytes == 0 ? portamem_address{} : portamem_address{PORTAMEM_ADDRESS_BLOCK, ptr, nbytes};
    }
    void do_note_use(void* ptr, std::size_t nbytes, const Stream& stream) override {
        recorded(recorder_, stream, ptr, nbytes, 0).use();
        ResourceAdaptor::do_note_use(ptr, nbytes, stream);
    }
    void at_close() override {
        const auto resource = record_of();
        portamem_record_closed(recorder_, &resource);
    }

  private:
    static portamem_recorder* open(unsigned flags, const std::string& log) {
        refuse_forked();
        char why[1024] = "";
        portamem_recorder* opened = portamem_recorder_open(flags, log.empty() ? nullptr : log.c_str(), why, sizeof why);
        if (opened == nullptr) throw std::invalid_argument(why);
        return opened;
    }

    portamem_recorder* const recorder_;
};

PORTAMEM_CLOSE
