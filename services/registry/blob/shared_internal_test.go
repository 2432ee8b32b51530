package blob

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// A troubled server is an S3 server that can be made to fail.
type troubled struct {
	*testkit.S3
	url     string
	asked   atomic.Int64
	mu      sync.Mutex
	trouble func(w http.ResponseWriter, r *http.Request) bool // reports whether it has responded
}

func newTroubled(t *testing.T) *troubled {
	t.Helper()
	s := &troubled{S3: testkit.StartS3(t)}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(at); r.Out.Host = r.In.Host }, // the signature includes the host
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		trouble := s.trouble
		s.mu.Unlock()
		if trouble == nil || !trouble(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.url = server.URL
	return s
}

func (s *troubled) in(trouble func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

// blobs returns the names of the complete blobs in the bucket.
func (s *troubled) blobs(t *testing.T) (out []string) {
	t.Helper()
	for name, size := range s.Objects(t) {
		if cachedName.MatchString(name) && size > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// openBucket returns a replica with a bucket that was swept. The returned value advances
// its clock.
func openBucket(t *testing.T, s *troubled, limit int64) (b *shared, ahead *atomic.Int64) {
	t.Helper()
	at, err := bucket.Parse(s.Address(s.url))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := bucket.Open(at, s.Credentials(t))
	if err != nil {
		t.Fatal(err)
	}
	ahead = new(atomic.Int64)
	b = newShared(Config{
		Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Bucket: opened, Size: limit,
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	t.Cleanup(func() { _ = b.Close() })
	if err := b.readOrSweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, ahead
}

// block returns a blob of the minimum cached size, which consists of one letter.
func block(s string) string { return strings.Repeat(s, limits.BucketBlobLeast) }

// pass reads a blob through the bucket under the given key, and waits for the upload.
func pass(t *testing.T, b *shared, key Key, content string) {
	t.Helper()
	f := b.Fill(key, strings.NewReader(content))
	if f == nil {
		t.Fatal("the blob is not cached")
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != content {
		t.Fatalf("the client received %d bytes, %v", len(got), err)
	}
	f.Commit()
	f.End()
	if u := f.to.(*upload); u.begun {
		<-u.done
	}
}

func inBucket(t *testing.T, b *shared, key Key) bool {
	t.Helper()
	f, ok := b.Find(t.Context(), key)
	if !ok {
		return false
	}
	resp, err := http.Get(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK && int64(len(content)) == key.Size
}

// TestInvalidContentIsNotUploaded verifies that neither invalid content nor a partially
// read blob is uploaded.
func TestInvalidContentIsNotUploaded(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	b, _ := openBucket(t, s, 1<<30)
	key, content := keyOf(block("a")), block("a")
	for name, is := range map[string]string{"poisoned": content[1:] + "b", "short": content[1:], "long": content + "a", "empty": ""} {
		pass(t, b, key, is)
		if left := s.blobs(t); len(left) != 0 || inBucket(t, b, key) || b.used() != 0 {
			t.Errorf("%s, there are %q, %d bytes", name, left, b.used())
		}
	}
	f := b.Fill(key, strings.NewReader(content))
	if _, err := io.ReadFull(f, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if b.Fill(key, nil) != nil {
		t.Error("the blob is uploaded twice concurrently")
	}
	f.End()
	<-f.to.(*upload).done
	if left := s.blobs(t); len(left) != 0 || b.used() != 0 || testutil.ToFloat64(b.failed) != 0 {
		t.Errorf("half of it, there are %q, %d bytes", left, b.used())
	}
	pass(t, b, key, content)
	if !inBucket(t, b, key) || len(s.blobs(t)) != 1 || b.used() != key.Size {
		t.Errorf("it is not there: %q, %d bytes", s.blobs(t), b.used())
	}
	if left := maps.Clone(s.Objects(t)); len(left) != 2 { // the blob, and the record
		t.Errorf("there are %v", left)
	}
	if b.Fill(keyOf("small"), nil) != nil || b.Fill(Key{Size: 1 << 60}, nil) != nil || b.Fill(Key{Size: 1<<28 + 1}, nil) != nil {
		t.Error("blobs of any size are cached")
	}
}

// TestFailingBucket verifies that a failing server delays only one request, and is tried
// again after a while.
func TestFailingBucket(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	answer := func(code int, body string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	for name, trouble := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"forbidding": answer(http.StatusForbidden, "<Error><Code>AccessDenied</Code></Error>"),
		"full":       answer(http.StatusInsufficientStorage, "<Error><Code>QuotaExceeded</Code></Error>"),
		"down":       answer(http.StatusServiceUnavailable, "no XML"),
		"busy":       answer(http.StatusServiceUnavailable, "<Error><Code>SlowDown</Code></Error>"),
		"gone":       func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"hanging": func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTroubled(t)
			b, ahead := openBucket(t, s, 1<<30)
			key, content := keyOf(block("a")), block("a")
			pass(t, b, key, content)
			if !inBucket(t, b, key) {
				t.Fatal("it is not there")
			}
			s.in(trouble)
			before := s.asked.Load()
			for range 20 {
				if _, ok := b.Find(t.Context(), key); ok {
					t.Fatal("it is found")
				}
			}
			most := int64(1)
			if name == "gone" {
				most = 2 // the client retries on a new connection if a reused one was closed
			}
			if asked := s.asked.Load() - before; asked > most || testutil.ToFloat64(b.failed) != 1 {
				t.Errorf("it is asked %d times, and %v failed", asked, testutil.ToFloat64(b.failed))
			}
			if name != "hanging" { // there the upload would still wait for the response
				other := keyOf(block("b"))
				pass(t, b, other, block("b"))
				if b.Fill(other, nil) != nil || testutil.ToFloat64(b.failed) != 2 || b.used() != key.Size {
					t.Errorf("it is put again; %v failed, %d bytes", testutil.ToFloat64(b.failed), b.used())
				}
			}
			s.in(nil)
			if inBucket(t, b, key) {
				t.Error("it is asked before its time")
			}
			ahead.Add(int64(limits.BucketBackoff))
			for range 2 {
				if !inBucket(t, b, key) {
					t.Error("it is not asked again")
				}
			}
			if name != "hanging" {
				pass(t, b, keyOf(block("c")), block("c"))
			}
		})
	}
}

// TestWrongSize verifies that an object with another size is not used, and replaced.
func TestWrongSize(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	b, _ := openBucket(t, s, 1<<30)
	key, content := keyOf(block("a")), block("a")
	pass(t, b, key, content)
	if err := os.Truncate(filepath.Join(s.Dir, "kept", key.name()), 7); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Find(t.Context(), key); ok || testutil.ToFloat64(b.failed) != 1 {
		t.Error("it is found")
	}
	pass(t, b, key, content)
	if !inBucket(t, b, key) {
		t.Error("it is not replaced")
	}
}

// TestSlowBucket verifies that a slow upload delays its client for a limited time only.
func TestSlowBucket(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	b, _ := openBucket(t, s, 1<<30)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.in(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.ContentLength > 0 {
			<-hang // and reads nothing
			return true
		}
		return false
	})
	content := strings.Repeat("slow", 12<<20) // more than all buffers between them hold
	began := time.Now()
	pass(t, b, keyOf(content), content)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the client waits for %s", took)
	}
	if len(s.blobs(t)) != 0 || b.used() != 0 || testutil.ToFloat64(b.failed) != 1 {
		t.Errorf("%q, %d bytes, %v failed", s.blobs(t), b.used(), testutil.ToFloat64(b.failed))
	}
}

// age moves the modification time of an object to the past.
func (s *troubled) age(t *testing.T, name string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(s.Dir, "kept", name), then, then); err != nil {
		t.Fatal(err)
	}
}

// TestBucketIsBounded verifies that the least recently used blobs are evicted, except those
// with valid URLs, and that foreign objects are not deleted.
func TestBucketIsBounded(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	const blob = limits.BucketBlobLeast
	b, ahead := openBucket(t, s, 16*blob)
	names := map[string]string{}
	letters := strings.Split("abcdefghijklmnop", "")
	for i, letter := range letters {
		key := keyOf(block(letter))
		names[key.name()] = letter
		if i > 0 { // as after a sweep; otherwise this process would stop to upload
			b.own = 0
			b.total = int64(i) * blob
		}
		pass(t, b, key, block(letter))
		s.age(t, key.name(), time.Duration(50-i)*time.Hour)
	}
	if b.Fill(keyOf(block("x")), nil) != nil {
		t.Error("there is room for one more")
	}
	if !inBucket(t, b, keyOf(block("a"))) { // the lookup marks it as used
		t.Error("a is not there")
	}
	b.work.Wait()
	write := func(name string, old time.Duration) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.Dir, "kept", name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.age(t, name, old)
	}
	write("notes.txt", 99*time.Hour)
	write("orphan"+usedMark, 99*time.Hour) // a foreign object
	old, young := keyOf(block("y")).name(), keyOf(block("z")).name()
	write(old+usedMark, 99*time.Hour)
	write(old+claimMark, 99*time.Hour)
	write(young+claimMark, 0)
	ahead.Add(int64(bucketSwept + time.Minute))
	if err := b.readOrSweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := ""
	for _, name := range s.blobs(t) {
		kept += names[name]
	}
	sorted := strings.Split(kept, "")
	slices.Sort(sorted)
	if got := strings.Join(sorted, ""); got != "afghijklmnop" || b.used() != 12*blob || testutil.ToFloat64(b.evicted) != 4 {
		t.Errorf("%s are kept, %d bytes, %v left", got, b.used(), testutil.ToFloat64(b.evicted))
	}
	objects := s.Objects(t)
	for name, want := range map[string]bool{
		"notes.txt": true, "orphan" + usedMark: true, old + usedMark: false, old + claimMark: false, young + claimMark: true, sweptRecord: true, sweptRecord + claimMark: false,
	} {
		if _, is := objects[name]; is != want {
			t.Errorf("%s is there: %v", name, is)
		}
	}
	pass(t, b, keyOf(block("x")), block("x"))

	other, _ := openBucket(t, s, 16*blob) // a new replica
	if other.used() != 12*blob || !inBucket(t, other, keyOf(block("x"))) {
		t.Errorf("another knows of %d bytes", other.used())
	}
	tight, ahead := openBucket(t, s, 4*blob) // a replica with a lower limit
	ahead.Add(int64(bucketSwept + time.Minute))
	if err := tight.readOrSweep(t.Context()); err != nil || tight.used() != 3*blob {
		t.Errorf("less, there are %d bytes, %v", tight.used(), err)
	}
	if !inBucket(t, tight, keyOf(block("x"))) || !inBucket(t, tight, keyOf(block("a"))) {
		t.Error("a blob in use was evicted")
	}
}

// TestOneSweepsAtATime verifies that one replica sweeps at a time, and that the claim of a
// dead one expires.
func TestOneSweepsAtATime(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	b, ahead := openBucket(t, s, 1<<20)
	for _, letter := range []string{"a", "b", "c"} {
		pass(t, b, keyOf(block(letter)), block(letter))
		b.own = 0
		s.age(t, keyOf(block(letter)).name(), 100*time.Hour)
	}
	release, err := b.claim(t.Context(), sweptRecord)
	if err != nil {
		t.Fatal(err)
	}
	b.limit = limits.BucketBlobLeast
	ahead.Add(int64(bucketSwept + time.Minute))
	if err := b.readOrSweep(t.Context()); err != nil || len(s.blobs(t)) != 3 {
		t.Errorf("%q are there, %v", s.blobs(t), err)
	}
	s.age(t, sweptRecord+claimMark, 3*limits.BucketUpload)
	for range 2 { // the first call deletes the expired claim, and the second sweeps
		if err := b.readOrSweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(s.blobs(t)) != 0 {
		t.Errorf("%q are there", s.blobs(t))
	}
	release()
}

// TestBucketConcurrently reads and uploads the same blobs with clients of two replicas.
// Each client receives its blob, and all blobs in the bucket are complete.
func TestBucketConcurrently(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	var replicas []*shared
	for range 2 {
		b, _ := openBucket(t, s, 1<<30)
		replicas = append(replicas, b)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			b := replicas[i%2]
			for n := range 20 {
				content := block(string(rune('a' + (i+n)%5)))
				key := keyOf(content)
				if _, ok := b.Find(t.Context(), key); ok {
					continue
				}
				from := io.Reader(strings.NewReader(content))
				f := b.Fill(key, from)
				if f != nil {
					from = f
				}
				if got, err := io.ReadAll(from); err != nil || string(got) != content {
					t.Errorf("a client has %d bytes, %v", len(got), err)
				}
				if f != nil {
					f.Commit()
					f.End()
				}
			}
		})
	}
	all.Wait()
	for _, b := range replicas {
		_ = b.Close()
	}
	objects := s.Objects(t)
	for name, size := range objects {
		if cachedName.MatchString(name) && size != limits.BucketBlobLeast || strings.HasSuffix(name, claimMark) {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
	if len(s.blobs(t)) != 5 || testutil.ToFloat64(replicas[0].failed)+testutil.ToFloat64(replicas[1].failed) != 0 {
		t.Errorf("there are %v", objects)
	}
}

func FuzzSwept(f *testing.F) {
	f.Add([]byte(`{"bytes":123}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if record, ok := parseSwept(content); ok && record.Bytes < 0 {
			t.Error(record)
		}
	})
}

// TestRest verifies that one attempt at a time is allowed after a failure.
func TestRest(t *testing.T) {
	t.Parallel()
	var r rest
	now := time.Now()
	if first := r.may(now); !first || !r.may(now) || r.worked() {
		t.Error("it rests")
	}
	if !r.failed(now) || r.failed(now) || r.may(now) {
		t.Error("it does not rest")
	}
	later := now.Add(limits.BucketBackoff)
	if !r.may(later) || r.may(later) {
		t.Error("not one tries")
	}
	r.unknown()
	if !r.may(later) || !r.worked() || r.worked() || !r.may(later) {
		t.Error("it does not end")
	}
}
