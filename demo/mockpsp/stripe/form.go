package stripe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxBodyBytes     = 64 << 10
	maxParameters    = 200
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// params are the parameters of a request, of its query or its form-encoded body. Each reader notes what it has read, so
// that [params.rest] can refuse what nobody knows.
type params struct {
	values url.Values
	read   map[string]bool
	err    error // what is wrong first
}

// fail notes what is wrong. Only the first that is wrong is said.
func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func readParams(w http.ResponseWriter, r *http.Request) (*params, error) {
	encoded := r.URL.RawQuery
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return nil, apiError{status: http.StatusRequestEntityTooLarge, kind: invalidRequest,
				message: fmt.Sprintf("The body is larger than %d bytes.", maxBodyBytes)}
		}
		if err != nil {
			return nil, invalid("", "The body could not be read.")
		}
		encoded = string(body)
	}
	values, err := url.ParseQuery(encoded)
	if err != nil || !utf8.ValidString(encoded) {
		return nil, invalid("", "The parameters are not form-encoded.")
	}
	if len(values) > maxParameters {
		return nil, invalid("", fmt.Sprintf("There are more than %d parameters.", maxParameters))
	}
	return &params{values: values, read: map[string]bool{}}, nil
}

// canonical is the same for two requests exactly if their parameters are.
func (p *params) canonical() string { return p.values.Encode() }

func (p *params) has(name string) bool { return p.text(name) != "" }

// text returns the last value, or nothing.
func (p *params) text(name string) string {
	p.read[name] = true
	given := p.values[name]
	if len(given) == 0 {
		return ""
	}
	return given[len(given)-1]
}

func (p *params) flag(name string) bool {
	switch text := p.text(name); text {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	default:
		p.fail(invalid(name, "Invalid boolean: "+text))
		return false
	}
}

// number returns 0 if there is none.
func (p *params) number(name string) int64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.fail(invalidCode("parameter_invalid_integer", name, "Invalid integer: "+text))
	}
	return n
}

// oneOf returns a text that is empty or one of a few.
func (p *params) oneOf(name string, known ...string) string {
	text := p.text(name)
	if text != "" && !slices.Contains(known, text) {
		p.fail(invalid(name, fmt.Sprintf("Invalid %s: must be one of %s", name, strings.Join(known, ", "))))
	}
	return text
}

// texts returns name[] and name[0], name[1] and so on.
func (p *params) texts(name string) []string {
	all := slices.Clone(p.values[name+"[]"])
	p.read[name+"[]"] = true
	for i := range maxParameters {
		at := fmt.Sprintf("%s[%d]", name, i)
		if given := p.values[at]; len(given) > 0 {
			p.read[at] = true
			all = append(all, given[0])
		}
	}
	return all
}

// metadata returns metadata[key]=value as a map. An empty value stands for no member, as Stripe has it.
func (p *params) metadata() map[string]string {
	metadata := map[string]string{}
	for name, given := range p.values {
		key, ok := strings.CutPrefix(name, "metadata[")
		if !ok || !strings.HasSuffix(key, "]") {
			continue
		}
		p.read[name] = true
		key = strings.TrimSuffix(key, "]")
		value := given[len(given)-1]
		if key == "" || len(key) > maxMetadataKey || strings.ContainsAny(key, "[]") {
			p.fail(invalid(name, fmt.Sprintf("Metadata keys can have up to %d characters, and no square brackets.",
				maxMetadataKey)))
		}
		if utf8.RuneCountInString(value) > maxMetadataValue {
			p.fail(invalid(name, fmt.Sprintf("Metadata values can have up to %d characters.", maxMetadataValue)))
		}
		if value != "" {
			metadata[key] = value
		}
	}
	if len(metadata) > maxMetadata {
		p.fail(invalid("metadata", fmt.Sprintf("You can have up to %d keys of metadata.", maxMetadata)))
	}
	return metadata
}

// rest returns what is wrong, also parameters that nobody has read. Ignored ones, and all that are nested in them, are
// known to Stripe and mean nothing here.
func (p *params) rest(ignored ...string) error {
	ignored = append(ignored, "expand")
	for name := range p.values {
		outer, _, _ := strings.Cut(name, "[")
		if !p.read[name] && !slices.Contains(ignored, outer) {
			p.fail(invalidCode("parameter_unknown", name, "Received unknown parameter: "+name))
		}
	}
	return p.err
}
