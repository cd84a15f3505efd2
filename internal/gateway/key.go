package gateway

import (
	"crypto/sha256"
	"encoding/base64"
)

// hashedKeyMark ends a key that was replaced by its hash. No key of ours ends with it: the ending .g and digits is
// reserved for generations (ADR 0023), and there is no generation 0.
const hashedKeyMark = ".g0"

// shortestHash is how many characters of the hash a key must have: 162 bits.
const shortestHash = 27

// FitKey returns a key that a provider takes that allows at most longest characters. A key that fits is returned as it
// is. A longer one is replaced by its SHA-256, cut to the length, but never to less than 162 bits. Two keys that differ
// only after the limit lead to different keys: a key that is cut off would make the second payment a replay of the
// first. It panics if longest leaves no room for the hash, because then no provider of ours has such a limit.
func FitKey(key string, longest int) string {
	if longest < shortestHash+len(hashedKeyMark) {
		panic("gateway: a provider's idempotency key is too short for a hash")
	}
	if len(key) <= longest {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	return hash[:min(len(hash), longest-len(hashedKeyMark))] + hashedKeyMark
}
