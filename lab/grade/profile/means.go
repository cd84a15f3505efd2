package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (r Rule) check() error {
	if !slices.Contains([]Meaning{Paid, Declined, Failed, Pending, Again, Refused}, r.Means) {
		return fmt.Errorf("an answer means %q, must be paid, declined, failed, pending, again or refused", r.Means)
	}
	if len(r.Status) == 0 {
		return fmt.Errorf("the answer that means %s has no status, such as [\"201\"]", r.Means)
	}
	for _, s := range r.Status {
		digits := strings.TrimSuffix(string(s), "xx")
		n, err := strconv.Atoi(digits)
		class := len(s) == 3 && len(digits) == 1 && n >= 1 && n <= 5
		code := len(digits) == 3 && n >= 100 && n <= 599
		if err != nil || !class && !code {
			return fmt.Errorf("status %q is neither a code such as 201 nor a class such as 5xx", s)
		}
	}
	return nil
}

// Meaning of an answer to Pay.
func (p Profile) Meaning(status int, body []byte) Meaning { return meaning(p.Answers, status, body) }

// ReadMeaning is that of an answer to Read.
func (p Profile) ReadMeaning(status int, body []byte) Meaning {
	return meaning(p.ReadAnswers, status, body)
}

func meaning(rules []Rule, status int, body []byte) Meaning {
	for _, r := range rules {
		if r.fits(status, body) {
			return r.Means
		}
	}
	return None
}

func (r Rule) fits(status int, body []byte) bool {
	code := strconv.Itoa(status)
	if !slices.Contains(r.Status, Status(code)) && !slices.Contains(r.Status, Status(code[:1]+"xx")) {
		return false
	}
	for path, want := range r.Where {
		if got, ok := member(body, path); !ok || got != want {
			return false
		}
	}
	return true
}

// member reads a value of a JSON document by its path, such as payment.status.
func member(body []byte, path string) (string, bool) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return "", false
	}
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return "", false
		}
		if value, ok = object[name]; !ok {
			return "", false
		}
	}
	switch value.(type) {
	case map[string]any, []any:
		return "", false
	}
	return fmt.Sprint(value), true
}
