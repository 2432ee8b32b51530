package vex

import (
	"fmt"
	"io"
	"os"

	"slipway.dev/services/internal/limits"
)

// ReadFiles reads files with documents, and names each by its path. It returns an error if there are more than
// limits.VEXFiles or if they are larger than limits.VEXServer in all.
func ReadFiles(paths []string, name func(path string) string) ([]Document, error) {
	if len(paths) > limits.VEXFiles {
		return nil, fmt.Errorf("%d OpenVEX documents: the limit is %d", len(paths), limits.VEXFiles)
	}
	var out []Document
	size := 0
	for _, path := range paths {
		content, err := ReadFile(path, limits.VEX)
		if err != nil {
			return nil, err
		}
		if size += len(content); size > limits.VEXServer {
			return nil, fmt.Errorf("the OpenVEX documents have more than %d MiB in all, which is the limit", limits.VEXServer>>20)
		}
		out = append(out, Document{Name: name(path), Content: content})
	}
	return out, nil
}

// ReadFile returns the content of a regular file of at most most bytes.
func ReadFile(path string, most int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s must be a file with an OpenVEX document", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	content, err := Read(f, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, nil
}

// Read returns the content of a document of at most most bytes.
func Read(from io.Reader, most int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err == nil && len(content) > most {
		err = fmt.Errorf("an OpenVEX document may have %d MiB here", most>>20)
	}
	return content, err
}
