// SPDX-License-Identifier: MIT
// core/record/api.cpp: recorders as C functions.
#include <cstdio>
#include <exception>
#include <string>

#include "recorder.hpp"

namespace portamem::record {
namespace {

// In a forked child, threads that it does not have may hold the locks forever.
bool is_dead(const void* recorder) noexcept { return recorder == nullptr || portamem_forked() != 0; }

// A call for which there is no host memory is not recorded: the program goes on.
template <class Function>
void guarded(const void* recorder, Function&& function) noexcept {
    if (is_dead(recorder)) return;
    try {
        function();
    } catch (const std::exception&) {
        return;
    }
}

template <class Function>
int answered(const void* recorder, Function&& function) noexcept {
    if (is_dead(recorder)) return -1;
    try {
        return function();
    } catch (const std::exception&) {
        return -1;
    }
}

}  // namespace
}  // namespace portamem::record

using portamem::record::answered;
using portamem::record::guarded;
using portamem::record::is_dead;

portamem_recorder* portamem_recorder_open(unsigned flags, const char* log, char* why, size_t why_size) {
    if (why_size != 0) *why = '\0';
    try {
        return new portamem_recorder(flags, log == nullptr ? std::string() : std::string(log));
    } catch (const std::exception& e) {
        (void)std::snprintf(why, why_size, "%s", e.what());
        return nullptr;
    }
}

void portamem_recorder_close(portamem_recorder* recorder) {
    if (!is_dead(recorder)) delete recorder;
}

void portamem_recorder_end(portamem_recorder* recorder) {
    if (!is_dead(recorder) && recorder->log() != nullptr) recorder->log()->end();
}

int portamem_recorder_flush(portamem_recorder* recorder) {
    return is_dead(recorder) || recorder->log() == nullptr ? 0 : recorder->log()->flush();
}

const char* portamem_recorder_path(const portamem_recorder* recorder) {
    const portamem::record::Log* log = recorder == nullptr ? nullptr : recorder->log();
    return log == nullptr ? "" : log->path().c_str();
}

void portamem_record_begin(portamem_recorder* recorder, portamem_record_call* call) {
    if (!is_dead(recorder)) recorder->begin(*call);
}

void portamem_record_allocated(portamem_recorder* recorder, portamem_record_call* call) {
    guarded(recorder, [&] { recorder->allocated(*call); });
}

void portamem_record_refused(portamem_recorder* recorder, portamem_record_call* call, const char* why) {
    guarded(recorder, [&] { recorder->refused(*call, why); });
}

int portamem_record_free_begin(portamem_recorder* recorder, portamem_record_call* call) {
    call->is_taken = 0;
    int answer = PORTAMEM_FREE_KNOWN;
    guarded(recorder, [&] { answer = recorder->free_begin(*call); });
    return answer;
}

void portamem_record_freed(portamem_recorder* recorder, portamem_record_call* call, const char* why) {
    guarded(recorder, [&] { recorder->freed(*call, why); });
}

void portamem_record_used(portamem_recorder* recorder, portamem_record_call* call) {
    guarded(recorder, [&] { recorder->used(*call); });
}

void portamem_record_closed(portamem_recorder* recorder, const portamem_record_resource* resource) {
    guarded(recorder, [&] { recorder->closed(*resource); });
}

int portamem_recorder_counts(portamem_recorder* recorder, uint64_t scope, portamem_record_counts* counts) {
    return answered(recorder, [&] {
        const auto found = recorder->tallies().counts(scope);
        if (found) *counts = *found;
        return found ? 0 : -1;
    });
}

uint64_t portamem_recorder_scope_begin(portamem_recorder* recorder) {
    uint64_t scope = 0;
    guarded(recorder, [&] { scope = recorder->tallies().begin_scope(); });
    return scope;
}

int portamem_recorder_scope_end(portamem_recorder* recorder, uint64_t scope) {
    return answered(recorder, [&] { return recorder->tallies().end_scope(scope) ? 0 : -1; });
}

void portamem_recorder_reset_peak(portamem_recorder* recorder) {
    guarded(recorder, [&] { recorder->tallies().reset_peak(); });
}

int portamem_recorder_visit_counts(portamem_recorder* recorder, int by, portamem_counts_visitor visitor, void* self) {
    return answered(recorder, [&] {
        if (by == PORTAMEM_COUNTS_BY_TAG) {
            for (const auto& [tag, counts] : recorder->tallies().by_tag()) {
                visitor(self, portamem::record::tag_text(tag).c_str(), tag, &counts);
            }
        } else {
            for (const auto& [thread, counts] : recorder->tallies().by_thread()) {
                visitor(self, "", portamem::record::system_number(thread), &counts);
            }
        }
        return 0;
    });
}

int portamem_recorder_visit_live(portamem_recorder* recorder, portamem_live_visitor visitor, void* self) {
    return answered(recorder, [&] {
        for (const portamem::record::Live& each : recorder->live().all()) {
            const std::string site = each.site == 0 ? std::string() : portamem::order::describe(each.site);
            const portamem_record_live live{reinterpret_cast<void*>(each.address),
                                            each.nbytes,
                                            each.stream,
                                            each.stream_device,
                                            each.time,
                                            portamem::record::system_number(each.filed.thread),
                                            portamem::record::tag_text(each.filed.tag).c_str(),
                                            site.c_str()};
            visitor(self, &live);
        }
        return 0;
    });
}

size_t portamem_recorder_size_of(portamem_recorder* recorder, uint64_t resource, const void* ptr) {
    if (portamem_forked() != 0) return 0;
    return recorder->live().nbytes_of(resource, reinterpret_cast<std::uintptr_t>(ptr));
}

uint64_t portamem_tag_push(const char* name) {
    uint64_t number = 0;
    guarded(name, [&] { number = portamem::record::push_tag(name); });
    return number;
}

int portamem_tag_pop(uint64_t number) {
    switch (portamem::record::end_tag(number)) {
        case portamem::record::TagEnd::Innermost:
            return 0;
        case portamem::record::TagEnd::BeforeOthers:
            return 1;
        case portamem::record::TagEnd::NotOpen:
            break;
    }
    return -1;
}

const char* portamem_tag_current(void) {
    return portamem_forked() != 0 ? "" : portamem::record::tag_text(portamem::record::current_tag()).c_str();
}
