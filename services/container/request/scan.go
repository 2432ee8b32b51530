package request

import (
	"fmt"
	"slices"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

const (
	// scanAsync requests a scan that the request does not wait for.
	scanAsync = "async"
	// ScanRequired requests a scan without which the image is not served.
	ScanRequired = "required"
)

// ScanLevels returns the severities of vulnerabilities, the most severe first.
func ScanLevels() []string { return []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", levelUnknown} }

const levelUnknown = "UNKNOWN"

// IsScanned reports whether a request asks for a scan of its image.
func IsScanned(r *containerv1.ContainerRequest) bool {
	return r.GetScanMode() == scanAsync || r.GetScanMode() == ScanRequired
}

// ToleratedLevels returns the severities that a request tolerates. Vulnerabilities without a known severity are
// tolerated with those of severity MEDIUM, since existing clients have no name for them.
func ToleratedLevels(r *containerv1.ContainerRequest) []string {
	var out []string
	for _, l := range r.GetScanLevels() {
		out = append(out, strings.ToUpper(l))
	}
	if slices.Contains(out, "MEDIUM") {
		out = append(out, levelUnknown)
	}
	return out
}

func checkScanLevels(r *containerv1.ContainerRequest) error {
	if n := len(r.GetScanLevels()); n > limits.ScanLevels {
		return fault.Invalid.Newf("scanLevels has %d severities; the maximum is %d", n, limits.ScanLevels)
	}
	for i, l := range r.GetScanLevels() {
		if err := oneOf(fmt.Sprintf("scanLevels[%d]", i), strings.ToUpper(l), ScanLevels()); err != nil || l == "" {
			return fault.Invalid.New(fmt.Sprintf("scanLevels[%d] must be one of %s, not %q", i, strings.Join(ScanLevels(), ", "), fault.Quote(l)), err)
		}
	}
	return nil
}
