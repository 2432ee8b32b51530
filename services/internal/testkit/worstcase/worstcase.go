// Package worstcase creates the largest and most expensive request bodies that the public calls
// accept. Tests and a benchmark measure their cost for other clients.
package worstcase

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
)

// A Body is the body of a POST request.
type Body struct {
	// Path is the path of the call, such as "/v1alpha2/container".
	Path string
	// JSON is the body. It is up to 32 MB, and need not be complete.
	JSON string
}

// Bodies returns the worst body of each kind, by the name of the kind.
func Bodies() map[string]Body {
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
	explicit := "@EXPLICIT\n" + many("https://c.example/a/noarch/a-1-0.conda#"+many("0", 32)+"\n", 13_000)
	pixi := "version: 6\nenvironments:\n  default:\n    channels:\n    - url: https://c.example/a/\n    packages:\n      linux-64:\n" +
		many("      - conda: https://c.example/a/noarch/a-1-0.conda\n", 10_000) + "packages:\n" +
		many("- conda: https://c.example/a/noarch/a-1-0.conda\n", 9_000)
	condaLock := "version: 1\nmetadata: {}\npackage:\n" + many("- {name: a, platform: linux-64, url: 'https://c.example/a/noarch/a-1-0.conda'}\n", 14_000)
	manifest := "[workspace]\nchannels = [\"a\"]\nplatforms = [\"linux-64\"]\n[dependencies]\n"
	for i := range 4_500 {
		manifest += fmt.Sprintf("k%d = \">=%s1\"\n", i, many("1.", 100))
	}
	environment := func(text string) string {
		return `{"packages":{"type":"CONDA","environment":"` + b64(text) + `"}}`
	}
	const container, inspect, run = "/v1alpha2/container", "/v1alpha1/inspect", "/api/trace/create"
	image := `{"containerImage":"alpine",`
	return map[string]Body{
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
		"explicit lock":  {container, environment(explicit)},
		"pixi.lock":      {container, environment(pixi)},
		"pixi.toml":      {container, environment(manifest)},
		"conda-lock":     {container, environment(condaLock)},
		"bombs":          {container, image + `"containerConfig":{"layers":[` + LayerBomb() + many(","+LayerBomb(), 8) + `]}}`},
		"bomb":           {container, `{"containerFile":"` + b64("FROM a") + `","buildContext":` + LayerBomb() + `}`},
		"inspect":        {inspect, `{"containerImage":"` + many("a", 31_000_000) + `"}`},
		"inspect, token": {inspect, image + `"platformAccessToken":"` + many("a", 31_000_000) + `"}`},
		"run":            {run, `{"runName":"` + many("a", 15_000_000) + `"}`},
		"run, values":    {run, `{"x":[{}` + many(",{}", 5_000_000) + `]}`},
	}
}

// LayerBomb returns a layer of a container request: 900 MB of zeros, which are about 1.2 MB
// of base64. It takes seconds the first time.
var LayerBomb = sync.OnceValue(func() string {
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
		panic(err) // a map of strings and a number
	}
	return string(raw)
})
