// writeback_install makes SQLite's unix VFS write through here. find is
// sqlite3_vfs_find. It returns whether that could be done.
int writeback_install(void *find);

// writeback_begun is how often the disk was told to begin.
unsigned long writeback_begun(void);
