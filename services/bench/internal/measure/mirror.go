package measure

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"time"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
)

// nameSkopeo is `skopeo copy --all`.
const nameSkopeo = "skopeo"

// Mirror measures copies of an image with two platforms from one registry to another. The peer is
// skopeo, which copies no referrers, so the image has none. Each turn has a new, empty target.
func Mirror(w *world.World, s *figure.Sheet) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		must.Fail("there is no skopeo (apt-get install skopeo)")
	}
	w.Push(world.PairImage)
	turns := []figure.Contender{
		{Name: world.NameSlipway, Run: func() figure.Sample { return mirrorTo(w, w.StartTarget()) }},
		{Name: nameSkopeo, Run: func() figure.Sample { return copyTo(w, w.StartTarget()) }},
	}
	figure.Alternate(w.Ctx, 1, turns...)
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	speed := figure.Metric{Name: "speed", Unit: "MB/s", Of: func(s figure.Sample) float64 { return s.Speed / 1e6 }}
	cpu := figure.Metric{Name: "cpu", Unit: "s", Of: func(s figure.Sample) float64 { return s.CPU }}
	for _, t := range turns {
		s.Medians(r, t.Name, speed, cpu)
	}
	s.Ratio(r, world.NameSlipway, nameSkopeo, speed, figure.AtLeast(0.9))
	s.Ratio(r, world.NameSlipway, nameSkopeo, cpu, figure.AtMost(1))
}

// mirrorTo copies the image with a slipwayd that has been idle since its start.
func mirrorTo(w *world.World, target *process.Server) figure.Sample {
	defer target.Stop()
	logins := w.File("mirror.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, target.Addr, base64.StdEncoding.EncodeToString([]byte("bench:bench"))))
	server := w.StartSlipway("SLIPWAY_ADMIN_REGISTRY_AUTH_FILE="+logins, "SLIPWAY_PLATFORM_HTTP_ADDR="+process.FreeAddr(),
		"SLIPWAY_INSECURE_REGISTRIES="+w.Up.Addr+","+target.Addr)
	defer server.Stop()
	w.Pause(world.Settled)
	body := fmt.Sprintf(`{"containerImage":"%s/%s","mirror":true,"buildRepository":"%s/copies","platformAccessToken":%q}`, w.Up.Addr, world.PairImage, target.Addr, server.Token())
	used, begin := process.Watch(server.Server), time.Now()
	server.Built(w.Ctx, server.Submit(body).RequestID)
	return copied(time.Since(begin), used()[0])
}

// copyTo copies the image with skopeo.
func copyTo(w *world.World, target *process.Server) figure.Sample {
	defer target.Stop()
	cmd := exec.CommandContext(w.Ctx, "skopeo", "--insecure-policy", "copy", "--all", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false",
		"docker://"+w.Up.Addr+"/"+world.PairImage, "docker://"+target.Addr+"/copies/pair:1")
	begin := time.Now()
	world.Output(cmd)
	return copied(time.Since(begin), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
}

func copied(took time.Duration, cpu float64) figure.Sample {
	return figure.Sample{Took: took.Seconds(), CPU: cpu, Speed: world.PairBytes / took.Seconds()}
}
