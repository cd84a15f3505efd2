package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint is the SHA-256 of the canonical form of a request. Two requests that ask for the same have the same
// fingerprint, even if their JSON texts differ.
type Fingerprint [sha256.Size]byte

// String gives lower-case hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// FingerprintOf digests a request with its method and path. Before that, the defaults must be applied and absent
// members left out. Otherwise an omitted member and its default would have different fingerprints.
func FingerprintOf(method, path string, request any) (Fingerprint, error) {
	canonical, err := Canonical(method, path, request)
	if err != nil {
		return Fingerprint{}, err
	}
	return sha256.Sum256(canonical), nil
}

// Canonical is the input of a fingerprint: JSON in the form of RFC 8785 (JCS). Integers above 2^53 have no exact form
// there, so the validation must refuse them: no such request is ever stored.
func Canonical(method, path string, request any) ([]byte, error) {
	raw, err := json.Marshal(struct {
		Method  string `json:"method"`
		Path    string `json:"path"`
		Request any    `json:"request"`
	}{method, path, request}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("marshal request: %w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonicalize request: %w", err)
	}
	return canonical, nil
}
