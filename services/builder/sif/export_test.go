package sif

// Alone is the tool without igzip.
func (t Tool) Alone() Tool { t.gunzip = ""; return t }

// HasGunzip says whether igzip is here.
func (t Tool) HasGunzip() bool { return t.gunzip != "" }
