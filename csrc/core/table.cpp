// SPDX-License-Identifier: MIT
// core/table.cpp: the functions of c_api.h as the table that the Python capsule carries.
#include "portamem/c_api.h"

const portamem_api* portamem_get_api(void) {
    static const portamem_api table = {
        PORTAMEM_ABI_VERSION,
        sizeof(portamem_api),
        portamem_version,
        portamem_forked,
        portamem_new_identity,
        portamem_account,
        portamem_held,
        portamem_scope_push,
        portamem_scope_pop,
        portamem_scope_current,
        portamem_offer_default_resource,
        portamem_default_resource,
        portamem_scope_end,
        portamem_set_default_resource,
        portamem_default_changes,
        portamem_current_resource,
        portamem_resource_of,
        portamem_size_of,
        portamem_deallocate,
    };
    return &table;
}
