package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// groups are the control groups that contain the nodes' pods, one folder in each hierarchy of
// the machine.
type groups []string

// makeGroups creates the control groups of both nodes.
func makeGroups() (groups, error) {
	hierarchies := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		var all []string
		all, err = filepath.Glob("/sys/fs/cgroup/*")
		if err != nil {
			return nil, err
		}
		hierarchies = slices.DeleteFunc(all, func(h string) bool { return !fileExists(filepath.Join(h, "cgroup.procs")) })
	}
	var g groups
	for _, h := range hierarchies {
		for _, node := range []string{"sw-node1", "sw-node2"} {
			dir := filepath.Join(h, node)
			g = append(g, dir)
			if err := os.MkdirAll(dir, 0o750); err != nil {
				return g, err
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if raw, err := os.ReadFile(filepath.Join(h, file)); err == nil && filepath.Base(h) == "cpuset" {
					if err := os.WriteFile(filepath.Join(dir, file), raw, 0o600); err != nil {
						return g, err
					}
				}
			}
		}
	}
	return g, nil
}

// remove deletes the control groups with the groups that the kubelets created in them. No
// process runs in them any more, but the kernel may take a moment to notice.
func (g groups) remove() error {
	var err error
	for range 50 {
		err = nil
		for _, top := range g {
			err = errors.Join(err, removeGroup(top))
		}
		if err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

func removeGroup(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(d))
	}
	return err
}
