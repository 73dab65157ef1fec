// Loaded with LD_PRELOAD: fsync and fdatasync of a file whose name ends in -wal
// fail with EIO once the file named by FAIL_SYNC_WHEN exists.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int must_fail(int fd) {
	const char *trigger = getenv("FAIL_SYNC_WHEN");
	char link[64], name[4096];
	ssize_t n;

	if (trigger == NULL || access(trigger, F_OK) != 0) return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof name);
	return n >= 4 && memcmp(name + n - 4, "-wal", 4) == 0;
}

static int sync_or_fail(const char *function, int fd) {
	int (*real)(int);

	if (must_fail(fd)) {
		errno = EIO;
		return -1;
	}
	real = (int (*)(int))dlsym(RTLD_NEXT, function);
	return real(fd);
}

int fsync(int fd) { return sync_or_fail("fsync", fd); }
int fdatasync(int fd) { return sync_or_fail("fdatasync", fd); }
