package spool

import (
	"sync"
	"testing"
)

// BenchmarkAppend compares mapped files with written files, for several concurrent writers.
func BenchmarkAppend(b *testing.B) {
	for _, mapped := range []bool{true, false} {
		name := map[bool]string{true: "mapped", false: "written"}[mapped]
		b.Run(name, func(b *testing.B) {
			s, err := newSegment(b.TempDir(), 1, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			defer s.remove()
			if !mapped {
				if err := s.unmap(); err != nil {
					b.Fatal(err)
				}
			}
			var mu sync.Mutex
			record := make([]byte, 24)
			b.ReportAllocs()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					framed := frame(nil, record)
					mu.Lock()
					if s.size+int64(len(framed)) > 1<<20 {
						s.size = 0
					}
					err := s.write(framed, 1)
					mu.Unlock()
					if err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
