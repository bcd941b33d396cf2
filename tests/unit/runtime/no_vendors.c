/* no_vendors.c: vendors without devices, for programs of a few parts of the runtime. */
#include "core/vendors.h"

#include <stddef.h>

#define NONE(ID, vendor) const struct gb_vendor_facts gb_##vendor##_vendor = {.name = #vendor};
GB_VENDORS(NONE)
