package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// hostileStep is the program of a hostile step; see its cases.
const hostileStep = `package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "sniff":
		_, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0x0300)
		fmt.Println("AF_PACKET:", err)
	case "show":
		interfaces, _ := net.Interfaces()
		sockets, _ := os.ReadFile("/proc/net/unix")
		_, err := os.Stat("/dev/otel-grpc.sock")
		var open []int
		for port := 1; port < 65536; port++ {
			if c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second); err == nil {
				open = append(open, port)
				_ = c.Close()
			}
		}
		fmt.Printf("interfaces %d, unix sockets %d, otel %v, ports %v\n", len(interfaces), strings.Count(string(sockets), "\n")-1, err == nil, open)
	case "connect":
		for _, a := range os.Args[2:] {
			c, err := net.Dial("tcp", "127.0.0.1:3128")
			if err != nil {
				fmt.Println("no proxy:", err)
				continue
			}
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", a, a)
			line, _ := bufio.NewReader(c).ReadString('\n')
			fmt.Println("asked for", a, strings.TrimSpace(line))
			_ = c.Close()
		}
	case "look":
		// Which processes of other builds can be inspected or signalled?
		var reached []string
		mine, _ := os.Readlink("/proc/self/ns/pid")
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range all {
			pid, _ := strconv.Atoi(filepath.Base(p))
			name, _ := os.ReadFile(p + "/cmdline")
			others := strings.Contains(string(name), "buildkitd") || strings.Contains(string(name), "sleep")
			if ns, err := os.Readlink(p + "/ns/pid"); err == nil && ns != mine || others && syscall.Kill(pid, 0) == nil {
				reached = append(reached, string(name))
			}
		}
		fmt.Printf("processes of others: %q\n", reached)
	case "flood":
		var held []net.Conn
		end := time.Now().Add(20 * time.Second)
		for len(held) < 22000 && time.Now().Before(end) {
			c, err := net.DialTimeout("tcp", "127.0.0.1:3128", time.Second)
			if err != nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			held = append(held, c)
		}
		fmt.Println("flooded")
	}
}
`

// hostileImage returns busybox with the hostile program.
func hostileImage(t *testing.T, up *testkit.Registry) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": hostileStep, "go.mod": "module hostile\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "hostile", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the hostile program: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "hostile"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "hostile", Mode: 0o755, Size: int64(len(program))})
	_, _ = w.Write(program)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(busybox(t, true), layer)
	if err != nil {
		t.Fatal(err)
	}
	return up.Push(t, "base/hostile:1", img)
}

// TestStepsReachNothing runs hostile steps. They try to receive other connections, to inspect
// other processes, and to reach the service through their proxy, although egress_allow contains
// its addresses.
func TestStepsReachNothing(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := hostileImage(t, up)
	p := oneProcess(t, common(t, []string{up.Host}, settings{"egress_allow": "0.0.0.0/0,::/0,localhost"}))
	var asked []string
	for _, key := range []string{"http_addr", "admin_addr", "store_addr", "platform_http_addr"} {
		_, port, _ := net.SplitHostPort(p.procs[0].env[key])
		for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "127.0.0.9", "[::ffff:127.0.0.1]"} {
			asked = append(asked, host+":"+port)
		}
	}
	asked = append(asked, up.Host)
	log := func(lines ...string) string {
		t.Helper()
		answer := p.order(recipe(append([]string{"FROM " + base}, lines...)...))
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Errorf("the build ended as %v", s)
		}
		return string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
	}
	got := log("RUN /hostile sniff", "RUN /hostile show", "RUN /hostile connect "+strings.Join(asked, " "))
	for _, want := range []string{"AF_PACKET: operation not permitted", "interfaces 1, unix sockets 0, otel false, ports [3128]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	for _, a := range asked {
		if !strings.Contains(got, "asked for "+p.shown(a, p.procs[0].env["store_addr"])+" HTTP/1.1 403 ") {
			t.Errorf("%s was reached: %s", a, tail(got, 3000))
		}
	}
	// Two concurrent steps listen on the same port. Each must only receive its own connection.
	got = log(listens("one"), "FROM "+base, listens("two"), "COPY --from=0 /heard /also")
	if !strings.Contains(got, "one heard one.") || !strings.Contains(got, "two heard two.") {
		t.Errorf("steps that listen on one port: %s", tail(got, 3000))
	}
	// While a step holds thousands of connections, other builds must succeed.
	flood := p.order(recipe("FROM "+base, "RUN /hostile flood"))
	if got := log("RUN echo meanwhile", "RUN --network=none busybox wget -q -O - http://127.0.0.1:3128/ || echo nothing there"); !strings.Contains(got, "nothing there") {
		t.Errorf("the step printed %s", got)
	}
	if s := p.finished(t, flood); s["succeeded"] != true {
		t.Errorf("the build of the flood ended as %v", s)
	}
}

// listens returns a step that sends its name to clients of a port. It connects to the port
// after a delay in which another step could have done the same.
func listens(name string) string {
	return "RUN (while :; do echo " + name + " | busybox nc -l -p 5000; done) & busybox sleep 3; " +
		"busybox nc 127.0.0.1 5000 </dev/null >/heard; echo " + name + " heard $(busybox cat /heard)."
}

// TestStepsAreCachedFromEverySlot builds two images concurrently, then repeats their steps.
func TestStepsAreCachedFromEverySlot(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"build_concurrency": "2"}))
	one := p.order(recipe("FROM "+base, "RUN echo one > /one && busybox sleep 3"))
	two := p.order(recipe("FROM "+base, "RUN echo two > /two && busybox sleep 3"))
	for _, answer := range []map[string]any{one, two} {
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v", s)
		}
	}
	for _, line := range []string{"RUN echo one > /one && busybox sleep 3", "RUN echo two > /two && busybox sleep 3"} {
		answer := p.order(recipe("FROM "+base, line, "LABEL again=yes"))
		p.finished(t, answer)
		if log := string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body); !strings.Contains(log, "CACHED") {
			t.Errorf("%s was not cached: %s", line, log)
		}
	}
}
