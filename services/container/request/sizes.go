package request

import (
	"fmt"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// sized is a text and how long it may be.
type sized struct {
	field, value string
	most         int
}

// counted is a list, how many texts it may hold, and how long they may be together.
type counted struct {
	field      string
	list       []string
	most, text int
}

// checkSizes holds every text and every list to its bound, whatever becomes of it
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

// longest is how long a layer's location may be.
func longest(l *containerv1.Layer) int {
	if strings.HasPrefix(l.GetLocation(), DataPrefix) {
		return limits.LayerLocation
	}
	return limits.URL
}

func texts(r *containerv1.ContainerRequest) []sized {
	o := r.GetPackages().GetCondaOpts()
	return []sized{
		{"packages.condaOpts.basePackages", o.GetBasePackages(), limits.OptionText},
		{"packages.condaOpts.mambaImage", o.GetMambaImage(), limits.Name},
		{"packages.condaOpts.baseImage", o.GetBaseImage(), limits.Name},
		{"buildContext.location", r.GetBuildContext().GetLocation(), longest(r.GetBuildContext())},
		{"containerImage", r.GetContainerImage(), limits.Name},
		{"buildRepository", r.GetBuildRepository(), limits.Name},
		{"cacheRepository", r.GetCacheRepository(), limits.Name},
		{"containerConfig.workingDir", r.GetContainerConfig().GetWorkingDir(), limits.URL},
		{"containerPlatform", r.GetContainerPlatform(), limits.Word},
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
		{"containerIncludes", r.GetContainerIncludes(), limits.Includes, limits.Includes * limits.Name},
		{"packages.condaOpts.commands", p.GetCondaOpts().GetCommands(), limits.Variables, limits.OptionText},
	}
}

// textLength is that of the texts with a separator after each but the last.
func textLength(list []string) int {
	n := max(len(list)-1, 0)
	for _, s := range list {
		n += len(s)
	}
	return n
}
