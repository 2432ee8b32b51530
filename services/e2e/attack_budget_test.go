package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/testkit"
)

// budget is the memory that the program is told to keep to, budgetPeak the bound that is
// held against what the kernel counted, and budgetTime what six requests may take of a
// processor: several times what the worst of them takes.
const (
	budget     = "384MiB"
	budgetPeak = 640 << 20
	budgetTime = 10 * time.Second
)

// worst is the largest or most costly body of each kind, by what it is.
func worst(t testing.TB) map[string]struct{ path, body string } {
	t.Helper()
	many := strings.Repeat
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	growing := "FROM a\nENV A0=0123456789\n"
	for i := range 20 {
		growing += fmt.Sprintf("ENV A%d=%s\n", i+1, many(fmt.Sprintf("$A%d", i), 10))
	}
	aliases := "dependencies: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 20 {
		aliases += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, many(fmt.Sprintf("*a%d,", i), 8), i)
	}
	const container, inspect, run = "/v1alpha2/container", "/v1alpha1/inspect", "/api/trace/create"
	image := `{"containerImage":"alpine",`
	return map[string]struct{ path, body string }{
		"variables":      {container, image + `"containerConfig":{"env":["A=` + many("a", 30_000_000) + `"]}}`},
		"fingerprint":    {container, image + `"fingerprint":"` + many("a", 31_000_000) + `"}`},
		"escaped":        {container, image + `"fingerprint":"` + many(`\u00e4`, 5_000_000) + `"}`},
		"empty layers":   {container, image + `"containerConfig":{"layers":[{}` + many(",{}", 10_600_000) + `]}}`},
		"nesting":        {container, image + `"x":` + many("[", 31_000_000)},
		"unknown":        {container, image + `"x":[0` + many(",0", 15_000_000) + `]}`},
		"growing":        {container, `{"containerFile":"` + b64(growing) + `"}`},
		"aliases":        {container, `{"packages":{"type":"CONDA","environment":"` + b64(aliases) + `"}}`},
		"deep YAML":      {container, `{"condaFile":"` + b64("dependencies: "+many("[", 30_000)) + `"}`},
		"lines of YAML":  {container, `{"condaFile":"` + b64("dependencies:\n"+many("- a\n", 9_000)) + `"}`},
		"entries":        {container, `{"packages":{"type":"CONDA","entries":["a"` + many(`,"a"`, 7_000_000) + `]}}`},
		"bombs":          {container, image + `"containerConfig":{"layers":[` + layerBomb(t) + many(","+layerBomb(t), 8) + `]}}`},
		"bomb":           {container, `{"containerFile":"` + b64("FROM a") + `","buildContext":` + layerBomb(t) + `}`},
		"inspect":        {inspect, `{"containerImage":"` + many("a", 31_000_000) + `"}`},
		"inspect, token": {inspect, image + `"platformAccessToken":"` + many("a", 31_000_000) + `"}`},
		"run":            {run, `{"runName":"` + many("a", 15_000_000) + `"}`},
		"run, values":    {run, `{"x":[{}` + many(",{}", 5_000_000) + `]}`},
	}
}

// layerBomb is a layer of 900 MB, or what it says is one, in about 1.2 MB of base64.
func layerBomb(t testing.TB) string {
	t.Helper()
	made.Do(func() {
		var member, out bytes.Buffer
		z, tar, zeros := gzip.NewWriter(&member), sha256.New(), make([]byte, 1<<20)
		_, _ = z.Write(zeros)
		_ = z.Close()
		for range 900 {
			_, _ = out.Write(member.Bytes())
			_, _ = tar.Write(zeros)
		}
		raw, err := json.Marshal(map[string]any{
			"location": "data:" + base64.StdEncoding.EncodeToString(out.Bytes()), "gzipSize": out.Len(),
			"gzipDigest": digest.FromBytes(out.Bytes()).String(), "tarDigest": digest.NewDigest(digest.SHA256, tar).String(),
		})
		if err != nil {
			t.Fatal(err)
		}
		bombText = string(raw)
	})
	return bombText
}

// It takes seconds to make.
var (
	made     sync.Once
	bombText string
)

// TestMemoryBudget sends the worst that every public call accepts, six at a time of each:
// the program stays within its budgets, lives on, and answers others meanwhile.
func TestMemoryBudget(t *testing.T) {
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	p := oneProcess(t, common(t, []string{up.Host}, settings{thisProgram: plain(), "memory_limit": budget, "limit_requests_anonymous": "0"}))
	for name, w := range worst(t) {
		before := p.procs[0].processor()
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				client := http.Client{Timeout: 2 * time.Minute}
				resp, err := client.Post(p.url+w.path, "application/json", strings.NewReader(w.body))
				if err != nil {
					return // it may be refused before it is sent in full
				}
				defer resp.Body.Close()
				if resp.StatusCode < 400 || resp.StatusCode == http.StatusInternalServerError {
					t.Errorf("%s: answered %d", name, resp.StatusCode)
				}
			})
		}
		if r := request(t, http.MethodGet, p.url+"/service-info", nil); r.status != http.StatusOK {
			t.Errorf("during %s others get %d %s", name, r.status, r.body)
		}
		all.Wait()
		if took := p.procs[0].processor() - before; took > budgetTime {
			t.Errorf("%s took %s of a processor", name, took)
		} else {
			t.Logf("%s took %s of a processor", name, took)
		}
		if peak := p.procs[0].peak(); peak > budgetPeak {
			t.Errorf("after %s the program has taken %d MiB", name, peak>>20)
		}
	}
	if target := p.submit(map[string]any{"containerImage": image}); target == "" {
		t.Error("afterwards nothing is answered")
	}
	t.Logf("the peak is %d MiB", p.procs[0].peak()>>20)
}
