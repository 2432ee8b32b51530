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

// Entries is how many indexes are remembered.
func (s *Store) Entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Remembers says whether one of a channel is.
func (s *Store) Remembers(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.entries {
		if s.entries[k].channel.Name == name {
			return true
		}
	}
	return false
}

// Remember bounds how many indexes are remembered.
func (s *Store) Remember(most int) { s.most = most }
