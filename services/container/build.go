package container

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// submitRecipe has the image built, unless it is there or under way.
func (s *Service) submitRecipe(ctx context.Context, c checked, who *platformv1.Identity, data contents) (answer, error) {
	p, err := s.place(ctx, c, caller.Of(who))
	if err != nil {
		return answer{}, err
	}
	job, err := s.whole(ctx, c, who, p, data.context)
	if err != nil {
		return answer{}, err
	}
	return s.order(ctx, c, who, job, data)
}

// order has the build room make an image, and gives it a name.
func (s *Service) order(ctx context.Context, c checked, who *platformv1.Identity, job *buildv1.SubmitBuildRequest, data contents) (answer, error) {
	plan := s.buildPlan(c, who, job.GetTarget())
	if n := s.excess(plan); n > 0 && !plan.GetFrozen() {
		return answer{}, fault.Invalid.Newf("buildRepository: the name of the image is %d characters too long to be served", n)
	}
	// A worker may ask for the layers as soon as the build is there.
	if err := s.keepLayers(ctx, data, plan.GetExpiration().AsTime()); err != nil {
		return answer{}, err
	}
	resp, err := s.deps.Build.SubmitBuild(ctx, job)
	if err != nil {
		return answer{}, err
	}
	out := answer{plan: plan, build: resp, request: c.raw}
	plan.BuildId, plan.Built = resp.GetBuildId(), resp.GetSucceeded()
	if strings.HasSuffix(plan.GetBuildId(), "_0") {
		return out, nil // a dry run of what nobody builds: there is nothing to pull
	}
	return out, s.keep(ctx, c.raw, plan)
}

// whole is what the build room is asked for: one build, or one for each of two
// platforms and an index over them.
func (s *Service) whole(ctx context.Context, c checked, who *platformv1.Identity, p place, context []byte) (*buildv1.SubmitBuildRequest, error) {
	if c.parts == nil {
		job, err := s.job(ctx, c, who, p)
		if err != nil {
			return nil, err
		}
		job.Recipe.ContextData = context
		if c.isSif() {
			return c.sifOf(job, p), nil
		}
		return job, nil
	}
	var parts []*buildv1.SubmitBuildRequest
	for _, part := range c.parts {
		job, err := s.job(ctx, part, who, p)
		if err != nil {
			return nil, err
		}
		job.Recipe.ContextData = context
		parts = append(parts, job)
	}
	out := proto.CloneOf(parts[0])
	out.ContentDigest = indexDigest(parts)
	out.ContentId = out.GetContentDigest()[:16]
	out.Recipe = &buildv1.Recipe{Engine: "index", Format: "oci", Platform: c.platforms(), ContainerFile: c.recipe.containerFile, CondaFile: c.recipe.condaFile}
	path, tag := c.recipe.names.ImageName(c.raw.GetNameStrategy(), out.GetContentId())
	out.Target.Repository, out.Target.Tag = p.repository+path, tag
	out.Parts = parts
	return out, nil
}

// platforms are those that were asked for, with commas.
func (c checked) platforms() string {
	if c.parts == nil {
		return c.platform.String()
	}
	var all []oci.Platform
	for _, p := range c.parts {
		all = append(all, p.platform)
	}
	return oci.Platforms(all)
}

// job asks for one build.
func (s *Service) job(ctx context.Context, c checked, who *platformv1.Identity, p place) (*buildv1.SubmitBuildRequest, error) {
	recipe := c.recipe.message(c)
	digest := contentDigest(recipe, p.registry, p.repository, p.scope)
	job := &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest,
		Recipe: recipe, Scope: p.scope, Identity: who, DryRun: c.raw.GetDryRun(),
	}
	path, tag := c.recipe.names.ImageName(c.raw.GetNameStrategy(), job.ContentId)
	job.Target = &buildv1.Target{
		Registry: p.registry, Repository: p.repository + path, Tag: tag, CacheRepository: c.raw.GetCacheRepository(),
	}
	if !p.own && s.deps.owns(p.registry, job.Target.Repository) {
		return nil, fault.Invalid.Newf("buildRepository: the image's name would belong to this service; use another nameStrategy")
	}
	if p.scope != "" {
		job.Repositories = repositories(c.recipe.images)
	}
	job.ClientIp = clientIP(ctx)
	return job, nil
}

func clientIP(ctx context.Context) string {
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		return ip.String()
	}
	return ""
}

// place is where a built image goes, and who may have it.
type place struct {
	registry, repository string
	// scope is "" for everybody.
	scope string
	// own says that it is the service's own repository.
	own bool
}

// place looks at every image that the recipe names
// (gateway/contract/container-service.md#source-images). What is built from public
// ones alone is shared; anything else belongs to its caller, and so does what is
// pushed to a user's own repository.
func (s *Service) place(ctx context.Context, c checked, who caller.ID) (place, error) {
	public, err := s.readable(ctx, who, c.recipe)
	for _, part := range c.parts {
		also := false
		if err == nil {
			also, err = s.readable(ctx, who, part.recipe)
		}
		public = public && also
	}
	if err != nil {
		return place{}, err
	}
	if repo := c.raw.GetBuildRepository(); repo != "" {
		registry, path, err := oci.ParseRepository(repo)
		return place{registry: registry, repository: path, scope: scopeOf(who)}, err
	}
	p := place{registry: s.deps.Builds.Registry, repository: s.deps.Builds.Repository, own: true}
	if !public {
		p.scope = scopeOf(who)
		p.repository += "/" + p.scope
	}
	return p, nil
}

// readable answers whether all images of a recipe are public; fault.Invalid when
// there is one that the caller cannot read.
func (s *Service) readable(ctx context.Context, who caller.ID, r *recipe) (public bool, err error) {
	public = true
	for _, image := range r.images {
		if s.deps.owns(image.Registry, image.Repository) {
			return false, missing(r.field, image, nil)
		}
		open, err := s.sources.isPublic(ctx, r.field, image)
		if err == nil && !open {
			public = false
			_, _, err = s.sources.resolve(ctx, who, r.field, image)
		}
		if err != nil {
			return false, err
		}
	}
	return public, nil
}

// repositories are those that images lie in, "<host>/<path>", each once.
func repositories(images []oci.Reference) []string {
	var out []string
	for _, image := range images {
		if name := image.Registry + "/" + image.Repository; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// message is the recipe as workers get it; without the context's bytes.
func (r *recipe) message(c checked) *buildv1.Recipe {
	out := &buildv1.Recipe{
		ContainerFile: r.containerFile, Files: r.files, Platform: c.platform.String(),
		Format: "oci", Engine: "buildkit", CondaFile: r.condaFile,
	}
	if l := c.raw.GetBuildContext(); l.GetLocation() != "" {
		out.Context = bareLayer(l)
	}
	if c.raw.GetFreeze() {
		out.Config = bare(c.raw.GetContainerConfig())
	}
	return out
}

// buildPlan says what the registry will serve. What is baked into a frozen image
// is not added again.
func (s *Service) buildPlan(c checked, who *platformv1.Identity, t *buildv1.Target) *containerv1.Plan {
	plan := &containerv1.Plan{
		Token: newToken(),
		Source: &containerv1.Source{
			Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: t.GetTag(),
		},
		Name:       t.GetRepository(),
		Reference:  t.GetTag(),
		Platform:   c.platforms(),
		Identity:   who,
		Expiration: s.expiration(),
		Frozen:     c.raw.GetFreeze(),
	}
	if c.isSif() {
		plan.Format = formatSif
	}
	if !plan.Frozen {
		plan.Config = bare(c.raw.GetContainerConfig())
	}
	return plan
}
