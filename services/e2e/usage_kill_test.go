package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestTenThousandPullsAreCountedExactly kills the metrics role, NATS and the registries with
// kill -9 one after the other, while 10,000 images are pulled.
//
// A registry records a pull on disk before it sends the first byte of the response. If a kill
// cuts a pull, the client cannot know whether the pull was recorded. The test reads the disk of
// the killed registry instead: either the pull was recorded and must be counted, or the client
// repeats it.
func TestTenThousandPullsAreCountedExactly(t *testing.T) {
	leaveToServers(t)
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	more := usageAccounts(t)
	more["limit_pulls_user"] = "0"
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		const all, pullers = 10_000, 8
		m := newMarathon(t, p, image, pullers)
		var wg sync.WaitGroup
		for i := range m.pullers {
			wg.Go(func() { m.pullers[i].run(all / pullers) })
		}
		m.disturb(all)
		wg.Wait()
		if m.done.Load() != all {
			t.Fatalf("%d pulls were made", m.done.Load())
		}
		want := map[string]float64{}
		for _, r := range m.registries {
			m.fence(r)
			want[r.fence] = 1
		}
		for i := range m.pullers {
			want[m.pullers[i].org] = all / pullers
		}
		m.settles(want)
		t.Logf("%d pulls were cut: %d of them had been recorded", m.cut.Load(), m.noted.Load())
	})
}

// A marathon is a large number of pulls during which processes are killed.
type marathon struct {
	t          *testing.T
	p          *program
	image      string
	registries []*stage
	pullers    []puller
	// done is the number of recorded pulls, cut the number of pulls that were cut by a kill,
	// and noted the number of cut pulls that were recorded.
	done, cut, noted atomic.Int64
}

// A stage is a registry that is killed repeatedly.
type stage struct {
	proc *process
	addr string
	// target and fence are another image, and the organisation that pulls it last: once this
	// pull is counted, all earlier pulls are counted too.
	target, fence string

	mu   sync.Mutex
	life int
	// found has, for each life of the process, the recorded pulls on its disk by organisation.
	found []map[string]int
	// over is set when the registry is no longer killed.
	over bool
	next *sync.Cond
}

func newMarathon(t *testing.T, p *program, image string, pullers int) *marathon {
	t.Helper()
	m := &marathon{t: t, p: p, image: image}
	for i, addr := range p.replicas {
		s := &stage{proc: p.procs[0], addr: addr}
		if len(p.procs) > 1 {
			s.proc = p.process(fmt.Sprintf("registry-%d", i+1))
		}
		s.next = sync.NewCond(&s.mu)
		s.fence = fmt.Sprintf("fence%d.example.org", i)
		s.target = m.order(fmt.Sprintf("fence%d", i), s.fence)
		m.registries = append(m.registries, s)
	}
	for i := range pullers {
		org := fmt.Sprintf("p%d.example.org", i)
		u := puller{m: m, org: org, target: m.order(fmt.Sprintf("p%d", i), org), at: m.registries[i%len(m.registries)]}
		must(t, u.dial()) // in the first life of the registry
		m.pullers = append(m.pullers, u)
	}
	return m
}

// order requests the image as a user of an organisation.
func (m *marathon) order(user, org string) string {
	return m.p.submit(map[string]any{"containerImage": m.image, "towerAccessToken": m.p.asUser(user, user+"@"+org)})
}

// disturb kills one process after the other during the pulls.
func (m *marathon) disturb(all int) {
	defer func() {
		for _, s := range m.registries {
			s.leave()
		}
	}()
	steps := []func(){}
	if len(m.p.procs) > 1 {
		metrics := m.p.process("metrics")
		start := func() { must(m.t, m.p.nats.Start()) }
		steps = append(steps,
			metrics.kill, m.registries[0].killed, m.p.nats.Kill, metrics.start, m.registries[1].killed, start,
			m.registries[0].killed, func() { metrics.kill(); metrics.start() }, func() { m.p.nats.Kill(); start() })
	} else {
		steps = append(steps, m.registries[0].killed, m.registries[0].killed, m.registries[0].killed)
	}
	for i, step := range steps {
		for m.done.Load() < int64((i+1)*all/(len(steps)+2)) {
			if m.t.Failed() {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		step()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// killed kills a registry with kill -9, reads its recorded pulls, and restarts it.
func (s *stage) killed() {
	s.proc.kill()
	found := spooled(s.proc.t, filepath.Join(s.proc.env["data_dir"], "pulls"))
	if err := s.proc.launch(); err != nil {
		s.proc.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, found)
	s.life++
	s.next.Broadcast()
}

// leave releases all clients that wait for a restart.
func (s *stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.next.Broadcast()
}

// spooled counts the records in the newest file of a spool by organisation: the records of the
// life that has just ended.
func spooled(t testing.TB, dir string) map[string]int {
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s: %v %v", dir, files, err)
		return nil
	}
	raw, err := os.ReadFile(slices.Max(files))
	if err != nil {
		t.Error(err)
	}
	found := map[string]int{}
	const head, suffix = 6, ".example.org"
	for len(raw) >= head {
		n := int(binary.BigEndian.Uint16(raw))
		if n == 0 || len(raw) < head+n {
			break
		}
		record := raw[head : head+n]
		if end := bytes.Index(record, []byte(suffix)); end >= 0 {
			start := end
			for start > 0 && record[start-1] >= '0' && record[start-1] <= 'z' {
				start--
			}
			found[string(record[start:end])+suffix]++
		}
		raw = raw[head+n:]
	}
	return found
}

// A puller pulls for one organisation, one image after the other.
type puller struct {
	m           *marathon
	org, target string
	at          *stage
	// answered is the number of its pulls in the current life of the registry.
	answered int
	life     int
	conn     net.Conn
	in       *bufio.Reader
}

func (u *puller) run(pulls int) {
	for made := 0; made < pulls && !u.m.t.Failed(); {
		err := u.pull()
		if err == nil {
			u.answered++
		} else {
			u.hangUp()
			u.m.cut.Add(1)
			if !u.wasNoted() {
				continue
			}
			u.m.noted.Add(1)
		}
		made++
		u.m.done.Add(1)
	}
	u.hangUp()
}

// pull pulls once, without the automatic retries of net/http.
func (u *puller) pull() error {
	if u.conn == nil {
		if err := u.dial(); err != nil {
			return err
		}
	}
	url := strings.Replace(v2(u.target), u.m.p.host, u.at.addr, 1) + "/manifests/v1"
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err == nil {
		err = req.Write(u.conn)
	}
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(u.in, req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		u.m.t.Errorf("a pull returned %d %s", resp.StatusCode, body)
	}
	return err
}

func (u *puller) dial() (err error) {
	if u.conn, err = net.Dial("tcp", u.at.addr); err == nil {
		u.in = bufio.NewReader(u.conn)
	}
	return err
}

func (u *puller) hangUp() {
	if u.conn != nil {
		_ = u.conn.Close()
		u.conn = nil
	}
}

// wasNoted waits for the restart of the registry, and reports whether the previous life has
// recorded one pull more than it has answered.
func (u *puller) wasNoted() bool {
	u.at.mu.Lock()
	defer u.at.mu.Unlock()
	for u.at.life == u.life && !u.at.over {
		u.at.next.Wait()
	}
	if u.at.life == u.life {
		u.m.t.Error("a pull has failed, although its registry was not killed")
		return false
	}
	extra := u.at.found[u.life][u.org] - u.answered
	if extra < 0 || extra > 1 {
		u.m.t.Errorf("%s got %d responses, and its registry has recorded %d pulls", u.org, u.answered, u.answered+extra)
	}
	u.answered, u.life = 0, u.at.life
	return extra == 1
}

// fence pulls once more.
func (m *marathon) fence(s *stage) {
	u := puller{m: m, target: s.target, at: s}
	must(m.t, u.pull())
	u.hangUp()
}

// settles waits until the last pulls are counted, and then checks the counts.
func (m *marathon) settles(want map[string]float64) {
	var got struct {
		Count float64
		Orgs  map[string]float64
	}
	err := within(2*time.Minute, func() error {
		r := m.p.usage("pulls", reader)
		if err := json.Unmarshal(r.body, &got); err != nil {
			return err
		}
		for _, s := range m.registries {
			if got.Orgs[s.fence] == 0 {
				return fmt.Errorf("the last pull at %s is not counted; %d %s", s.proc.name, r.status, r.body)
			}
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	total := 0.0
	for org, n := range want {
		total += n
		if got.Orgs[org] != n {
			m.t.Errorf("%s has %v counted pulls, want %v", org, got.Orgs[org], n)
		}
	}
	if got.Count != total {
		m.t.Errorf("%v pulls are counted, want %v", got.Count, total)
	}
}
