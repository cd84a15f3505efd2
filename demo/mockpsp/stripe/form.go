package stripe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxBodyBytes     = 64 << 10
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// params are the parameters of a request, which its endpoint has checked.
type params struct{ values url.Values }

// readParams takes them from the query and from the form-encoded body, whatever the method is.
func readParams(w http.ResponseWriter, r *http.Request) (*params, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, apiError{status: http.StatusRequestEntityTooLarge, kind: invalidRequest,
			message: fmt.Sprintf("The body is larger than %d bytes.", maxBodyBytes)}
	}
	if err != nil {
		return nil, invalid("", "The body could not be read.")
	}
	encoded := r.URL.RawQuery + "&" + string(body)
	values, err := url.ParseQuery(encoded)
	if err != nil || !utf8.ValidString(encoded) {
		return nil, invalid("", "The parameters are not form-encoded.")
	}
	return &params{values}, nil
}

// canonical is the same for two requests exactly if their parameters are.
func (p *params) canonical() string { return p.values.Encode() }

// text returns the last value, or nothing.
func (p *params) text(name string) string {
	given := p.values[name]
	if len(given) == 0 {
		return ""
	}
	return given[len(given)-1]
}

// number returns 0 if there is none.
func (p *params) number(name string) int64 {
	n, _ := strconv.ParseInt(p.text(name), 10, 64)
	return n
}

// texts returns name[] and name[0], name[1] and so on.
func (p *params) texts(name string) (all []string) {
	for _, given := range slices.Sorted(maps.Keys(p.values)) {
		if indexed.ReplaceAllString(given, "") == name {
			all = append(all, p.values[given]...)
		}
	}
	return all
}

// metadata returns metadata[key]=value as a map. An empty value stands for no member, as Stripe has it.
func (p *params) metadata() map[string]string {
	all := map[string]string{}
	for name := range p.values {
		key, ok := strings.CutPrefix(name, "metadata[")
		if value := p.text(name); ok && value != "" {
			all[strings.TrimSuffix(key, "]")] = value
		}
	}
	return all
}

// form is what the value of a parameter may be.
type form struct {
	says  string // on the page
	check func(name, value string) error
}

func text() form { return form{"any text", func(string, string) error { return nil }} }

func number(least, most int64) form {
	return form{fmt.Sprintf("a whole number, %d to %d", least, most), between(least, most)}
}

// between takes whole numbers in a range.
func between(least, most int64) func(name, value string) error {
	return func(name, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return invalidCode("parameter_invalid_integer", name, "Invalid integer: "+value)
		}
		if n < least || n > most {
			return invalidCode("parameter_invalid_integer", name,
				fmt.Sprintf("This value must be between %d and %d.", least, most))
		}
		return nil
	}
}

func oneOf(known ...string) form {
	return form{"`" + strings.Join(known, "`, `") + "`", func(name, value string) error {
		if slices.Contains(known, value) {
			return nil
		}
		return invalid(name, fmt.Sprintf("Invalid %s: must be one of %s", name, strings.Join(known, ", ")))
	}}
}

func checkMetadata(name, value string) error {
	key := strings.TrimSuffix(strings.TrimPrefix(name, "metadata["), "]")
	if key == "" || len(key) > maxMetadataKey || strings.ContainsAny(key, "[]") {
		return invalid(name, fmt.Sprintf("Metadata keys can have up to %d characters, and no square brackets.",
			maxMetadataKey))
	}
	if utf8.RuneCountInString(value) > maxMetadataValue {
		return invalid(name, fmt.Sprintf("Metadata values can have up to %d characters.", maxMetadataValue))
	}
	return nil
}
