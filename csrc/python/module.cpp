// SPDX-License-Identifier: MIT
// python/module.cpp: the module's table of contents.
#include "bindings.hpp"

#include "callbacks.hpp"
#include "fast/arrays.hpp"
#include "fast/transfers.hpp"
#include "fastcall.hpp"
#include "hold.hpp"
#include "main_interpreter.hpp"
#include "own_class.hpp"
#include "refusals.hpp"
#include "words.hpp"

PORTAMEM_MODULE_OF_MAIN_INTERPRETER(PORTAMEM_MODULE, m) {
    using namespace portamem::python;
    refuse_other_interpreters();
    (void)portamem::detail::is_library_of_headers();  // throws an ImportError that says what to do
    m.doc() = "portamem's native API over one backend.";
    m.attr("backend") = portamem::rt::BackendName;
    m.attr("_c_api") = py::capsule(static_cast<const void*>(portamem_get_api()), PORTAMEM_CAPSULE_NAME);

    // Types name the module that users name, in Python's own messages too.
    m.attr("__module__") = public_module();
    drop_gil_in_destructors();
    report_lost_failures();
    hear_signals_in_waits();
    prepare_python_errors();
    register_errors(m);
    register_versions(m);
    register_capabilities(m);
    register_quirks(m);
    register_device(m);
    register_event(m);
    register_stream(m);
    register_buffer(m);
    register_view(m);
    register_resources(m);
    register_async_resource(m);
    register_virtual_resource(m);
    register_recommend(m);
    register_pool_resource(m);
    register_prefaulted_resource(m);
    register_adaptors(m);
    register_recording_adaptors(m);
    register_composed_resources(m);
    register_scope(m);
    register_arrays(m);
    register_registration(m);
    register_pointer_info(m);
    register_copy(m);
    register_transfers(m);
    register_order_check(m);
    register_library_hooks(m);
    give_each_resource_its_allocate();
    refuse_objects_without_init(m);
    say_in_words(m);
    refuse_in_words(m);
    keep_own_classes(m);
    py::delattr(m, "__module__");
    note_before_forks();
    stop_reaper_at_exit();
}
