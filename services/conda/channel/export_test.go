package channel

// Dir is the folder of the indexes.
func (s *Store) Dir() string { return s.dir }

// Settle waits until nothing is being fetched.
func (s *Store) Settle() {
	for {
		var wait chan struct{}
		s.mu.Lock()
		for _, e := range s.entries {
			if e.fetching != nil {
				wait = e.fetching
			}
		}
		s.mu.Unlock()
		if wait == nil {
			return
		}
		<-wait
	}
}
