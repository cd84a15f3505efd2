package idempotency

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"payonce/internal/cardnumber"
)

// The length of a client's key, in bytes. A key with fewer than 16 characters cannot hold enough randomness.
const (
	MinKeyLength = 16
	MaxKeyLength = 255
)

// minDifferent is how many different characters a key must have. A key with fewer, such as sixteen zeros, is a
// placeholder and not a random value. Another program may send the same placeholder, and would get this request's
// answer.
const minDifferent = 4

// Key is a client's Idempotency-Key in its bare form. Only ParseKey makes one.
type Key struct{ value string }

// String returns the bare form. It must not be logged.
func (k Key) String() string { return k.value }

// ErrKeyInvalid is wrapped by every error of ParseKey. The text says what to change, and never repeats the value.
var ErrKeyInvalid = errors.New("idempotency key invalid")

// cutGeneration cuts off the end of a pass-through key of a later generation: ".g" and digits. A client's own key must
// not end like this, because it could be equal to the pass-through key of another key at the PSP.
func cutGeneration(s string) (rest, digits string, found bool) {
	rest = strings.TrimRight(s, "0123456789")
	digits = s[len(rest):]
	rest, found = strings.CutSuffix(rest, ".g")
	return rest, digits, found && digits != ""
}

// emailLike reports whether s has the form of an e-mail address: one @ with something before it, and after it a domain
// that ends in a dot and at least two letters.
func emailLike(s string) bool {
	mailbox, domain, _ := strings.Cut(s, "@")
	dot := strings.LastIndexByte(domain, '.')
	if mailbox == "" || dot < 1 || strings.Contains(domain, "@") {
		return false
	}
	top := strings.ToLower(domain[dot+1:])
	return len(top) >= 2 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == ""
}

// different counts the different characters of s, which is ASCII.
func different(s string) (n int) {
	var seen ['~' + 1]bool
	for i := range len(s) {
		if !seen[s[i]] {
			seen[s[i]] = true
			n++
		}
	}
	return n
}

// ParseKey accepts 16 to 255 printable ASCII characters without spaces and commas. It refuses values that look like
// personal data, because keys get into the clients' logs and support tickets. It also refuses values with fewer than
// four different characters.
func ParseKey(s string) (Key, error) {
	if len(s) < MinKeyLength || len(s) > MaxKeyLength {
		return Key{}, fmt.Errorf("%w: it has %d characters, %d to %d are allowed", ErrKeyInvalid, len(s), MinKeyLength,
			MaxKeyLength)
	}
	for i := range len(s) {
		// A key that begins with a quote could not be told from a quoted string.
		if c := s[i]; c <= ' ' || c > '~' || c == ',' || (i == 0 && c == '"') {
			return Key{}, fmt.Errorf("%w: the character at position %d is not allowed; "+
				"use printable ASCII without spaces and commas", ErrKeyInvalid, i+1)
		}
	}
	_, _, generation := cutGeneration(s)
	switch {
	case emailLike(s):
		return Key{}, fmt.Errorf("%w: it looks like an e-mail address; use a random value such as a UUID",
			ErrKeyInvalid)
	case cardnumber.In(s):
		return Key{}, fmt.Errorf("%w: it holds a card number; use a random value such as a UUID", ErrKeyInvalid)
	case different(s) < minDifferent:
		return Key{}, fmt.Errorf("%w: it has fewer than %d different characters; use a random value such as a UUID",
			ErrKeyInvalid, minDifferent)
	case generation:
		return Key{}, fmt.Errorf("%w: the ending .g and digits is reserved", ErrKeyInvalid)
	}
	return Key{value: s}, nil
}

// Operation is what a key is for, such as "POST /payments".
type Operation string

// Ref names one key. A key is unique for one tenant and one operation.
type Ref struct {
	Tenant    string
	Operation Operation
	Key       Key
}

// StoredRef names a key that is read from a row or a job. A key that a client sends must go through ParseKey.
func StoredRef(tenant, operation, key string) Ref {
	return Ref{Tenant: tenant, Operation: Operation(operation), Key: Key{value: key}}
}

// ParsePassThrough is the reverse of Execution.PassThroughKey. It returns the client's key and its generation.
func ParsePassThrough(s string) (Key, int32, error) {
	generation := int32(1)
	if rest, digits, found := cutGeneration(s); found {
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 2 || digits != strconv.FormatInt(n, 10) { // We never write .g1 or .g02.
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

// passThrough is the key that is sent to the PSP. The first generation has the client's own key, so the PSP executes a
// repeated request once. Each later generation is a new operation, and has a key of its own.
func passThrough(k Key, generation int32) string {
	if generation == 1 {
		return k.value
	}
	return k.value + ".g" + strconv.Itoa(int(generation))
}
