package conda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// Ways to use the same environment.
const (
	nameDirectory = "ext4 directory"
	nameSquash    = "squashfuse_ll, new mount"
	nameOwn       = "slipway run, new mount"
	nameShared    = "slipway run, shared mount"
	nameKernel    = "slipway run, EROFS"
)

// ordinary is the user of the commands, who has no privileges.
const ordinary = 65534

// mountPackages is the number of packages besides Python.
const mountPackages = 60

// importing is a Python program that imports some 250 modules of the standard library.
const importing = `import argparse, asyncio, bz2, calendar, concurrent.futures, configparser, csv, ctypes, dataclasses, decimal, difflib, doctest, email.mime.multipart,
fractions, gzip, html.parser, http.server, imaplib, inspect, json, logging.config, mailbox, multiprocessing.pool, optparse, pathlib, pdb, pickletools, plistlib, pprint,
pydoc, random, shelve, smtplib, socketserver, statistics, string, tarfile, telnetlib, tempfile, timeit, tomllib, tracemalloc, unittest.mock,
urllib.request, uuid, wave, xml.dom.minidom, xml.sax.saxutils, xmlrpc.client, zipapp, zipfile`

// Mount measures `slipway run` with an environment of Python and other packages: the start of a command, the import of modules, and
// reading all files, compared with a directory and with the FUSE program that mounts Singularity images.
func Mount(w *world.World, s *figure.Sheet) {
	for _, program := range []string{"mksquashfs", "squashfuse_ll", "fusermount3", "python3.11"} {
		if _, err := exec.LookPath(program); err != nil {
			must.Fail("there is no %s (apt-get install squashfs-tools squashfuse fuse3 python3)", program)
		}
	}
	m := newMounted(w, s)
	m.measureStart(s)
	m.measureImport(s)
	m.measureAll(s)
	m.measureRemote(s)
	m.measureMemory(s)
}

// mounted is an environment in several forms.
type mounted struct {
	w *world.World
	// program is the command line, image the name of the environment's image, and cache a cache with the whole environment.
	program, image, cache string
	// rootCache is a cache of root, who does not trust files of others.
	rootCache string
	// directory has the environment's files, and squash is a squashfs of it.
	directory, squash string
	packed            int64
}

func newMounted(w *world.World, s *figure.Sheet) *mounted {
	w.Push(world.BaseImage)
	c := mountChannel(w)
	server := startPackages(w, c)
	image := server.Submit(mountRequest(w, c)).TargetImage
	m := &mounted{w: w, image: image, program: filepath.Join(w.Dir, "slipway"), cache: filepath.Join(w.Dir, "cache"), rootCache: filepath.Join(w.Dir, "root-cache"), directory: filepath.Join(w.Dir, "directory"), packed: c.Packed}
	world.Output(exec.CommandContext(w.Ctx, "go", "build", "-trimpath", "-o", m.program, "./services/cmd/slipway"))
	must.Do(os.Chmod(w.Dir, 0o755))
	must.Do(os.Chmod("/dev/fuse", 0o666)) // as udev does
	must.Do(os.Mkdir(m.cache, 0o755))
	must.Do(os.Chown(m.cache, ordinary, ordinary))
	m.user("fetch", "--cache", m.cache, image)
	m.as(0, m.program, "fetch", "--cache", m.rootCache, image)
	must.Do(os.Mkdir(m.directory, 0o755))
	must.Do(os.Chown(m.directory, ordinary, ordinary))
	m.user("run", "--no-share", "--cache", m.cache, image, "--", "cp", "-a", "/opt/conda/.", m.directory)
	m.squash = filepath.Join(w.Dir, "environment.sqfs")
	world.Output(exec.CommandContext(w.Ctx, "mksquashfs", m.directory, m.squash, "-quiet", "-no-progress", "-comp", "zstd", "-b", "131072"))
	s.Record("packages", mountPackages+1, "")
	s.Record("packed", float64(c.Packed)/1e6, "MB")
	s.Record("installed", float64(c.Installed)/1e6, "MB")
	m.countFiles(s)
	return m
}

// countFiles compares the number of files in the cache with that of the environment.
func (m *mounted) countFiles(s *figure.Sheet) {
	files, inodes := 0, 0
	count := func(dir string, n *int) {
		must.Do(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				*n++
			}
			return err
		}))
	}
	count(m.directory, &files)
	count(filepath.Join(m.cache, "blobs"), &inodes)
	s.Record("files of the environment", float64(files), "")
	s.Check("files of its packages in the cache", float64(inodes), "", figure.AtMost(mountPackages+1))
}

// mountRequest is a request for all packages with an index to mount them.
func mountRequest(w *world.World, c *channel.Channel) string {
	var request map[string]any
	must.Do(json.Unmarshal([]byte(environment(w, c, c.Names...)), &request))
	request["mount"] = true
	return string(must.Get(json.Marshal(request)))
}

// mountChannel returns a channel with Debian's Python, compiled, and the Go installation in parts.
func mountChannel(w *world.World) *channel.Channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]channel.Record{}
	add := func(name string, files []channel.File) {
		file, rec := channel.Write(dir, name, zstd.SpeedDefault, files)
		packages[file] = rec
	}
	add("python", python(w))
	parts := make([][]channel.File, mountPackages)
	for i, f := range channel.GoFiles(w) {
		parts[i%mountPackages] = append(parts[i%mountPackages], f)
	}
	for i, files := range parts {
		add(fmt.Sprintf("part-%02d", i), files)
	}
	return channel.Serve(w, dir, packages)
}

// python returns the files of Debian's Python, with modules that are compiled for good.
func python(w *world.World) []channel.File {
	library := filepath.Join(w.Dir, "python")
	world.Output(exec.CommandContext(w.Ctx, "cp", "-r", "--no-preserve=mode", "/usr/lib/python3.11", library))
	world.Output(exec.CommandContext(w.Ctx, "python3.11", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", library))
	list := []channel.File{onDisk("bin/python3.11", "/usr/bin/python3.11")}
	must.Do(filepath.WalkDir(library, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, onDisk("lib/python3.11/"+must.Get(filepath.Rel(library, name)), name))
		}
		return err
	}))
	return list
}

func onDisk(path, name string) channel.File {
	return channel.File{Path: path, Size: must.Get(os.Stat(name)).Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) }}
}

// user runs the command line as an ordinary user, and returns what it printed as errors and the time that it took.
func (m *mounted) user(args ...string) (string, time.Duration) {
	return m.as(ordinary, append([]string{m.program}, args...)...)
}

func (m *mounted) as(user uint32, args ...string) (string, time.Duration) {
	cmd := exec.CommandContext(m.w.Ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + m.cache, "PYTHONDONTWRITEBYTECODE=1", "SLIPWAY_AGENT_DIR=" + filepath.Join(m.cache, "agent")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		must.Fail("%v: %w\n%s", args, err, errs.String())
	}
	return errs.String(), time.Since(began)
}

// contenders run a command with the environment in each way. The command has /opt/conda for the folder of the environment.
func (m *mounted) contenders(command ...string) []figure.Contender {
	in := func(folder string) []string {
		out := make([]string, len(command))
		for i, word := range command {
			out[i] = strings.ReplaceAll(word, "/opt/conda", folder)
		}
		return out
	}
	sample := func(took time.Duration) figure.Sample { return figure.Sample{Took: took.Seconds()} }
	run := func(user uint32, cache string, flags ...string) figure.Sample {
		args := append(append([]string{m.program, "run", "--offline", "--cache", cache}, flags...), m.image, "--")
		_, took := m.as(user, append(args, command...)...)
		return sample(took)
	}
	return []figure.Contender{
		{Name: nameDirectory, Run: func() figure.Sample {
			_, took := m.as(ordinary, in(m.directory)...)
			return sample(took)
		}},
		{Name: nameSquash, Run: func() figure.Sample { return m.squashed(in) }},
		{Name: nameOwn, Run: func() figure.Sample { return run(ordinary, m.cache, "--no-share") }},
		{Name: nameShared, Run: func() figure.Sample { return run(ordinary, m.cache) }},
		{Name: nameKernel, Run: func() figure.Sample { return run(0, m.rootCache) }},
	}
}

// squashed mounts the squashfs, runs the command, and unmounts it.
func (m *mounted) squashed(in func(string) []string) figure.Sample {
	at := filepath.Join(m.cache, "squash")
	if err := os.Mkdir(at, 0o755); err == nil {
		must.Do(os.Chown(at, ordinary, ordinary))
	}
	began := time.Now()
	m.as(ordinary, "squashfuse_ll", m.squash, at)
	m.as(ordinary, in(at)...)
	took := time.Since(began)
	m.as(ordinary, "fusermount3", "-u", "-z", at)
	return figure.Sample{Took: took.Seconds()}
}

// measureStart measures the start of a command that uses nothing of the environment.
func (m *mounted) measureStart(s *figure.Sheet) {
	turns := m.contenders("/bin/true")
	figure.Alternate(m.w.Ctx, 2, turns...)
	r := figure.Alternate(m.w.Ctx, 5*m.w.Rounds, turns...)
	s.Remark = "the whole command, with the start of the command line"
	for _, t := range turns {
		bar := figure.Bar{}
		switch t.Name {
		case nameOwn:
			bar = figure.AtMost(20)
		case nameShared:
			bar = figure.AtMost(10)
		}
		s.Check("true: "+t.Name, r.Median(t.Name, figure.Took), "ms", bar)
	}
	s.Remark = ""
}

// measureImport measures the import of modules with files in the page cache of the machine.
func (m *mounted) measureImport(s *figure.Sheet) {
	turns := m.contenders("/opt/conda/bin/python3.11", "-S", "-c", strings.ReplaceAll(importing, "\n", " "))
	figure.Alternate(m.w.Ctx, 2, turns...)
	r := figure.Alternate(m.w.Ctx, 3*m.w.Rounds, turns...)
	for _, t := range turns {
		s.Record("import: "+t.Name, r.Median(t.Name, figure.Took), "ms")
	}
	s.Ratio(r, nameShared, nameDirectory, figure.Took, figure.AtMost(1.15))
	s.Ratio(r, nameOwn, nameDirectory, figure.Took, figure.AtMost(1.5))
	s.Ratio(r, nameOwn, nameSquash, figure.Took, figure.AtMost(0.8))
}

// measureAll measures reading all files that are not in the page cache.
func (m *mounted) measureAll(s *figure.Sheet) {
	turns := m.contenders("/bin/sh", "-c", "find /opt/conda -type f -print0 | xargs -0 cat >/dev/null")
	for i, t := range turns {
		turns[i].Run = func() figure.Sample {
			must.Do(os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200))
			return t.Run()
		}
	}
	// The shared mount has the files in memory from before.
	turns = append(turns[:3:3], turns[4])
	r := figure.Alternate(m.w.Ctx, m.w.Rounds, turns...)
	s.Remark = "with empty caches of the machine"
	for _, t := range turns {
		s.Record("read all: "+t.Name, r.Median(t.Name, figure.Took), "ms")
	}
	s.Ratio(r, nameOwn, nameDirectory, figure.Took, figure.AtMost(1))
	s.Ratio(r, nameOwn, nameSquash, figure.Took, figure.AtMost(0.6))
	s.Remark = ""
}

// usedMemory finds the memory in what --stats prints.
var usedMemory = regexp.MustCompile(`memory (\d+) KiB`)

// measureMemory measures the most memory of a process that serves the environment, while a command reads all files.
func (m *mounted) measureMemory(s *figure.Sheet) {
	memory := func(cache string, flags ...string) float64 {
		args := append(append([]string{"run", "--stats", "--cache", cache}, flags...), m.image, "--", "/bin/sh", "-c", "find /opt/conda -type f -print0 | xargs -0 cat >/dev/null")
		printed, _ := m.user(args...)
		found := usedMemory.FindStringSubmatch(printed)
		if found == nil {
			must.Fail("there is no memory in %q", printed)
		}
		return must.Get(strconv.ParseFloat(found[1], 64)) / 1e3
	}
	for _, c := range []struct{ what, cache, share string }{
		{nameOwn + ", files in its cache", m.cache, "--no-share"},
		{nameOwn + ", files fetched", m.emptyCache(), "--no-share"},
		{nameShared + ", files fetched", m.emptyCache(), "--no-share=false"},
	} {
		s.Check("memory: "+c.what, memory(c.cache, c.share), "MB", figure.AtMost(40))
	}
}

// fetchedBytes finds the number of fetched bytes in what --stats prints.
var fetchedBytes = regexp.MustCompile(`fetched (\d+) bytes in (\d+) requests`)

// remoteImport is a command whose files are fetched while it runs.
const remoteImport = "import asyncio, unittest.mock, http.server"

// farAway is the time that each request takes in addition, as to a registry in another city.
const farAway = 20 * time.Millisecond

// measureRemote measures an import with an empty cache, and with one that only has the list of what the import reads first: from the server on this
// machine, and from far away.
func (m *mounted) measureRemote(s *figure.Sheet) {
	traced := m.emptyCache()
	m.user("run", "--trace", "--cache", traced, m.image, "--", "/opt/conda/bin/python3.11", "-S", "-c", remoteImport)
	withList := func() string {
		cache := m.emptyCache()
		must.Do(os.CopyFS(filepath.Join(cache, "firsts"), os.DirFS(filepath.Join(traced, "firsts"))))
		world.Output(exec.CommandContext(m.w.Ctx, "chown", "-R", strconv.Itoa(ordinary), filepath.Join(cache, "firsts")))
		return cache
	}
	server, _, _ := strings.Cut(m.image, "/")
	proxy := httptest.NewServer(delayed(server))
	defer proxy.Close()
	away := strings.Replace(m.image, server, strings.TrimPrefix(proxy.URL, "http://"), 1)
	var none, list, noneAway, listAway remote
	for range 3 * m.w.Rounds {
		none.add(m.importRemote(m.image, m.emptyCache()))
		list.add(m.importRemote(m.image, withList()))
		noneAway.add(m.importRemote(away, m.emptyCache()))
		listAway.add(m.importRemote(away, withList()))
	}
	s.Remark = "from the server on this machine, with an empty cache"
	s.Check("remote: import", figure.Median(none.times), "s", figure.AtMost(1.5))
	s.Check("remote: part of the packages", figure.Median(none.parts), "%", figure.AtMost(12))
	s.Record("remote: requests", figure.Median(none.requests), "")
	s.Remark = "from the server on this machine, with a cache that only has the list of first uses"
	s.Check("remote, with a list: import", figure.Median(list.times), "s", figure.AtMost(1))
	s.Check("remote, with a list: part of the packages", figure.Median(list.parts), "%", figure.AtMost(12))
	s.Record("remote, with a list: requests", figure.Median(list.requests), "")
	s.Remark = "each request takes " + farAway.String() + " longer"
	s.Record("far away: import", figure.Median(noneAway.times), "s")
	s.Record("far away, with a list: import", figure.Median(listAway.times), "s")
	s.Remark = ""
}

// delayed passes requests on to a server after a time.
func delayed(server string) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(farAway)
		proxy.ServeHTTP(w, r)
	})
}

// remote are the times of imports in seconds, the fetched parts of the packages in percent, and the numbers of requests.
type remote struct{ times, parts, requests []float64 }

func (r *remote) add(took, part, requests float64) {
	r.times, r.parts, r.requests = append(r.times, took), append(r.parts, part), append(r.requests, requests)
}

// emptyCache returns a folder for a cache of the user.
func (m *mounted) emptyCache() string {
	dir := must.Get(os.MkdirTemp(m.w.Dir, "empty-"))
	must.Do(os.Chown(dir, ordinary, ordinary))
	return dir
}

// importRemote runs an import with a cache that lacks its files.
func (m *mounted) importRemote(image, cache string) (seconds, part, requests float64) {
	stats, took := m.user("run", "--no-share", "--stats", "--cache", cache, image, "--", "/opt/conda/bin/python3.11", "-S", "-c", remoteImport)
	found := fetchedBytes.FindStringSubmatch(stats)
	if found == nil {
		must.Fail("--stats printed %q", stats)
	}
	number := func(text string) float64 { return float64(must.Get(strconv.ParseInt(text, 10, 64))) }
	return took.Seconds(), 100 * number(found[1]) / float64(m.packed), number(found[2])
}
