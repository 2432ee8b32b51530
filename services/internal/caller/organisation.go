package caller

import (
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// maxOrganisation is the maximum length of an organisation in bytes, as of host names (RFC
// 1035).
const maxOrganisation = 253

// Organisation returns the organisation that a user's work is counted for: the domain of
// the e-mail address in lower case. It returns "" for an anonymous caller and for invalid
// addresses.
func Organisation(id *platformv1.Identity) string {
	email := id.GetEmail()
	org := strings.ToLower(email[strings.LastIndexByte(email, '@')+1:])
	if org == strings.ToLower(email) || len(org) > maxOrganisation {
		return ""
	}
	return org
}
