package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// files checks that the user that runs slipwayd can read the files that settings name. That is
// this user or, for root, the owner of data_dir.
func (d *doctor) files(context.Context) []Finding {
	const check = "files"
	who := d.serverUser()
	var out []Finding
	readable := 0
	settings := reflect.ValueOf(d.Config)
	for _, field := range reflect.VisibleFields(settings.Type()) {
		key := field.Tag.Get("key")
		path := settings.FieldByIndex(field.Index).String()
		if !strings.HasSuffix(key, "_file") || path == "" {
			continue
		}
		err := who.mayRead(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, Finding{Check: check, State: Fail, Text: fmt.Sprintf("%s: there is no file %s", key, path), Do: "create it, or correct " + key})
		case err != nil:
			out = append(out, Finding{Check: check, State: Fail, Text: fmt.Sprintf("%s: %s cannot read %s: %v", key, who, path, err), Do: "give the file to that user (chown), or its group (chgrp, chmod g+r), and let it enter the folder (chmod +x)"})
		default:
			readable++
		}
	}
	if len(out) > 0 || readable == 0 {
		return out
	}
	return one(check, fmt.Sprintf("%s can read the files that settings name (%d)", who, readable), nil, OK, "")
}

// An account is a user of this machine. The zero value is the user of this process.
type account struct {
	name   string
	uid    uint32
	groups []uint32
}

func (a account) String() string {
	if a.name == "" {
		return "this user"
	}
	return "the user " + a.name
}

// serverUser returns the user that runs slipwayd: this one or, for root, the owner of data_dir.
func (d *doctor) serverUser() account {
	if os.Geteuid() != 0 {
		return account{}
	}
	info, err := os.Stat(d.Config.DataDir)
	if err != nil { // it does not exist yet
		return account{}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return account{}
	}
	a := account{name: strconv.Itoa(int(stat.Uid)), uid: stat.Uid, groups: []uint32{stat.Gid}}
	if u, err := user.LookupId(a.name); err == nil {
		a.name = u.Username
		groups, _ := u.GroupIds() // without them only its own group counts
		for _, g := range groups {
			if id, err := strconv.ParseUint(g, 10, 32); err == nil {
				a.groups = append(a.groups, uint32(id))
			}
		}
	}
	return a
}

// mayRead returns an error if the user cannot read a file.
func (a account) mayRead(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	if a.name == "" {
		return unix.Access(path, unix.R_OK)
	}
	if err := a.has(path, 0o4); err != nil {
		return err
	}
	return a.mayEnter(filepath.Dir(path))
}

// mayEnter returns an error if the user cannot enter a folder.
func (a account) mayEnter(path string) error {
	for dir := path; ; dir = filepath.Dir(dir) {
		if err := a.has(dir, 0o1); err != nil || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// has returns an error if the mode of a file or folder does not give the user all rights: the sum of
// 4 to read, 2 to write and 1 to enter. Access control lists are not examined.
func (a account) has(path string, right fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	switch {
	case stat.Uid == a.uid:
		right <<= 6
	case slices.Contains(a.groups, stat.Gid):
		right <<= 3
	}
	if info.Mode().Perm()&right != right {
		return fmt.Errorf("%s has the mode %04o", path, info.Mode().Perm())
	}
	return nil
}
