package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/erofs"
)

// A Used is an environment that was used.
type Used struct {
	Name
	Digest string    `json:"digest"`
	Time   time.Time `json:"lastUsed"`
}

// Used returns the environments that were used, the last one first.
func (c *Cache) Used() ([]Used, error) {
	list, err := c.list(envs)
	if err != nil {
		return nil, err
	}
	var out []Used
	for _, info := range list {
		u := Used{Digest: "sha256:" + info.Name(), Time: info.ModTime()}
		b, _, err := c.read(limits.Document, envs, info.Name())
		if err == nil {
			err = json.Unmarshal(b, &u.Name)
		}
		if err != nil {
			u.Name = Name{} // the digest is enough to keep it
		}
		at := len(out)
		for at > 0 && out[at-1].Time.Before(u.Time) {
			at--
		}
		out = append(out[:at], append([]Used{u}, out[at:]...)...)
	}
	return out, nil
}

// list returns the files of a folder of the cache; none if it does not exist.
func (c *Cache) list(elem ...string) ([]fs.FileInfo, error) {
	folder := filepath.Join(append([]string{c.dir}, elem...)...)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the cache: %w", err)
	}
	var out []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && (info.Mode().IsRegular() || info.IsDir()) {
			out = append(out, info)
		} // another process has deleted it otherwise
	}
	return out, nil
}

// Times of Clean. A file of an unused environment may just have been written, by a process that has not recorded its use yet.
const (
	grace     = time.Hour
	trashLife = 24 * time.Hour
)

// Cleaned is what Clean deleted.
type Cleaned struct {
	Environments, Files int
	Bytes               int64
}

// Clean deletes what only environments need that were last used before now - keep. Other nodes may read the files:
// those of packages are moved to the trash, which a later call deletes, so that they stay readable on network file systems.
func (c *Cache) Clean(keep time.Duration, now time.Time) (Cleaned, error) {
	var done Cleaned
	used, err := c.Used()
	if err != nil {
		return done, err
	}
	needed := map[string]bool{}
	for _, u := range used {
		if now.Sub(u.Time) > keep {
			if c.delete(&done, 0, envs, hexOf(u.Digest)) {
				done.Environments++
			}
			continue
		}
		if err := c.needs(needed, u); err != nil {
			return done, fmt.Errorf("nothing was deleted: the environment %s: %w", u.Digest, err)
		}
	}
	if err := c.cleanFolder(&done, now, trashLife, trash); err != nil {
		return done, err
	}
	if err := c.cleanFolder(&done, now, trashLife, tmp); err != nil {
		return done, err
	}
	return done, c.cleanUnused(&done, needed, keep, now)
}

// needs adds the files that an environment needs.
func (c *Cache) needs(needed map[string]bool, u Used) error {
	need := func(elem ...string) { needed[filepath.Join(elem...)] = true }
	need(documents, hexOf(u.Digest))
	need(documents, hexOf(u.ImageDigest))
	environment, err := c.layers(u.Digest)
	if err != nil {
		return err
	}
	image, err := c.layers(u.ImageDigest)
	if err != nil {
		return err
	}
	for _, digest := range append(environment, image...) {
		h := hexOf(digest)
		need(documents, h)
		need(tables, h)
		need(indexes, h)
		need(firsts, h)
		if !c.has(indexes, h) {
			continue
		}
		x, _, err := c.mapped(h)
		if err != nil {
			return err
		}
		for _, d := range x.Devices() {
			need(blobs, d.Name())
			for i := range d.Chunks {
				need(chunkFile(d, i)...)
			}
		}
	}
	return nil
}

// layers returns the digests of the config and the layers of a manifest; none if the cache does not have it.
func (c *Cache) layers(digest string) ([]string, error) {
	raw, err := c.Document(digest)
	if errors.Is(err, ErrMissing) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err // e.g. of a network file system: what the environment needs is unknown
	}
	var m struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("parsing the manifest %s: %w", digest, err)
	}
	out := []string{m.Config.Digest}
	for _, l := range m.Layers {
		out = append(out, l.Digest)
	}
	return out, nil
}

// cleanUnused deletes the files that are not needed.
func (c *Cache) cleanUnused(done *Cleaned, needed map[string]bool, keep time.Duration, now time.Time) error {
	for _, folder := range []string{blobs, tables, documents, indexes, firsts} {
		if err := c.cleanNeeded(done, needed, now, folder); err != nil {
			return err
		}
	}
	parts, err := c.list(chunks)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := c.cleanNeeded(done, needed, now, chunks, p.Name()); err != nil {
			return err
		}
	}
	if err := c.cleanRoots(done, keep, now); err != nil {
		return err
	}
	return c.cleanFolder(done, now, max(keep, grace), names)
}

func (c *Cache) cleanNeeded(done *Cleaned, needed map[string]bool, now time.Time, first string, more ...string) error {
	folder := append([]string{first}, more...)
	list, err := c.list(folder...)
	if err != nil {
		return err
	}
	for _, info := range list {
		path := append(append([]string{}, folder...), info.Name())
		if info.IsDir() || needed[filepath.Join(path...)] || now.Sub(info.ModTime()) < grace {
			continue
		}
		if first == blobs || first == indexes { // both are used while they are open
			c.discard(done, info, now, path...)
		} else {
			c.delete(done, info.Size(), path...)
		}
	}
	return nil
}

// cleanFolder deletes the files and folders in a folder that are older than age.
func (c *Cache) cleanFolder(done *Cleaned, now time.Time, age time.Duration, folder string) error {
	list, err := c.list(folder)
	if err != nil {
		return err
	}
	for _, info := range list {
		switch {
		case now.Sub(info.ModTime()) <= age:
		case info.IsDir():
			c.removeFolder(done, folder, info.Name())
		default:
			c.delete(done, info.Size(), folder, info.Name())
		}
	}
	return nil
}

// discard moves a file or folder to the trash. Its time becomes that of the move. The content of a folder is counted when it is deleted.
func (c *Cache) discard(done *Cleaned, info fs.FileInfo, now time.Time, elem ...string) {
	from := filepath.Join(append([]string{c.dir}, elem...)...)
	to := filepath.Join(c.dir, trash, info.Name()+"-"+strconv.FormatInt(now.UnixNano(), 36))
	err := os.MkdirAll(filepath.Dir(to), 0o755) //nolint:gosec // other users may read a shared cache
	if err == nil {
		err = os.Chtimes(from, now, now) // first, so that no other process deletes it from the trash at once
	}
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil && !info.IsDir() {
		done.Files, done.Bytes = done.Files+1, done.Bytes+info.Size()
	}
	if !isMissing(err) {
		c.failed(err)
	}
}

// delete deletes a file and counts it.
func (c *Cache) delete(done *Cleaned, size int64, elem ...string) bool {
	err := os.Remove(filepath.Join(append([]string{c.dir}, elem...)...))
	if err == nil {
		done.Files, done.Bytes = done.Files+1, done.Bytes+size
	} else if !isMissing(err) {
		c.failed(err)
	}
	return err == nil
}

// A Bad is a file whose content is wrong.
type Bad struct {
	Path   string
	Reason string
}

// Verify reads all packages, chunks and documents of the environments that were used, and reports the files that are wrong. It calls bad for each,
// and returns the number of files that it read.
func (c *Cache) Verify(ctx context.Context, bad func(Bad)) (files int, err error) {
	known, err := c.devices(bad)
	if err != nil {
		return 0, err
	}
	for _, folder := range []string{documents, blobs, chunks} {
		err := filepath.WalkDir(filepath.Join(c.dir, folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil || !e.Type().IsRegular() {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return errors.Join(err, ctx.Err())
			}
			files++
			if why := c.verifyFile(folder, path, known); why != "" {
				bad(Bad{Path: path, Reason: why})
			}
			return nil
		})
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// devices returns the packages of all indexes by their names.
func (c *Cache) devices(bad func(Bad)) (map[string]erofs.Device, error) {
	list, err := c.list(indexes)
	if err != nil {
		return nil, err
	}
	out := map[string]erofs.Device{}
	for _, info := range list {
		x, _, err := c.mapped(info.Name())
		if err == nil {
			err = x.Check()
		}
		if err != nil {
			bad(Bad{Path: filepath.Join(c.dir, indexes, info.Name()), Reason: err.Error()})
			continue
		}
		for _, d := range x.Devices() {
			out[d.Name()] = d
		}
	}
	return out, nil
}

// verifyFile returns why a file is wrong; "" if it is not.
func (c *Cache) verifyFile(folder, path string, known map[string]erofs.Device) string {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if folder != blobs {
		return verifySum(f, filepath.Base(path))
	}
	d, ok := known[filepath.Base(path)]
	if !ok {
		return "" // no index refers to it, so that no command reads it
	}
	b := make([]byte, erofs.ChunkSize)
	for i := range d.Chunks {
		n := chunkSize(d, i)
		if _, err := io.ReadFull(f, b[:n]); err != nil {
			return fmt.Sprintf("chunk %d cannot be read: %s", i, err.Error())
		}
		if sum256(b[:n]) != d.Chunks[i] {
			return fmt.Sprintf("chunk %d is not the one of the index", i)
		}
	}
	return ""
}

// verifySum compares the digest of a file with its name.
func verifySum(f io.Reader, name string) string {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err.Error()
	}
	if hex.EncodeToString(h.Sum(nil)) != name {
		return "it has another digest than its name"
	}
	return ""
}
