#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 // as SQLite has it
#include "nowait.h"

#include <sys/uio.h>

#ifdef RWF_NOWAIT // of Linux, and of its C libraries that have preadv2

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs.h" // of driversym

typedef int (*open_call)(const char *, int, int);
typedef ssize_t (*pread_call)(int, void *, size_t, off_t);

static open_call plain_open;
static pread_call plain_pread;

static __thread int opening, opened;

static unsigned char enabled[NOWAIT_FILES];
static unsigned misses[NOWAIT_FILES];

static int watched_open(const char *path, int flags, int mode) {
	int fd = plain_open(path, flags, mode);
	struct stat st;
	if (opening && opened < 0 && fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) // not /dev/urandom
		opened = fd;
	return fd;
}

static ssize_t nowait_pread(int fd, void *buf, size_t n, off_t at) {
	if (fd < 0 || fd >= NOWAIT_FILES || !__atomic_load_n(&enabled[fd], __ATOMIC_RELAXED))
		return plain_pread(fd, buf, n, at);
	struct iovec into = {buf, n};
	ssize_t got = preadv2(fd, &into, 1, at, RWF_NOWAIT);
	if (got == (ssize_t)n || got == 0)
		return got;
	// Newer kernels have begun to read already, which this does not repeat.
	if (got < 0 && errno == EAGAIN && posix_fadvise(fd, at, (off_t)n, POSIX_FADV_WILLNEED) == 0) {
		__atomic_add_fetch(&misses[fd], 1, __ATOMIC_RELAXED);
		errno = EAGAIN;
		return -1;
	}
	// A part is there: of the page or of the file.
	return plain_pread(fd, buf, n, at);
}

int nowait_install(void *find) {
	return driversym_replace(find, "open", (driversym_call)watched_open, (driversym_call *)&plain_open) &&
		driversym_replace(find, "pread", (driversym_call)nowait_pread, (driversym_call *)&plain_pread);
}

void nowait_opening(void) {
	opening = 1;
	opened = -1;
}

int nowait_opened(void) {
	opening = 0;
	if (opened < 0 || opened >= NOWAIT_FILES)
		return -1;
	char byte;
	struct iovec into = {&byte, 1};
	if (preadv2(opened, &into, 1, 0, RWF_NOWAIT) < 0 && errno != EAGAIN)
		return -1;
	return opened;
}

void nowait_enable(int fd, int on) { __atomic_store_n(&enabled[fd], on, __ATOMIC_RELAXED); }

unsigned nowait_misses(int fd) { return __atomic_load_n(&misses[fd], __ATOMIC_RELAXED); }

#else

int nowait_install(void *find) { return 0; }
void nowait_opening(void) {}
int nowait_opened(void) { return -1; }
void nowait_enable(int fd, int on) {}
unsigned nowait_misses(int fd) { return 0; }

#endif
