package caller

// Stop ends the background goroutines of the cache.
func (k *Keychain) Stop() { k.cache.Stop() }
