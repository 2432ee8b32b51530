package conda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// isIndexed reports whether packages of a channel are added to the index of commands and files
// when they are read without a login: only if the operator configured the channel, or it is
// well known. Otherwise any user could publish a channel and fill the index.
func (s *Service) isIndexed(c channel.Channel) bool { return s.deps.Channels.IsKnown(c.Name) }

// filePath returns the file that a request searches for, as its name or its path below the
// environment; "" if it searches for names of packages.
func filePath(req *condav1.SearchPackagesRequest) (string, error) {
	command, file := req.GetCommand(), req.GetFile()
	switch {
	case command == "" && file == "":
		return "", nil
	case req.GetQ() != "" || command != "" && file != "":
		return "", fault.Invalid.Newf("Of q, command and file only one can be searched at a time")
	case utf8.RuneCountInString(command) > limits.IndexedPath-len("bin/"):
		return "", fault.Invalid.Newf("command is at most %d characters long", limits.IndexedPath-len("bin/"))
	case strings.Contains(command, "/"):
		return "", fault.Invalid.Newf("command is the name of a program without a folder, e.g. bcftools; use file for a path")
	case command != "":
		return "bin/" + command, nil
	case utf8.RuneCountInString(file) > limits.IndexedPath:
		return "", fault.Invalid.Newf("file is at most %d characters long", limits.IndexedPath)
	}
	path := strings.TrimLeft(strings.TrimPrefix(file, spec.Prefix+"/"), "/")
	if path == "" || strings.HasSuffix(path, "/") {
		return "", fault.Invalid.Newf("file is the name of a file, e.g. libhts.so, or its path in the environment, e.g. include/htslib/sam.h")
	}
	return path, nil
}

// checkIndexed returns an error if the commands and files of the packages of a channel are
// not known.
func (s *Service) checkIndexed(channels []channel.Channel) error {
	if s.deps.Build == nil {
		return fault.Unsupported.Newf("This server builds no images of packages, so that it does not know their commands and files; search for the name of the package")
	}
	for _, c := range channels {
		if !s.isIndexed(c) {
			return fault.Invalid.Newf("Commands and files are only known of packages of conda-forge, bioconda, and the channels that the server's operator configured (conda_channels), not of %s", c.Name)
		}
	}
	return nil
}

// A fileSearch is a search for the packages that have a file.
type fileSearch struct {
	channels []channel.Channel
	lists    []list
	// path is the name of the file, or its path below the environment.
	path string
	// isCommand is set for a search by command, whose results do not list paths.
	isCommand bool
	// license is the licence that results must have; "" for any.
	license string
	// offset and most are the page.
	offset, most int
}

// searchFiles returns a page of the packages of the lists that have a file, those with the
// most dependents first. Packages whose channel has deleted all artifacts that have the file
// are left out.
func (s *Service) searchFiles(ctx context.Context, memory *recordMemory, q fileSearch) (*condav1.SearchPackagesResponse, error) {
	urls := make([]string, 0, len(q.channels))
	for _, c := range q.channels {
		urls = append(urls, c.URL)
	}
	found, err := s.deps.Build.FindPackages(ctx, &buildv1.FindPackagesRequest{Channels: urls, Path: q.path})
	if err != nil {
		return nil, err
	}
	var hits []*hit
	for _, f := range found.GetFiles() {
		if hits, err = addFile(hits, q.lists, f); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(hits, func(a, b *hit) int {
		return cmp.Or(cmp.Compare(b.dependents, a.dependents), strings.Compare(a.name, b.name))
	})
	hits = hits[:min(len(hits), limits.IndexedNames)]
	var all []described
	for _, h := range hits {
		p, err := h.describe(ctx, memory)
		if err != nil {
			return nil, err
		}
		if len(p.GetVersions()) == 0 || q.license != "" && !hasLicense(p.GetLicense(), q.license) {
			continue
		}
		if !q.isCommand {
			p.Paths = h.paths()
		}
		all = append(all, described{h, p})
	}
	return s.pageOf(ctx, all, q.offset, q.most)
}

// addFile adds a file to the hit of its package, which it creates if needed.
func addFile(hits []*hit, lists []list, f *buildv1.IndexedFile) ([]*hit, error) {
	i := slices.IndexFunc(hits, func(h *hit) bool { return h.channel.URL == f.GetChannel() && h.name == f.GetName() })
	if i >= 0 {
		if slices.ContainsFunc(hits[i].lists, func(l list) bool { return l.subdir == f.GetSubdir() }) {
			hits[i].files = append(hits[i].files, f)
		}
		return hits, nil
	}
	h := &hit{name: f.GetName(), files: []*buildv1.IndexedFile{f}}
	isListed := false
	for _, l := range lists {
		if l.Index == nil {
			continue
		}
		n, err := l.Index.Dependents(h.name)
		if err != nil {
			return nil, err
		}
		h.dependents += n
		if l.channel.URL != f.GetChannel() {
			continue
		}
		has, err := l.Index.Has(h.name)
		if err != nil {
			return nil, err
		}
		if has {
			h.channel, h.lists = l.channel, append(h.lists, l)
			isListed = isListed || l.subdir == f.GetSubdir()
		}
	}
	if isListed {
		hits = append(hits, h)
	}
	return hits, nil
}

// has reports whether one of the hit's files is in a record's artifact.
func (h *hit) has(subdir string, r spec.Record) bool {
	return slices.ContainsFunc(h.files, func(f *buildv1.IndexedFile) bool {
		return f.GetSubdir() == subdir && f.GetFileName() == r.FileName && (r.SHA256 == "" || r.SHA256 == f.GetSha256())
	})
}

// newestVersions returns distinct versions, newest first, up to limits.IndexedVersions.
func newestVersions(all []string) []string {
	parsed := map[string]spec.Version{}
	for _, text := range all {
		if v, err := spec.ParseVersion(text); err == nil {
			parsed[text] = v
		}
	}
	all = slices.DeleteFunc(all, func(text string) bool { _, ok := parsed[text]; return !ok })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(parsed[b].Compare(parsed[a]), strings.Compare(a, b)) })
	all = slices.Compact(all)
	return all[:min(len(all), limits.IndexedVersions)]
}

// paths returns the distinct paths of the hit's files, up to limits.IndexedPaths.
func (h *hit) paths() []string {
	var out []string
	for _, f := range h.files {
		out = append(out, f.GetPath())
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), limits.IndexedPaths)]
}

// A described hit is one result of a search.
type described struct {
	*hit
	found *condav1.FoundPackage
}

// pageOf returns the results at the positions from offset to offset+most.
func (s *Service) pageOf(ctx context.Context, all []described, offset, most int) (*condav1.SearchPackagesResponse, error) {
	return s.page(ctx, len(all), all[min(offset, len(all)):min(offset+most, len(all))])
}

// page returns results with the descriptions of their packages in the index.
func (s *Service) page(ctx context.Context, total int, page []described) (*condav1.SearchPackagesResponse, error) {
	out := &condav1.SearchPackagesResponse{Total: proto.Int32(int32(total))}
	for _, d := range page {
		out.Packages = append(out.Packages, d.found)
	}
	return out, s.summarize(ctx, page)
}

// summarize adds to packages their summaries, home pages and licences from the index. If the
// lookup fails, they are returned without these, like packages that were never used.
func (s *Service) summarize(ctx context.Context, page []described) error {
	req := &buildv1.SummarizePackagesRequest{}
	var of []*condav1.FoundPackage
	for _, d := range page {
		if s.isIndexed(d.channel) {
			req.Packages, of = append(req.Packages, &buildv1.PackageName{Channel: d.channel.URL, Name: d.name}), append(of, d.found)
		}
	}
	if s.deps.Build == nil || len(of) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, layerTimeout)
	defer cancel()
	got, err := s.deps.Build.SummarizePackages(within, req)
	if err != nil {
		return ctx.Err()
	}
	if len(got.GetPackages()) != len(of) {
		return fmt.Errorf("of %d packages the summaries are about %d", len(of), len(got.GetPackages()))
	}
	for i, about := range got.GetPackages() {
		p := of[i]
		p.Summary, p.Home = present(about.GetSummary()), present(about.GetHome())
		if p.License == nil {
			p.License = present(about.GetLicense())
		}
	}
	return nil
}
