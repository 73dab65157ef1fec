package writer

// Blocked returns how many callers wait for room in w's queue.
func Blocked(w *Writer) int {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return w.queue.blocked
}
