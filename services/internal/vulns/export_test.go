package vulns

// SetMatches sets how many versions a search compares.
func (d *Database) SetMatches(n int) { d.matches = n }
