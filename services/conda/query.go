package conda

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// A query is a parsed request.
type query struct {
	specs []spec.MatchSpec
	// lock replaces specs; nil for none.
	lock     *requestLock
	channels []channel.Channel
	// added are the specifications channel::name whose channel the request does not list itself.
	added     []string
	platforms []platform
	virtual   map[string]string
	newest    time.Time // packages must not be newer; zero means no limit
	// least is the minimum age that the operator configured, if newest follows from it.
	least time.Duration
	// asOf is the time as of which the package lists are used; zero means the present ones.
	asOf time.Time
	// recent is like newest, but does not apply to recentNames.
	recent      time.Time
	recentNames []string
	format      lockfile.Format
	// after is the earliest time at which the package lists must have been read; zero means no
	// limit.
	after    time.Time
	flexible bool
	brief    bool // whether to omit suggestions if the request has no solution
	notes    []string
	base     int // the number of base packages at the end of specs, which the request does not list
	// from is the lock to update, or nil. named lists the packages to update. fromChannels and
	// fromPlatforms report whether the channels and platforms of the lock are used, because
	// the request has none. more lists channels to use in addition to those of the lock.
	from                        *requestLock
	named                       []string
	fromChannels, fromPlatforms bool
	more                        []string
	// hold is set if the packages of the lock that are not in named must not change, if possible;
	// those in mayChange only if necessary.
	hold      bool
	mayChange []string
	// keep is set if the resources reserved for reading lock must be held until release is
	// called. kept is that reservation.
	keep bool
	kept *reservation
}

// release releases the reservation in kept.
func (q *query) release() {
	if q.kept != nil {
		q.kept.release()
		q.kept = nil
	}
}

// A platform is a platform that environments can be solved for.
type platform struct {
	// name is the OCI platform, e.g. "linux/amd64". subdir is the channels' folder, e.g.
	// "linux-64".
	name, subdir string
}

// platforms lists the supported platforms.
func platforms() []platform {
	return []platform{{"linux/amd64", "linux-64"}, {"linux/arm64", "linux-aarch64"}}
}

// parsePlatform parses any spelling of a platform.
func parsePlatform(text string) (platform, error) {
	p, err := oci.ParsePlatform(text)
	if err == nil {
		for _, known := range platforms() {
			if known.name == p.OS+"/"+p.Architecture {
				return known, nil
			}
		}
	}
	return platform{}, fault.Invalid.New("Environments are only available for linux/amd64 and linux/arm64", err)
}

// read validates a request when it is its turn. Turns are divided by caller, or by address if
// who is zero. It returns fault.Invalid with the name of the field.
func (s *Service) read(ctx context.Context, who caller.ID, in *condav1.LockQuery) (q query, err error) {
	size := len(in.GetPackages().GetEnvironment()) + len(in.GetFrom().GetLock())
	err = s.deps.Turns.Do(ctx, who.Client(ctx), size, func() (err error) {
		q, err = s.parse(in)
		return err
	})
	return q, err
}

func (s *Service) parse(in *condav1.LockQuery) (q query, err error) {
	if in.GetPackages() == nil {
		return q, fault.Invalid.Newf("packages is missing")
	}
	if t := in.GetPackages().GetType(); t != "CONDA" {
		return q, fault.Invalid.Newf("packages.type must be CONDA")
	}
	file, err := environmentText(in.GetPackages())
	if err != nil {
		return q, err
	}
	if err := s.readOptions(&q, in); err != nil {
		return q, err
	}
	if q.lock = parseRequestLock(in.GetPackages(), file); q.lock != nil {
		if in.GetFrom() != nil {
			return q, fault.Invalid.Newf("packages is a lock, which cannot be updated: omit from, or list the packages to update")
		}
		return q, nil
	}
	if in.GetFrom() != nil {
		if q.from, err = readLockFile("from", in.GetFrom()); err != nil {
			return q, err
		}
		q.fromPlatforms = len(in.GetPlatforms()) == 0
	}
	err = s.readPackages(&q, in, file)
	return q, err
}

// readPackages parses the packages and channels of a request. file is its environment file,
// or "" if it lists entries.
func (s *Service) readPackages(q *query, in *condav1.LockQuery, file string) error {
	texts, names, err := wanted(in.GetPackages(), file, q.platforms)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if q.fromChannels = q.from != nil; !q.fromChannels {
			names = defaultChannels()
		}
	}
	if in.GetForContainer() {
		base := envfile.BasePackages()
		texts, q.base = slices.Concat(texts, base), len(base)
	}
	for _, text := range texts {
		match, err := spec.ParseMatchSpec(text)
		if err != nil {
			return fault.In("packages", err)
		}
		q.specs = append(q.specs, match)
		// channel::name adds a channel to the others.
		if match.Channel != "" && !slices.Contains(names, match.Channel) {
			names, q.added = append(names, match.Channel), append(q.added, text)
		}
	}
	if q.from != nil && file == "" {
		for _, match := range q.specs[:len(q.specs)-q.base] {
			q.named = append(q.named, match.Name)
		}
	}
	if q.fromChannels {
		q.more = names
		return nil
	}
	channels, notes, err := s.resolve(names)
	q.channels, q.notes = channels, append(q.notes, notes...)
	return err
}

// defaultChannels returns the channels of a request that names none.
func defaultChannels() []string { return []string{"conda-forge", "bioconda"} }

// wanted returns the specifications and channels of a request for platforms. It returns no
// channels if the request has none. file is its environment file, or "" if it lists entries.
func wanted(p *condav1.CondaPackages, file string, of []platform) (specs, channels []string, err error) {
	channels = p.GetChannels()
	switch {
	case p.GetEnvironment() == "" && len(p.GetEntries()) == 0:
		return nil, nil, fault.Invalid.Newf("packages.entries is missing: list packages such as samtools=1.20")
	case len(p.GetEntries()) > limits.CondaSpecs:
		return nil, nil, fault.Invalid.Newf("packages.entries has %d packages, and may have %d", len(p.GetEntries()), limits.CondaSpecs)
	case p.GetEnvironment() == "":
		specs = p.GetEntries()
	default:
		if specs, channels, err = fromFile(p, file, of); err != nil {
			return nil, nil, err
		}
	}
	for i, text := range specs {
		if strings.HasPrefix(text, "pip:") {
			return nil, nil, fault.Invalid.Newf("packages.entries[%d] is a pip package, which no Conda channel has: leave it out", i)
		}
	}
	return specs, channels, nil
}

// environmentText returns the decoded environment file or lock of a request; "" for none.
func environmentText(p *condav1.CondaPackages) (string, error) {
	const field = "packages.environment"
	switch text := p.GetEnvironment(); {
	case text == "":
		return "", nil
	case len(p.GetEntries()) > 0:
		return "", fault.Invalid.Newf("packages.environment and packages.entries exclude each other")
	default:
		return decodeFile(field, text)
	}
}

// decodeFile decodes a base64 file. Like the rest of the API, it accepts both alphabets, with
// or without padding and line breaks.
func decodeFile(field, text string) (string, error) {
	if len(text) > limits.Encoded {
		return "", fault.Invalid.Newf("%s is %d characters long; the maximum is %d", field, len(text), limits.Encoded)
	}
	text = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "", "=", "").Replace(text)
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", fault.Invalid.New(field+" must be base64", err)
	}
	if len(raw) > limits.EnvironmentFile {
		return "", fault.Invalid.Newf("%s holds %d bytes; the maximum is %d", field, len(raw), limits.EnvironmentFile)
	}
	return string(raw), nil
}

// fromFile reads an environment file or a pixi.toml. The channels of the request precede
// those of the file.
func fromFile(p *condav1.CondaPackages, text string, of []platform) (specs, channels []string, err error) {
	const field = "packages.environment"
	var env envfile.Environment
	if envfile.IsPixi(text) {
		var subdirs []string
		for _, p := range of {
			subdirs = append(subdirs, p.subdir)
		}
		env, err = envfile.ReadPixi(field, text, p.GetEnvironmentName(), subdirs)
	} else {
		env, err = envfile.Read(field, text)
	}
	if err != nil {
		return nil, nil, err
	}
	specs, pip := env.Specs()
	switch {
	case len(pip) > 0:
		return nil, nil, fault.Invalid.Newf("%s: packages of pip are in no Conda channel: leave its pip section out", field)
	case len(specs) == 0:
		return nil, nil, fault.Invalid.Newf("%s lists no packages", field)
	}
	return specs, slices.Concat(p.GetChannels(), env.Channels), nil
}

// resolve returns the channels without duplicates, or the default channels if the names
// resolve to none. notes explains which names were ignored.
func (s *Service) resolve(names []string) (out []channel.Channel, notes []string, err error) {
	if len(names) > limits.ChannelsAsked {
		return nil, nil, fault.Invalid.Newf("A request may name %d channels, not %d", limits.ChannelsAsked, len(names))
	}
	for _, name := range names {
		found, note, err := s.deps.Channels.Expand(name)
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		for _, c := range found {
			if !slices.ContainsFunc(out, func(o channel.Channel) bool { return o.URL == c.URL }) {
				out = append(out, c)
			}
		}
	}
	if len(out) > 0 {
		return out, notes, nil
	}
	for _, name := range defaultChannels() {
		c, err := s.deps.Channels.Resolve(name)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, notes, nil
}

// checkVirtual validates the virtual packages of a request.
func checkVirtual(virtual map[string]string) error {
	if len(virtual) > limits.CondaVirtual {
		return fault.Invalid.Newf("virtualPackages may have %d members, not %d", limits.CondaVirtual, len(virtual))
	}
	for _, name := range slices.Sorted(maps.Keys(virtual)) {
		if virtual[name] == "" {
			continue
		}
		if _, err := spec.ParseVirtualPackage(name, virtual[name]); err != nil {
			return fault.In("virtualPackages", err)
		}
	}
	return nil
}

// readPlatforms parses the platforms of a request; the default is linux/amd64.
func (q *query) readPlatforms(names []string) error {
	for i, name := range names {
		p, err := parsePlatform(name)
		if err != nil {
			return fault.In(fmt.Sprintf("platforms[%d]", i), err)
		}
		if !slices.Contains(q.platforms, p) {
			q.platforms = append(q.platforms, p)
		}
	}
	if len(q.platforms) == 0 {
		q.platforms = platforms()[:1]
	}
	return nil
}

// readOptions parses the options of a request.
func (s *Service) readOptions(q *query, in *condav1.LockQuery) error {
	q.flexible, q.virtual = in.GetFlexible(), in.GetVirtualPackages()
	err := checkVirtual(q.virtual)
	if err != nil {
		return err
	}
	if err := q.readTimes(in, s.deps.Now(), s.deps.MinAge); err != nil {
		return err
	}
	if in.GetRefresh() {
		q.after = s.deps.Now().Add(-limits.CondaListsAge)
	}
	q.format = lockfile.Format(in.GetFormat())
	if q.format != "" {
		if err := q.format.Check(); err != nil {
			return err
		}
	}
	if err := q.readPlatforms(in.GetPlatforms()); err != nil {
		return err
	}
	if q.format.ForOnePlatform() && len(q.platforms) > 1 {
		return fault.Invalid.Newf("An explicit lock is for one platform: select one, or the format conda-lock or pixi")
	}
	return nil
}

// machine returns the virtual packages of the target machine: the defaults with the
// request's changes.
func (q *query) machine(p platform) []spec.VirtualPackage {
	known := map[string]string{"__glibc": "2.39", "__linux": "6.1", "__unix": "0", "__archspec": "1=x86_64_v3"}
	if p.subdir == "linux-aarch64" {
		known["__archspec"] = "1=aarch64"
	}
	maps.Copy(known, q.virtual)
	var out []spec.VirtualPackage
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if v, err := spec.ParseVirtualPackage(name, known[name]); known[name] != "" && err == nil {
			out = append(out, v)
		}
	}
	return out
}
