package operator

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/deadletters"
)

// token is what a plan says about itself. A plan is a text that the operator brings back. Nothing about it is stored.
// Who may run plans may also decide about each dead letter, so a plan needs no signature.
type token struct {
	Action       deadletters.Action `json:"action"`
	Kind         deadletters.Kind   `json:"kind,omitempty"`
	Tenant       string             `json:"tenant,omitempty"`
	OpenedAfter  *time.Time         `json:"openedAfter,omitempty"`
	OpenedBefore *time.Time         `json:"openedBefore"`
	Digest       []byte             `json:"digest"` // of the ids and versions of the dead letters
}

func (t token) filter() deadletters.Filter {
	return deadletters.Filter{Status: deadletters.OpenStatus, Kind: t.Kind, Tenant: t.Tenant,
		OpenedAfter: t.OpenedAfter, OpenedBefore: t.OpenedBefore}
}

func (t token) String() string {
	text, _ := json.Marshal(t, json.Deterministic(true)) // It has nothing that JSON cannot write.
	return base64.RawURLEncoding.EncodeToString(text)
}

// maxToken bounds the text of a plan.
const maxToken = 2048

func parseToken(s string) (t token, err error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(s) > maxToken {
		return token{}, ErrPlanMalformed
	}
	if err := json.Unmarshal(text, &t, json.RejectUnknownMembers(true)); err != nil || t.OpenedBefore == nil ||
		len(t.Digest) != sha256.Size || !forSeveral(t.Action) || t.String() != s ||
		strings.Contains(t.Tenant+string(t.Kind), "\x00") { // PostgreSQL would refuse it
		return token{}, ErrPlanMalformed
	}
	return t, nil
}
