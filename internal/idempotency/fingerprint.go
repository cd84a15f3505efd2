package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint is the SHA-256 of the canonical form of what was asked. Equal intent gives an equal fingerprint, however the
// request was spelt.
type Fingerprint [sha256.Size]byte

// String gives lower-case hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// FingerprintOf digests a validated request with its method and path. Defaults must have been applied and absent members
// left out before, since they are part of the intent and not of the spelling.
func FingerprintOf(method, path string, request any) (Fingerprint, error) {
	canonical, err := Canonical(method, path, request)
	if err != nil {
		return Fingerprint{}, err
	}
	return sha256.Sum256(canonical), nil
}

// Canonical is the form that a fingerprint digests: JSON by RFC 8785 (JCS). Integers beyond 2^53 have no exact form
// there; the validation before admits none. A request that writes it by itself is taken at its word.
func Canonical(method, path string, request any) ([]byte, error) {
	if r, ok := request.(selfCanonical); ok {
		return enclose(method, path, r)
	}
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

// selfCanonical is a request on the hot path, for which neither reflection nor sorting is worth the time.
type selfCanonical interface {
	AppendCanonical(b []byte) ([]byte, error)
}

// usual is room for the canonical form of most requests, in bytes.
const usual = 512

// enclose writes what Canonical does, around a request that is canonical already.
func enclose(method, path string, request selfCanonical) ([]byte, error) {
	b := append(make([]byte, 0, usual), `{"method":`...)
	b, err := jsontext.AppendQuote(b, method)
	if err == nil {
		b, err = jsontext.AppendQuote(append(b, `,"path":`...), path)
	}
	if err == nil {
		b, err = request.AppendCanonical(append(b, `,"request":`...))
	}
	if err != nil {
		return nil, fmt.Errorf("canonicalize request: %w", err)
	}
	return append(b, '}'), nil
}
