package idempotency

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"payonce/internal/cardnumber"
)

// Length of a client's key, in bytes. Sixteen characters are the least that can hold enough randomness.
const (
	MinKeyLength = 16
	MaxKeyLength = 255
)

// minDifferent is how many different characters a key has at least. One with fewer was filled in, not drawn, such as sixteen zeros: the
// next program that fills a key in would get this one's answer.
const minDifferent = 4

// Key is a client's Idempotency-Key in its bare form. Only ParseKey makes one.
type Key struct{ value string }

// String gives the bare form. It must not reach a log.
func (k Key) String() string { return k.value }

// ErrKeyInvalid is what every refusal of ParseKey wraps. Its text says what to change, and never repeats the value.
var ErrKeyInvalid = errors.New("idempotency key invalid")

// cutGeneration cuts off what the pass-through key of a later generation ends in: ".g" and digits. A client's own key may not
// end so: it could meet the pass-through key of another one at the PSP.
func cutGeneration(s string) (rest, digits string, found bool) {
	rest = strings.TrimRight(s, "0123456789")
	digits = s[len(rest):]
	rest, found = strings.CutSuffix(rest, ".g")
	return rest, digits, found && digits != ""
}

// emailLike: one @ with something before it, and behind it a domain that ends in a dot and two letters or more.
func emailLike(s string) bool {
	mailbox, domain, found := strings.Cut(s, "@")
	dot := strings.LastIndexByte(domain, '.')
	if !found || mailbox == "" || dot < 1 || strings.Contains(domain, "@") {
		return false
	}
	top := strings.ToLower(domain[dot+1:])
	return len(top) >= 2 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == ""
}

// different counts the different characters of s, which is ASCII.
func different(s string) int {
	var seen [2]uint64
	for i := range len(s) {
		seen[s[i]>>6&1] |= 1 << (s[i] & 63)
	}
	return bits.OnesCount64(seen[0]) + bits.OnesCount64(seen[1])
}

// ParseKey accepts 16 to 255 printable ASCII characters without spaces and commas.
// Values that look like personal data are refused: keys end up in logs and support tickets of clients. So are values of fewer than four different
// characters.
func ParseKey(s string) (Key, error) {
	if len(s) < MinKeyLength || len(s) > MaxKeyLength {
		return Key{}, fmt.Errorf("%w: it has %d characters, %d to %d are allowed", ErrKeyInvalid, len(s), MinKeyLength, MaxKeyLength)
	}
	for i := range len(s) {
		// A leading quote would make the bare form read as the quoted one.
		if c := s[i]; c <= ' ' || c > '~' || c == ',' || (i == 0 && c == '"') {
			return Key{}, fmt.Errorf("%w: the character at position %d is not allowed; "+
				"use printable ASCII without spaces and commas", ErrKeyInvalid, i+1)
		}
	}
	_, _, generation := cutGeneration(s)
	switch {
	case emailLike(s):
		return Key{}, fmt.Errorf("%w: it looks like an e-mail address; use a random value such as a UUID", ErrKeyInvalid)
	case cardnumber.In(s):
		return Key{}, fmt.Errorf("%w: it holds a card number; use a random value such as a UUID", ErrKeyInvalid)
	case different(s) < minDifferent:
		return Key{}, fmt.Errorf("%w: it has fewer than %d different characters; use a random value such as a UUID", ErrKeyInvalid, minDifferent)
	case generation:
		return Key{}, fmt.Errorf("%w: the ending .g and digits is reserved", ErrKeyInvalid)
	}
	return Key{value: s}, nil
}

// Operation is what a key is for, such as "POST /payments".
type Operation string

// Ref names one key: it is unique per tenant and operation.
type Ref struct {
	Tenant    string
	Operation Operation
	Key       Key
}

// StoredRef names a key as a row or a job has it. What a client sends goes through ParseKey.
func StoredRef(tenant, operation, key string) Ref {
	return Ref{Tenant: tenant, Operation: Operation(operation), Key: Key{value: key}}
}

// ParsePassThrough is the reverse of Execution.PassThroughKey: the client's key and its generation.
func ParsePassThrough(s string) (Key, int32, error) {
	generation := int32(1)
	if rest, digits, found := cutGeneration(s); found {
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 2 || digits != strconv.FormatInt(n, 10) { // nothing of ours ends in .g1 or .g02
			return Key{}, 0, ErrKeyInvalid
		}
		generation, s = int32(n), rest
	}
	key, err := ParseKey(s)
	if err != nil {
		return Key{}, 0, err
	}
	return key, generation, nil
}

// passThrough is the key as the PSP sees it: the client's own for the first generation, so that a repeated send
// can never execute twice, and another one for each later generation, which is a new operation.
func passThrough(k Key, generation int32) string {
	if generation == 1 {
		return k.value
	}
	return k.value + ".g" + strconv.Itoa(int(generation))
}
