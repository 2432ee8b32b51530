package vulns_test

import (
	"fmt"
	"testing"
)

// BenchmarkFind measures the comparison of 300 components with 10,000 records.
func BenchmarkFind(b *testing.B) {
	var list []string
	for i := range 10_000 {
		name := fmt.Sprintf("p%d", i%500)
		list = append(list, osv(fmt.Sprintf("DEBIAN-CVE-2026-%d", i), fmt.Sprintf(`"upstream":["CVE-2026-%d"],%s`, i, critical3), pkg("Debian:12", name, "0", fmt.Sprintf("1.%d-1", i%40)), pkg("Debian:13", name, "0", "")))
	}
	db := imported(b, map[string][]string{"Debian": list})
	var urls []string
	for i := range 300 {
		urls = append(urls, fmt.Sprintf("pkg:deb/debian/p%d@1.20-1?distro=debian-12", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := db.Find(b.Context(), components(urls...)); err != nil || len(found) < 1000 {
			b.Fatal(len(found), err)
		}
	}
}
