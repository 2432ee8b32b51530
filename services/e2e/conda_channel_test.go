package e2e

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// labPackages is the package list of a channel.
const labPackages = `{"packages.conda":{
 "samtools-1.20-h1_0.conda":{"name":"samtools","version":"1.20","build":"h1_0","depends":["htslib >=1.20"],"size":10},
 "htslib-1.17-0.conda":{"name":"htslib","version":"1.17","build":"0","size":3},
 "htslib-1.20-0.conda":{"name":"htslib","version":"1.20","build":"0","size":4,"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
}}`

// lab is a channel server whose responses a test can replace.
type lab struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	// begun receives a value when a list is being sent.
	begun chan struct{}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{begun: make(chan struct{}, 100)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		answer := l.answer
		l.mu.Unlock()
		switch {
		case !strings.HasSuffix(r.URL.Path, "/linux-64/repodata.json"):
			http.NotFound(w, r)
		case answer != nil:
			answer(w, r)
		default:
			_, _ = io.WriteString(w, labPackages)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *lab) answers(f http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = f
}

func lockOf(channel string, format string, entries ...string) map[string]any {
	return map[string]any{"packages": map[string]any{"type": "CONDA", "entries": entries, "channels": []string{channel}}, "format": format}
}

// TestCondaChannel searches, describes and locks packages of a channel, including requests
// without a solution.
func TestCondaChannel(t *testing.T) {
	t.Parallel()
	channel := newLab(t)
	eachShape(t, nil, settings{"conda_channel_alias": channel.URL}, func(t *testing.T, p *program) {
		const lock = "/v1alpha1/conda/lock"
		for _, c := range []struct {
			name, method, path string
			body               any
			status             int
			words              string
		}{
			{"a lock", http.MethodPost, lock, lockOf("lab", "", "samtools"), 200, `"` + channel.URL + `/lab/linux-64/samtools-1.20-h1_0.conda"`},
			{"an explicit lock", http.MethodPost, lock, lockOf("lab", "explicit", "samtools"), 200, "@EXPLICIT\n"},
			{"the suggestions for a conflict", http.MethodPost, lock, lockOf("lab", "", "samtools", "htslib=1.17"), 422, `"suggestions"`},
			{"the code of a conflict", http.MethodPost, lock, lockOf("lab", "", "samtools", "htslib=1.17"), 422, `"code":"conda.conflict"`},
			{"a misspelt package name", http.MethodPost, lock, lockOf("lab", "", "samtols"), 422, `"nearest"`},
			{"a request without packages", http.MethodPost, lock, map[string]any{}, 400, "packages is missing"},
			{"a search", http.MethodGet, "/v1alpha1/conda/packages?q=sam&channel=lab", nil, 200, `"samtools"`},
			{"a package", http.MethodGet, "/v1alpha1/conda/packages/lab/htslib", nil, 200, `"1.17"`},
			{"a missing package", http.MethodGet, "/v1alpha1/conda/packages/lab/nothing", nil, 404, "nothing"},
			{"an invalid channel name", http.MethodGet, "/v1alpha1/conda/packages?channel=a%20b", nil, 400, "name of a channel"},
		} {
			if r := p.call(c.method, c.path, c.body); r.status != c.status || !strings.Contains(string(r.body), c.words) {
				t.Errorf("%s: %d %s; want %d with %s", c.name, r.status, r.body, c.status, c.words)
			}
		}
		if len(p.procs) == 1 { // the other shape has no builder
			conflictAsData(t, p)
		}
	})
}

// conflictAsData checks that the response to a container request contains the same conflict and
// suggestions, as JSON, as the response to a lock request.
func conflictAsData(t *testing.T, p *program) {
	t.Helper()
	query := lockOf("lab", "", "samtools", "htslib=1.17")["packages"].(map[string]any)
	lock := p.call(http.MethodPost, "/v1alpha1/conda/lock", map[string]any{"packages": query}).json(t)
	query["condaOpts"] = map[string]any{"basePackages": ""}
	r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"packages": query})
	got := r.json(t)
	details, _ := got["details"].(map[string]any)
	if r.status != http.StatusBadRequest || got["code"] != "conda.conflict" || !reflect.DeepEqual(details["conflict"], lock["conflict"]) || !reflect.DeepEqual(details["suggestions"], lock["suggestions"]) {
		t.Errorf("the request returned %d %s, and the lock %v", r.status, r.body, lock)
	}
}

// TestCondaChannelIsCutOff kills a process while it reads a package list. After the restart no
// part of the list may be used. A process that has a complete list must work without the channel,
// even if it was killed while it read a newer list.
func TestCondaChannelIsCutOff(t *testing.T) {
	t.Parallel()
	channel := newLab(t)
	p := oneProcess(t, common(t, nil, settings{"conda_channel_alias": channel.URL}))
	one := p.procs[0]
	release := channel.stops()
	go func() {
		resp, err := http.Post(p.url+"/v1alpha1/conda/lock", "application/json", strings.NewReader(`{"packages":{"type":"CONDA","entries":["samtools"],"channels":["lab"]}}`))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	channel.awaits(t)
	one.kill()
	release()
	one.start()
	locks := func(when string) {
		t.Helper()
		if r := p.call(http.MethodPost, "/v1alpha1/conda/lock", lockOf("lab", "", "samtools")); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", when, r.status, r.body)
		}
	}
	locks("after a kill in the middle of a list")
	one.kill()

	release = channel.stops()
	indexes := filepath.Join(one.env["data_dir"], "conda")
	age(t, indexes, 24*time.Hour)
	one.start()
	locks("while a newer list is read")
	channel.awaits(t)
	half := func() error {
		if left, err := filepath.Glob(filepath.Join(indexes, ".new-*")); err != nil || len(left) == 0 {
			return errors.New("no new index is begun")
		}
		return nil
	}
	if err := within(time.Minute, half); err != nil {
		t.Error(err)
	}
	one.kill()
	release()
	channel.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "garbage") })
	one.start()
	locks("after a kill in the middle of a newer list, with a channel that is broken now")
}

// stops makes the channel send half a list and then block until it is released.
func (l *lab) stops() (release func()) {
	hold := make(chan struct{})
	l.answers(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, labPackages[:len(labPackages)/2])
		_ = http.NewResponseController(w).Flush()
		l.begun <- struct{}{}
		<-hold
	})
	return func() {
		close(hold)
		l.answers(nil)
	}
}

// awaits waits until a list is being sent.
func (l *lab) awaits(t *testing.T) {
	t.Helper()
	select {
	case <-l.begun:
	case <-time.After(time.Minute):
		t.Fatal("the channel got no request")
	}
}

// age makes indexes older.
func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.idx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no indexes in %s: %v", dir, err)
	}
	for _, path := range files {
		then := time.Now().Add(-by)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
}
