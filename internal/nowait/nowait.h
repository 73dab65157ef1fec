enum { NOWAIT_FILES = 65536 };

// nowait_install makes SQLite's unix VFS call open and pread through here. find is
// sqlite3_vfs_find. It returns whether that could be done.
int nowait_install(void *find);

// nowait_opening begins to watch which file this thread opens first, and
// nowait_opened ends it: the file's descriptor, -1 for none and for one whose file
// system cannot tell what is in memory.
void nowait_opening(void);
int nowait_opened(void);

// nowait_enable says whether reads of a file fail instead of waiting.
void nowait_enable(int fd, int on);

// nowait_misses is how many reads of a file have failed so.
unsigned nowait_misses(int fd);
