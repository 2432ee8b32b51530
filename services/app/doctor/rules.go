package doctor

import (
	"context"
	"fmt"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/policy"
)

// rules checks the operator's rules, and that the user that runs slipwayd can read their keys.
func (d *doctor) rules(context.Context) []Finding {
	const check = "rules"
	c := d.Config
	if len(c.PolicyRegistries)+len(c.PolicyChannels)+len(c.PolicyLicenses)+len(c.PolicySignatures) == 0 {
		return nil
	}
	who := d.serverUser()
	for _, path := range policy.SignatureFiles(c.PolicySignatures) {
		if err := who.mayRead(path); err != nil {
			return one(check, fmt.Sprintf("policy_signatures: %s cannot read %s: %v", who, path, err), nil, Fail, "give the file to that user (chown), or correct policy_signatures")
		}
	}
	if _, err := app.PolicyRules(c); err != nil {
		return one(check, err.Error(), nil, Fail, "correct the setting; docs/operate/policy.md describes its form")
	}
	return one(check, fmt.Sprintf("the rules are valid (policy_mode %s)", c.PolicyMode), nil, OK, "")
}
