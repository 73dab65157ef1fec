// driversym_find looks for a symbol. foreign is set when it is not this program's.
void *driversym_find(const char *name, int *foreign);
