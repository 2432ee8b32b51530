package request

import (
	"fmt"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A sized is a string with its maximum length.
type sized struct {
	field, value string
	most         int
}

// A counted is a list with its maximum number of strings and their maximum total length.
type counted struct {
	field      string
	list       []string
	most, text int
}

// checkSizes checks the size of every string and list, whether it is used or not
// (gateway/contract/container-service.md#sizes).
func checkSizes(r *containerv1.ContainerRequest) error {
	for _, l := range lists(r) {
		if len(l.list) > l.most {
			return fault.Invalid.Newf("%s has %d entries; the maximum is %d", l.field, len(l.list), l.most)
		}
		if n := textLength(l.list); n > l.text {
			return fault.Invalid.Newf("%s is %d characters long; the maximum is %d", l.field, n, l.text)
		}
	}
	all := texts(r)
	for i, l := range r.GetContainerConfig().GetLayers() {
		all = append(all, sized{fmt.Sprintf("containerConfig.layers[%d].location", i), l.GetLocation(), longest(l)})
	}
	for _, t := range all {
		if len(t.value) > t.most {
			return fault.Invalid.Newf("%s is %d characters long; the maximum is %d", t.field, len(t.value), t.most)
		}
	}
	return nil
}

// longest returns the maximum length of a layer's location.
func longest(l *containerv1.Layer) int {
	if IsData(l.GetLocation()) {
		return limits.LayerLocation
	}
	return limits.URL
}

func texts(r *containerv1.ContainerRequest) []sized {
	o, pixi, cran := r.GetPackages().GetCondaOpts(), r.GetPackages().GetPixiOpts(), r.GetPackages().GetCranOpts()
	return []sized{
		{"packages.environmentName", r.GetPackages().GetEnvironmentName(), limits.Word},
		{"packages.cranFallback", r.GetPackages().GetCranFallback(), limits.Word},
		{"packages.condaOpts.basePackages", o.GetBasePackages(), limits.OptionText},
		{"packages.condaOpts.mambaImage", o.GetMambaImage(), limits.Name},
		{"packages.condaOpts.baseImage", o.GetBaseImage(), limits.Name},
		{"packages.pixiOpts.basePackages", pixi.GetBasePackages(), limits.OptionText},
		{"packages.pixiOpts.pixiImage", pixi.GetPixiImage(), limits.Name},
		{"packages.pixiOpts.baseImage", pixi.GetBaseImage(), limits.Name},
		{"packages.cranOpts.basePackages", cran.GetBasePackages(), limits.OptionText},
		{"packages.cranOpts.rImage", cran.GetRImage(), limits.Name},
		{"buildContext.location", r.GetBuildContext().GetLocation(), longest(r.GetBuildContext())},
		{"containerImage", r.GetContainerImage(), limits.Name},
		{"buildRepository", r.GetBuildRepository(), limits.Name},
		{"cacheRepository", r.GetCacheRepository(), limits.Name},
		{"containerConfig.workingDir", r.GetContainerConfig().GetWorkingDir(), limits.URL},
		{"containerPlatform", r.GetContainerPlatform(), limits.Word},
		{"asOf", r.GetAsOf(), limits.CondaTimeText},
		{"minAge", r.GetMinAge(), limits.CondaAgeText},
		{"timestamp", r.GetTimestamp(), limits.Word},
		{"workflowId", r.GetWorkflowId(), limits.Word},
		{"fingerprint", r.GetFingerprint(), limits.Fingerprint},
	}
}

func lists(r *containerv1.ContainerRequest) []counted {
	c, p := r.GetContainerConfig(), r.GetPackages()
	return []counted{
		{"containerConfig.env", c.GetEnv(), limits.Variables, limits.VariablesText},
		{"containerConfig.entrypoint", c.GetEntrypoint(), limits.Variables, limits.VariablesText},
		{"containerConfig.cmd", c.GetCmd(), limits.Variables, limits.VariablesText},
		{"packages.entries", p.GetEntries(), limits.PackageEntries, limits.EntriesText},
		{"packages.channels", p.GetChannels(), limits.PackageChannels, limits.OptionText},
		{"minAgeExcept", r.GetMinAgeExcept(), limits.CondaExceptions, limits.OptionText},
		{"sociPrefetch", r.GetSociPrefetch(), limits.SociPrefetch, limits.SociPrefetchText},
		{"containerIncludes", r.GetContainerIncludes(), limits.Includes, limits.Includes * limits.Name},
		{"packages.condaOpts.commands", p.GetCondaOpts().GetCommands(), limits.Variables, limits.OptionText},
		{"packages.pixiOpts.commands", p.GetPixiOpts().GetCommands(), limits.Variables, limits.OptionText},
		{"packages.cranOpts.commands", p.GetCranOpts().GetCommands(), limits.Variables, limits.OptionText},
	}
}

// textLength returns the total length of the strings with separators.
func textLength(list []string) int {
	n := max(len(list)-1, 0)
	for _, s := range list {
		n += len(s)
	}
	return n
}
