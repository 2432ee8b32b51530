package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/conda"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/cmd/slipway/internal/verify"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/fuse"
)

// flags are the flags of the commands that use an environment.
type flags struct {
	conda     conda.Flags
	file      string
	workspace *string
	CacheFlags
	plain   []string
	offline bool
	refresh bool
	noShare bool
	stats   bool
	idle    time.Duration
	verify  bool
	trust   verify.Trust
	// base is set if the command gets the root of the image, and whole if the image needs no environment then.
	base, whole bool
	baseBinds   []string
	// trace is set if what the command reads first is recorded, and pushTrace if the record is pushed.
	trace, pushTrace bool
}

func (f *flags) add(cmd *cobra.Command, s *session.Settings) {
	f.conda.AddOptions(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "An environment or lock `file` instead of packages.")
	f.workspace = session.WorkspaceFlag(cmd, s, "that requests the image")
	f.CacheFlags.Add(cmd)
	flags.StringSliceVar(&f.plain, "plain-http", nil, "A `registry` that uses plain HTTP; may be repeated (default: those on this machine, and that of a server with http).")
	flags.BoolVar(&f.offline, "offline", false, "Use only what the cache has.")
	flags.Lookup("refresh").Usage = "Look up the name again, and solve the packages again, instead of using what the cache and the server remember."
	flags.BoolVar(&f.stats, "stats", false, "Print how long the start took, the messages of the kernel, and what was fetched.")
	flags.BoolVar(&f.verify, "verify", false, "Use only an environment that the server, or another key or identity that is given, has signed.")
	f.trust.Add(cmd)
	usage.CompleteFlag(cmd, "plain-http")
}

// addShare adds the flags of commands in a sandbox.
func (f *flags) addShare(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.noShare, "no-share", false, "Do not share the mount with other commands of this user.")
	flags.DurationVar(&f.idle, "idle", 2*time.Minute, "How long a shared mount waits for the next command.")
	flags.BoolVar(&f.trace, "trace", false, "Record in the cache what the command reads first, so that it is fetched in advance when the environment is used next; implies --no-share.")
	flags.BoolVar(&f.pushTrace, "trace-push", false, "As --trace, and push the record to the registry of the image, for all users.")
}

// launch resolves the arguments to an environment.
func (f *flags) launch(cmd *cobra.Command, s *session.Settings, args []string) (*launch, error) {
	c, err := f.Open()
	if err != nil {
		return nil, err
	}
	l := f.newLaunch(cmd, s, c)
	if f.offline && f.refresh {
		return nil, usage.Errorf("--offline looks nothing up, and --refresh does")
	}
	if err := f.resolve(cmd, s, l, args); err != nil {
		return nil, err
	}
	c.Touch(l.name.Used(), l.name, time.Now())
	return l, nil
}

// addBase adds the flag of commands that can use the root of an image.
func (f *flags) addBase(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.base, "base", false, "Use the root file system of the image instead of that of this machine; the image needs no environment then.")
}

func (f *flags) newLaunch(cmd *cobra.Command, s *session.Settings, c *cache.Cache) *launch {
	return &launch{
		cache: c, connection: connection{Version: s.Version, Server: s.ServerURL(), Plain: f.plain}, whole: f.whole || f.base,
		offline: f.offline, share: !f.noShare, idle: f.idle, stats: f.stats, trace: f.trace || f.pushTrace, pushTrace: f.pushTrace, stderr: cmd.ErrOrStderr(), began: time.Now(),
	}
}

// launchImage resolves the name of an image, which needs no environment.
func (f *flags) launchImage(cmd *cobra.Command, s *session.Settings, name string) (*launch, error) {
	c, err := f.Open()
	if err != nil {
		return nil, err
	}
	l := f.newLaunch(cmd, s, c)
	key, err := l.key(name, nil)
	if err != nil {
		return nil, err
	}
	if err := f.lookUp(cmd, s, l, key, name, func() (requested, error) { return requested{name: name}, nil }); err != nil {
		return nil, err
	}
	c.Touch(l.name.Used(), l.name, time.Now())
	return l, nil
}

// resolve sets the name of the environment, from the cache if possible.
func (f *flags) resolve(cmd *cobra.Command, s *session.Settings, l *launch, args []string) error {
	name, req, err := f.subject(cmd, args)
	if err != nil {
		return err
	}
	key, err := l.key(name, req)
	if err != nil {
		return err
	}
	shown := strings.TrimSpace(strings.Join(args, " ") + " " + f.file)
	return f.lookUp(cmd, s, l, key, shown, func() (requested, error) {
		if name != "" {
			return requested{name: name}, nil
		}
		return f.submit(cmd, s, req)
	})
}

// A requested image is one to look up at its registry.
type requested struct {
	name string
	// made is the digest of the environment that the server has made for it, and digest that of the image; "" for any.
	made, digest string
	// expires is when the name expires; zero for never.
	expires time.Time
}

// lookUp sets the image and the environment of a key, which the user wrote as shown. The function request returns the image.
func (f *flags) lookUp(cmd *cobra.Command, s *session.Settings, l *launch, key, shown string, request func() (requested, error)) error {
	verified, err := f.verifiedBy(s)
	if err != nil {
		return err
	}
	known, isKnown := l.cache.Resolved(key)
	isVerified := verified == "" || known.Verified == verified
	if isKnown && !f.refresh && isVerified && l.load(known) == nil && l.isUsable(cmd.Context()) {
		return nil
	}
	if f.offline {
		if isKnown && !isVerified {
			return fmt.Errorf("the environment of %s was not verified when it was fetched; run `slipway fetch` with the same arguments first", shown)
		}
		return fmt.Errorf("%s is %w; run `slipway fetch` with the same arguments first", shown, cache.ErrMissing)
	}
	i, err := request()
	if err != nil {
		return err
	}
	r, err := newRegistry(i.name, l.connection)
	if err != nil {
		return err
	}
	found, err := r.find(cmd.Context(), l.cache, i, l.whole)
	if err == nil && verified != "" {
		err = f.check(cmd, s, r, found)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", i.name, err)
	}
	if found.Environment != "" && !isIssued(i.name) { // nothing else can be pushed to a name that the server issued
		if err := r.firsts(cmd.Context(), l.cache, found.Environment); err != nil {
			fmt.Fprintln(l.stderr, "slipway: nothing is fetched in advance:", err)
		}
	}
	found.Name, found.Time, found.Expires, found.Verified = shown, time.Now().UTC(), i.expires, verified
	l.cache.Remember(key, found)
	if verified != "" {
		l.cache.Remember(signedKey(verified, found.ImageDigest), found)
	}
	return l.load(found)
}

// isUsable reports whether the environment that a name resolved to can still be used: packages that are missing cannot be fetched by a
// name that has expired.
func (l *launch) isUsable(ctx context.Context) bool {
	if l.offline || l.name.Expires.IsZero() || time.Now().Before(l.name.Expires) {
		return true
	}
	if l.whole && !l.isUnpacked() {
		return false
	}
	if l.prefix == "" {
		return true
	}
	e, err := open(ctx, l.cache, nil, l.manifest, l.config)
	if err != nil {
		return false
	}
	defer e.files.Close()
	_, missing := e.files.Size()
	return missing == 0
}

// load sets the environment and its documents, which the cache has. They are read and parsed once in each start of a command.
func (l *launch) load(n cache.Name) error {
	image, err := readImage(l.cache, n.ImageDigest)
	if err != nil {
		return err
	}
	l.name, l.image, l.described, l.singularity = n, image.config.Config.Env, image.config, isSingularity(image.manifest)
	if n.Environment == "" && l.whole {
		return nil
	}
	if err := fuse.Available(); err != nil && l.whole && n.Environment != n.ImageDigest {
		fmt.Fprintln(l.stderr, "slipway: the whole image is unpacked, because its environment cannot be mounted:", err)
		l.name.Environment = ""
		return nil
	}
	manifest, err := l.cache.Document(n.Environment)
	if err != nil {
		return fmt.Errorf("the manifest of the environment: %w", err)
	}
	a, err := environment.Parse(manifest)
	if err != nil {
		return err
	}
	config, err := l.cache.Document(a.Config.Digest.String())
	if err != nil {
		return fmt.Errorf("the config of the environment: %w", err)
	}
	described, err := environment.ParseConfig(config)
	if err != nil {
		return err
	}
	l.manifest, l.config, l.prefix = manifest, config, described.Prefix
	if n.Environment == n.ImageDigest { // there is no image
		l.image = described.Env
	}
	if this := "linux/" + runtime.GOARCH; described.Platform != "" && described.Platform != this {
		return fmt.Errorf("the environment is for %.40s, and this machine is %s", described.Platform, this)
	}
	return nil
}

// key returns what identifies a name or request in the cache.
func (l *launch) key(name string, req *containerv1.ContainerRequest) (string, error) {
	if name != "" && l.whole {
		return "image " + runtime.GOARCH + " " + name, nil // it may have no environment
	}
	if name != "" {
		return "name " + runtime.GOARCH + " " + name, nil
	}
	req = proto.CloneOf(req)
	req.Refresh = false
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "request " + runtime.GOARCH + " " + l.Server + " " + hex.EncodeToString(sum[:]), nil
}

// imageName matches the repository, the tag and the digest of an image's name. isImageName checks the lengths, because bounded
// repetitions make a large expression, which each start would compile.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:docker://)?[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9._/-]+|/wt/[A-Za-z0-9_-]+/[a-z0-9._/-]+)(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]+)?$`)
})

// isImageName reports whether s is the name of an image with a registry or repository, and a tag or digest.
func isImageName(s string) bool {
	m := imageName().FindStringSubmatch(s)
	if m == nil || m[1] == "" && m[2] == "" {
		return false
	}
	return len(m[1]) <= len(":")+128 && (m[2] == "" || len(m[2]) == len("@sha256:")+64)
}

// formatEnvironment is the format of requests for an environment without an image.
const formatEnvironment = "environment"

// subject returns the name of an image or environment, or the request for one.
func (f *flags) subject(cmd *cobra.Command, args []string) (string, *containerv1.ContainerRequest, error) {
	if len(args) == 1 && f.file == "" {
		if strings.HasPrefix(args[0], layoutScheme+"://") || isImageName(args[0]) {
			return strings.TrimPrefix(args[0], "docker://"), nil, nil
		}
		if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
			f.file, args = args[0], nil
		}
	}
	switch {
	case len(args) == 0 && f.file == "":
		return "", nil, usage.Errorf("name packages, a lock or environment file, or an image with an environment")
	case len(args) > 0 && f.file != "":
		return "", nil, usage.Errorf("give either packages or --file")
	}
	req := f.conda.Options(cmd)
	req.Packages.Type, req.Packages.Entries = "CONDA", args
	if req.Format = formatEnvironment; f.base || req.GetPackages().GetCondaOpts().GetBaseImage() != "" {
		req.Format, req.Mount = "", true // an image is used as well
	}
	if f.file != "" {
		var err error
		if req.Packages.Environment, err = image.Encoded(cmd, f.file); err != nil {
			return "", nil, err
		}
	}
	req.ContainerPlatform = "linux/" + runtime.GOARCH
	return "", req, nil
}

// earlierServer adds advice to the error of a server that does not know the format of a request.
func earlierServer(req *containerv1.ContainerRequest, err error) error {
	no := (*session.Refused)(nil)
	if req.GetFormat() == formatEnvironment && errors.As(err, &no) && no.Status == http.StatusBadRequest && strings.HasPrefix(no.Error(), "format must be one of") {
		return fmt.Errorf("%w. The server is of an earlier release, which makes no environment without an image: update the server, or let it make an image as well, with --base-image IMAGE", err)
	}
	return err
}

// submit requests the environment or the image of packages, and waits until it exists. A server of an earlier release does not report the environment.
func (f *flags) submit(cmd *cobra.Command, s *session.Settings, req *containerv1.ContainerRequest) (requested, error) {
	c, err := s.Client()
	if err != nil {
		return requested{}, err
	}
	workspace, err := c.Workspace(cmd.Context(), *f.workspace)
	if err != nil {
		return requested{}, err
	}
	if workspace != 0 {
		req.PlatformWorkspaceId = &workspace
	}
	_, res, err := c.Submit(cmd.Context(), req)
	if err != nil {
		return requested{}, fmt.Errorf("requesting the environment: %w", earlierServer(req, err))
	}
	if !res.GetSucceeded() {
		show := follow.NewConsole(cmd.ErrOrStderr(), s.IsLive(cmd.ErrOrStderr()), true)
		if err := follow.Await(cmd.Context(), c, res, show); err != nil {
			return requested{}, err
		}
	}
	if res.GetTargetImage() == "" {
		return requested{}, errors.New("the server returned no name of an image")
	}
	i := requested{name: res.GetTargetImage()}
	if at := res.GetExpiration(); at != nil {
		i.expires = at.AsTime()
	}
	build := &buildv1.Build{}
	if _, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + res.GetBuildId(), Signed: true}, build); err != nil {
		return requested{}, fmt.Errorf("reading the record of the build: %w", err)
	}
	i.made, i.digest = build.GetEnvironment(), build.GetDigest()
	return i, nil
}

// issuedName matches names that a server issued: with a token, or of a kept image.
var issuedName = regexp.MustCompile(`/(wt/[a-z2-7]{26}|c/([0-9a-f]{16}|org-[a-z2-7]{26}))/`)

// isIssued reports whether a server issued the name of an image.
func isIssued(name string) bool { return issuedName.MatchString(name) }
