package vulns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/services/internal/vex"
)

// A serverVEX has the OpenVEX documents of the server. The zero value has none.
type serverVEX struct {
	version   string
	documents []vex.Document
	sets      vex.Sets
}

// VEX returns the statements of the OpenVEX documents of the server.
func (s *Source) VEX() vex.Sets {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vex.sets
}

// Documents returns the OpenVEX documents of the server, and their version.
func (s *Source) Documents() (string, []vex.Document) {
	if s == nil {
		return "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vex.version, s.vex.documents
}

// readVEX reads the documents of the server if a file has changed.
func (s *Source) readVEX() error {
	var all strings.Builder
	for _, at := range s.Options.VEX {
		info, err := os.Stat(at)
		if err != nil {
			fmt.Fprintln(&all, at, err)
			continue
		}
		fmt.Fprintln(&all, at, info.Size(), info.ModTime().UnixNano())
	}
	if all.String() == s.vexFiles {
		return nil
	}
	s.vexFiles = all.String() // an error is reported once
	v, err := readVEX(s.Options.VEX)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vex = v
	return nil
}

// readVEX reads files with OpenVEX documents.
func readVEX(files []string) (out serverVEX, err error) {
	if out.documents, err = vex.ReadFiles(files, func(path string) string { return "server/" + filepath.Base(path) }); err != nil {
		return out, fmt.Errorf("reading scan_vex: %w", err)
	}
	if out.sets, err = vex.ParseAll(out.documents); err != nil {
		return out, err
	}
	sum := sha256.New()
	for _, d := range out.documents {
		_, _ = fmt.Fprintf(sum, "%q %d\n%s\n", d.Name, len(d.Content), d.Content) // never fails
	}
	out.version = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}
