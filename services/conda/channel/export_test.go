package channel

// Dir returns the folder of the indexes.
func (s *Store) Dir() string { return s.dir }

// Settle waits until no fetch is running.
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

// Entries returns the number of entries.
func (s *Store) Entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Remembers reports whether an entry of the named channel exists.
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

// Remember sets the limit of entries.
func (s *Store) Remember(most int) { s.known = most }
