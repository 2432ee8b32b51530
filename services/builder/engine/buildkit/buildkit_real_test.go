package buildkit_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/testkit"
)

func reason(err error) jobs.Reason {
	var f *jobs.Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return ""
}

func TestBuildKit(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Memory: 64 << 20})
	local, err := net.Listen("tcp", "127.0.0.1:0") // a service of this machine that builds must not reach
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	go func() {
		for {
			c, err := local.Accept()
			if err != nil {
				return
			}
			t.Error("a build reached a service of this machine")
			_ = c.Close()
		}
	}()
	_, localPort, _ := net.SplitHostPort(local.Addr().String())

	for _, c := range []struct {
		name, dockerfile string
		want             jobs.Reason
		says, prints     string
	}{
		{"scratch", "FROM scratch\nCOPY hello /hello\n", "", "", ""},
		{"empty", "FROM scratch\nLABEL a=b\n", "", "", ""},
		{"run", "# syntax=docker/dockerfile:1\nFROM BASE\nRUN echo printed-$((40+2))\n", "", "", "printed-42"},
		{"fails", "FROM BASE\nRUN echo the reason; exit 3\n", jobs.Build, "the reason", "the reason"},
		{"solve", "FROM BASE\nRUN echo 'slipway: conda environment could not be solved'; exit 1\n", jobs.Solve, "could not be solved", ""},
		{"memory", "FROM BASE\nRUN dd if=/dev/zero of=/dev/null bs=200M count=1\n", jobs.Memory, "memory", ""},
		{"syntax", "FROM BASE\nBANANA\n", jobs.Build, "unknown instruction", ""},
		{"nobase", "FROM " + w.From.Host + "/no/such:1\n", jobs.Build, "no/such:1 cannot be used: ", ""},
		{"loopback", "FROM BASE\nRUN unset http_proxy; nc -w 2 127.0.0.1 " + localPort + " </dev/null\n", jobs.Build, "", ""},
		{"proxied", "FROM BASE\nRUN (printf 'GET http://127.0.0.1:" + localPort + "/ HTTP/1.0\\r\\n\\r\\n'; sleep 2) | nc 127.0.0.1 3128 && false\n", jobs.Build, "403", "not a public address"},
		{"metadata", "FROM BASE\nRUN env | grep -i _proxy; (printf 'CONNECT 169.254.169.254:80 HTTP/1.0\\r\\n\\r\\n'; sleep 2) | nc 127.0.0.1 3128 && false\n", jobs.Build, "403", "HTTPS_PROXY=http://127.0.0.1:3128"},
		{"direct", "FROM BASE\nRUN unset http_proxy; nc -w 2 169.254.169.254 80 </dev/null\n", jobs.Build, "", ""},
		{"add", "FROM scratch\nADD http://169.254.169.254/latest/ /x\n", jobs.Build, "403", ""},
		{"addlocal", "FROM scratch\nADD http://127.0.0.1:" + localPort + "/ /x\n", jobs.Build, "refused", ""},
		{"insecure", "FROM BASE\nRUN --security=insecure true\n", jobs.Build, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := w.Job(c.name, c.dockerfile)
			job.Recipe.Files = []*buildv1.File{{Path: "hello", Content: []byte("hi")}}
			digest, out, err := w.Build(t, job)
			if got := reason(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("it ended with %v, %q; want %q", err, got, c.want)
			}
			if err == nil && !strings.HasPrefix(digest, "sha256:") {
				t.Errorf("the digest is %q", digest)
			}
			if err != nil && !strings.Contains(err.(*jobs.Failure).Message, c.says) { //nolint:errorlint // it is one
				t.Errorf("the message is %q; want %q in it", err, c.says)
			}
			if !strings.Contains(out.String(), c.prints) {
				t.Errorf("%q was not printed", c.prints)
			}
			if strings.Contains(out.String(), testkit.Password) {
				t.Error("the password is in the log")
			}
		})
	}
}
