package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/condadata"
)

// The packages have the names, dependencies and relative sizes of real ones. Their size is divided by scale, since all nodes share this machine.
const (
	scale = 10
	// installedRatio is about how much larger the files of a package are than the package.
	installedRatio = 3.3
	// fileMean is the mean size of a file in bytes.
	fileMean = 16_000
	// readPart is the part of the files of each package that a task reads: the first of so many, since programs read neighbouring files.
	readPart = 10
	// least and most limit the number of packages of an environment, and largest the size of its packages in bytes.
	least, most, largest = 15, 150, 250_000_000
)

// channelName is the name of the channel.
const channelName = "bench"

// taskScript is the script of a task. Its folder is that of the environment. It reads a part of the files of each package, and prints a word.
const taskScript = `n=$(cat $(cat share/task/*) | wc -c) && [ "$n" -gt 0 ] && echo ready`

// A plan is what all contenders run.
type plan struct {
	// environments are the requested packages of each environment.
	environments [][]string
	// channel serves the packages, with the list of one of two releases. A fifth of the packages of the second one is newer.
	channel  *httptest.Server
	releases [2][]byte
	current  atomic.Int32
	// packages is the number of packages of the first release, packed their size, and inEach the sum of the sizes of all environments.
	packages       int
	packed, inEach int64
}

// newPlan chooses the first requests of the test data that have a solution of ordinary size, and writes the packages of their solutions.
func newPlan(w *world.World) *plan {
	records := forgeRecords()
	p, used := &plan{}, map[string]int64{}
	for _, s := range condadata.Solves(must.T{}) {
		if len(p.environments) == environments {
			break
		}
		sum := int64(0)
		for _, file := range s.Rattler {
			sum += records[file].Size
		}
		if n := len(s.Rattler); n < least || n > most || sum > largest {
			continue
		}
		p.environments = append(p.environments, s.Specs)
		for _, file := range s.Rattler {
			used[file]++
		}
	}
	dir, text := must.Get(os.MkdirTemp(w.Dir, "channel-")), pool(w)
	first, second := map[string]channel.Record{}, map[string]channel.Record{}
	exact := exactBuilds(records, used)
	for _, file := range slices.Sorted(maps.Keys(used)) {
		rec := records[file]
		name, made := write(dir, rec, text, file)
		first[name], second[name] = made, made
		p.packed, p.inEach = p.packed+made.Size, p.inEach+made.Size*used[file]
		if number(file)%5 == 0 && !exact[rec.Build] {
			rec.Build, rec.BuildNumber = "new"+rec.Build, rec.BuildNumber+1000
			name, made := write(dir, rec, text, "new"+file)
			second[name] = made
		}
	}
	p.packages = len(first)
	for i, packages := range []map[string]channel.Record{first, second} {
		p.releases[i] = must.Get(json.Marshal(map[string]map[string]channel.Record{"packages": {}, "packages.conda": packages}))
	}
	p.channel = p.serve(dir)
	return p
}

// forgeRecords returns all real records by file name.
func forgeRecords() map[string]channel.Record {
	out := map[string]channel.Record{}
	for _, subdir := range []string{"linux-64", "noarch"} {
		var list struct {
			Packages map[string]channel.Record `json:"packages"`
			Conda    map[string]channel.Record `json:"packages.conda"`
		}
		must.Do(json.Unmarshal(condadata.Repodata(must.T{}, "conda-forge", subdir), &list))
		maps.Copy(out, list.Packages)
		maps.Copy(out, list.Conda)
	}
	return out
}

// exactBuilds returns the builds that dependencies name: another build would not fulfil them.
func exactBuilds(records map[string]channel.Record, used map[string]int64) map[string]bool {
	out := map[string]bool{}
	for file := range used {
		for _, d := range records[file].Depends {
			if words := strings.FieldsFunc(d, func(r rune) bool { return r == ' ' || r == '=' }); len(words) > 2 {
				out[words[len(words)-1]] = true
			}
		}
	}
	return out
}

// write writes a package with files of the usual sizes. Different seeds result in different files.
func write(dir string, rec channel.Record, text []byte, seed string) (string, channel.Record) {
	random := rand.New(rand.NewPCG(number(seed), 2))
	all := int(float64(rec.Size) / scale * installedRatio)
	left := all
	files := []channel.File{channel.Text("bin/"+rec.Name, "#!"+channel.Placeholder+"/bin/sh\nexec "+channel.Placeholder+"/lib/"+rec.Name+"/00000\n", "text")}
	var list strings.Builder
	for i := 0; i == 0 || left > 0; i++ {
		size := min(max(int(random.ExpFloat64()*fileMean), 100), max(left, 100), len(text))
		left -= size
		from := random.IntN(len(text) - size + 1)
		path := fmt.Sprintf("lib/%s/%05d", rec.Name, i)
		files = append(files, channel.File{Path: path, Size: int64(size), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text[from : from+size])), nil }})
		if i == 0 || all-left <= all/readPart {
			fmt.Fprintln(&list, path)
		}
	}
	files = append(files, channel.Text("share/task/"+rec.Name, list.String(), ""))
	return channel.WriteRecord(dir, rec, zstd.SpeedBetterCompression, files)
}

// pool returns bytes of programs and texts.
func pool(w *world.World) []byte {
	const most = 64 << 20
	var out bytes.Buffer
	files := channel.GoFiles(w)
	rand.New(rand.NewPCG(1, 3)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for _, f := range files {
		in := must.Get(f.Open())
		must.Get(io.Copy(&out, in))
		must.Do(in.Close())
		if out.Len() > most {
			break
		}
	}
	return out.Bytes()
}

func number(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// serve serves the channel, whose artifacts are in a folder.
func (p *plan) serve(dir string) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+channelName+"/linux-64/{file}", func(out http.ResponseWriter, r *http.Request) {
		switch file := r.PathValue("file"); {
		case file == "repodata.json":
			out.Header().Set("Content-Type", "application/json")
			_, _ = out.Write(p.releases[p.current.Load()]) // the client sees what is missing
		case filepath.Ext(file) == ".conda":
			http.ServeFile(out, r, filepath.Join(dir, file))
		default:
			http.NotFound(out, r)
		}
	})
	return httptest.NewServer(mux)
}
