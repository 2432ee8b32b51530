package caller

// Stop ends what k does in the background.
func (k *Keychain) Stop() { k.known.StopAllGoroutines() }
