#ifndef _GNU_SOURCE
#define _GNU_SOURCE // RTLD_DEFAULT, dladdr
#endif

#include "driversym.h"

#include <dlfcn.h>
#include <stddef.h>

static const char here_marker;

void *driversym_find(const char *name, int *foreign) {
	Dl_info here, there;
	void *address = dlsym(RTLD_DEFAULT, name);
	*foreign = address != NULL && (!dladdr(&here_marker, &here) || !dladdr(address, &there) ||
									  here.dli_fbase != there.dli_fbase);
	return address;
}
