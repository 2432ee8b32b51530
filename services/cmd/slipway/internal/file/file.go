// Package file replaces files, and decodes the lists of files with bounds.
package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Resolve returns the file that a path names: the target of a symbolic link, or the path itself if it is no link.
func Resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, found := os.Lstat(path); found == nil {
		return "", fmt.Errorf("%s is a link to a file that does not exist", path)
	}
	return path, nil
}

// Replace replaces a file, unless it has the content already. The file keeps its permissions; a new one has perm. A
// symbolic link is replaced itself; callers that replace its target call Resolve. After an error, the
// file is unchanged.
func Replace(path string, content []byte, perm fs.FileMode) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().IsRegular():
		perm = info.Mode().Perm()
		if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, content) {
			return nil
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	to, err := temporary(path)
	if err != nil {
		return err
	}
	_, err = to.Write(content)
	if err = errors.Join(err, to.Chmod(perm), to.Sync(), to.Close()); err == nil {
		err = os.Rename(to.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(to.Name()))
	}
	return err
}

// CheckReplaceable checks that a file can be replaced, without changing it.
func CheckReplaceable(path string) error {
	f, err := temporary(path)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return err
}

// temporary creates a file in the folder of a file.
func temporary(path string) (*os.File, error) { return os.CreateTemp(filepath.Dir(path), ".slipway-*") }

// List decodes a list in JSON that has at most limit elements. A list of short elements would need
// many times its size in memory.
func List[T any](raw []byte, limit int) ([]T, error) {
	out := []T{}
	err := each(raw, '[', limit, func(values *json.Decoder, _ string) error {
		var one T
		err := values.Decode(&one)
		out = append(out, one)
		return err
	})
	if err != nil || bytes.Equal(raw, []byte("null")) {
		return nil, err
	}
	return out, nil
}

// Map decodes an object in JSON that has at most limit keys, like List.
func Map[T any](raw []byte, limit int) (map[string]T, error) {
	out := map[string]T{}
	err := each(raw, '{', limit, func(values *json.Decoder, key string) error {
		var one T
		err := values.Decode(&one)
		out[key] = one
		return err
	})
	if err != nil || bytes.Equal(raw, []byte("null")) {
		return nil, err
	}
	return out, nil
}

// each calls decode for each value of a list or object, whose first character is begin. null has none.
func each(raw []byte, begin json.Delim, limit int, decode func(values *json.Decoder, key string) error) error {
	values := json.NewDecoder(bytes.NewReader(raw))
	first, err := values.Token()
	if err != nil || first == nil {
		return err
	}
	if first != begin {
		return fmt.Errorf("a value in JSON does not begin with %s", begin)
	}
	for n := 0; values.More(); n++ {
		if n == limit {
			return fmt.Errorf("it has more than %d values", limit)
		}
		key := ""
		if begin == '{' {
			token, err := values.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string) // the decoder accepts no other keys
		}
		if err := decode(values, key); err != nil {
			return err
		}
	}
	_, err = values.Token()
	return err
}
