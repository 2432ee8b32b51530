package memo

// Waiting returns the number of callers that wait for key.
func (f *Flight[K, V]) Waiting(key K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.calls[key]; ok {
		return c.waiting
	}
	return 0
}
