package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Workers report the files of the packages that they use, for searches. The index has only
// packages of channels that all users may read (SolvePackagesResponse.indexed_channels).
// The list of packages is read from the build's stored lock, never from a worker.

// ListUnindexedPackages implements buildv1.WorkServiceServer.
func (s *Service) ListUnindexedPackages(ctx context.Context, req *buildv1.ListUnindexedPackagesRequest) (*buildv1.ListUnindexedPackagesResponse, error) {
	_, packages, err := s.indexable(ctx, req.GetTicket())
	if err != nil {
		return nil, err
	}
	var keys []store.PackageKey
	for _, p := range packages {
		keys = append(keys, p.PackageKey)
	}
	missing, err := s.store.Unindexed(ctx, keys, s.deps.Now())
	if err != nil {
		return nil, s.store.Fault("reading the index of packages", err)
	}
	out := &buildv1.ListUnindexedPackagesResponse{}
	for _, k := range missing {
		out.Sha256 = append(out.Sha256, k.SHA256)
	}
	return out, nil
}

// IndexPackages implements buildv1.WorkServiceServer.
func (s *Service) IndexPackages(ctx context.Context, req *buildv1.IndexPackagesRequest) (*buildv1.IndexPackagesResponse, error) {
	if len(req.GetPackages()) > limits.IndexedPerCall {
		return nil, fault.Invalid.Newf("At most %d packages can be indexed at a time", limits.IndexedPerCall)
	}
	for _, p := range req.GetPackages() {
		if err := checkContent(p); err != nil {
			return nil, err
		}
	}
	rec, packages, err := s.indexable(ctx, req.GetTicket())
	if err != nil {
		return nil, err
	}
	for _, content := range req.GetPackages() {
		for _, p := range packages {
			if p.SHA256 != content.GetSha256() {
				continue
			}
			p.About, p.Files, p.Worker = content.GetAbout(), content.GetFiles(), rec.Worker
			if err := s.store.PutPackage(ctx, p, s.deps.Now()); err != nil {
				return nil, s.store.Fault("storing the files of a package", err)
			}
		}
	}
	if err := s.store.TrimPackages(ctx, limits.IndexedPackages, limits.IndexedFiles); err != nil {
		return nil, s.store.Fault("removing old packages from the index", err)
	}
	return &buildv1.IndexPackagesResponse{}, nil
}

// checkContent validates what a worker states about a package.
func checkContent(p *buildv1.PackageContent) error {
	if len(p.GetFiles()) > limits.IndexedFilesOfPackage {
		return fault.Invalid.Newf("At most %d files of a package can be indexed", limits.IndexedFilesOfPackage)
	}
	for _, name := range p.GetFiles() {
		if !isIndexedPath(name) {
			return fault.Invalid.Newf("%s is not the path of a file of a package", fault.Quote(name))
		}
	}
	about := p.GetAbout()
	if !isShortText(about.GetSummary(), limits.IndexedSummary) || !isShortText(about.GetLicense(), limits.ChannelWord) || !isHome(about.GetHome()) {
		return fault.Invalid.Newf("The summary, licence or home of a package is too long, or is not printable")
	}
	return nil
}

// isIndexedPath reports whether a path may be in the index.
func isIndexedPath(name string) bool {
	return fs.ValidPath(name) && name != "." && isShortText(name, limits.IndexedPath)
}

// isShortText reports whether a string is printable and has at most the given number of
// bytes.
func isShortText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isHome reports whether a string is an http(s) URL that users can open, or "".
func isHome(s string) bool {
	at, err := url.Parse(s)
	return s == "" || isShortText(s, limits.IndexedSummary) && err == nil && (at.Scheme == "https" || at.Scheme == "http") && at.Host != "" && at.User == nil
}

// indexable returns the build that a ticket belongs to, and the packages of its lock that
// belong in the index, without their content.
func (s *Service) indexable(ctx context.Context, ticket string) (store.Record, []store.IndexedPackage, error) {
	rec, err := s.holder(ctx, ticket)
	if err != nil {
		return rec, nil, err
	}
	lock, err := s.store.Lock(ctx, rec.ID)
	if err != nil {
		return rec, nil, s.store.Fault("reading a build's lock", err)
	}
	packages, err := publicPackages(lock)
	if err != nil {
		return rec, nil, fmt.Errorf("reading the stored lock of %s: %w", rec.ID, err)
	}
	return rec, packages, nil
}

// publicPackages returns the packages of a lock that belong in the index.
func publicPackages(lock *condav1.SolvePackagesResponse) (out []store.IndexedPackage, err error) {
	var records []spec.Record
	if text := lockRecords(lock); text != "" {
		if err := json.Unmarshal([]byte(text), &records); err != nil {
			return nil, err
		}
	}
	for _, r := range records {
		// A lock in a request may name any channel for a package from elsewhere. Only the
		// address of the artifact counts.
		base, isBelow := strings.CutSuffix(r.URL, "/"+path.Join(r.Subdir, r.FileName))
		isPublic := slices.Contains(lock.GetIndexedChannels(), base) && !slices.Contains(lock.GetPrivateChannels(), base)
		if r.IsWheel() || !isBelow || !isPublic || !layerKey.MatchString(r.SHA256) {
			continue
		}
		for _, word := range []string{r.Name, r.Subdir, r.FileName} {
			isPublic = isPublic && word != "" && isShortText(word, limits.ChannelWord)
		}
		if isPublic {
			out = append(out, store.IndexedPackage{Name: r.Name, PackageKey: store.PackageKey{Channel: base, Subdir: r.Subdir, FileName: r.FileName, SHA256: r.SHA256}})
		}
	}
	return out, nil
}

// FindPackages implements buildv1.BuildServiceServer.
func (s *Service) FindPackages(ctx context.Context, req *buildv1.FindPackagesRequest) (*buildv1.FindPackagesResponse, error) {
	if len(req.GetChannels()) > limits.ChannelsAsked {
		return nil, fault.Invalid.Newf("At most %d channels can be searched at a time", limits.ChannelsAsked)
	}
	if !isIndexedPath(req.GetPath()) {
		return nil, fault.Invalid.Newf("%s is not the name or path of a file: a path is relative to the environment, e.g. include/zlib.h, and has at most %d bytes", fault.Quote(req.GetPath()), limits.IndexedPath)
	}
	out := &buildv1.FindPackagesResponse{}
	if len(req.GetChannels()) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limits.LayerLookup)
	defer cancel()
	var err error
	if out.Files, err = s.store.FindFile(ctx, req.GetChannels(), req.GetPath()); err != nil {
		return nil, s.store.Fault("searching the index of packages", err)
	}
	return out, nil
}

// SummarizePackages implements buildv1.BuildServiceServer.
func (s *Service) SummarizePackages(ctx context.Context, req *buildv1.SummarizePackagesRequest) (*buildv1.SummarizePackagesResponse, error) {
	if len(req.GetPackages()) > limits.IndexedSummaries {
		return nil, fault.Invalid.Newf("At most %d packages can be looked up at a time", limits.IndexedSummaries)
	}
	out := &buildv1.SummarizePackagesResponse{}
	for _, p := range req.GetPackages() {
		about, err := s.store.Summary(ctx, p.GetChannel(), p.GetName())
		if err != nil {
			return nil, s.store.Fault("reading the index of packages", err)
		}
		out.Packages = append(out.Packages, about)
	}
	return out, nil
}
