package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payonce/internal/idempotency"
)

func TestKeyIsOneInBothForms(t *testing.T) {
	t.Parallel()
	const key = "0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44"
	for sent, want := range map[string]string{
		key:                         key,
		`"` + key + `"`:             key,
		`"` + key + `" `:            key,
		`"a\"quote-0123456789"`:     `a"quote-0123456789`,
		`a"quote-0123456789`:        `a"quote-0123456789`,
		`"back\\slash-012345"`:      `back\slash-012345`,
		`back\slash-012345`:         `back\slash-012345`,
		"0123456789abcdef":          "0123456789abcdef",
		strings.Repeat("keys.", 51): strings.Repeat("keys.", 51),
		"!#$%&'()*+-./:;<=>?@[]^":   "!#$%&'()*+-./:;<=>?@[]^",
	} {
		got, err := keyOf(http.Header{keyHeader: {sent}})
		if err != nil || got.String() != want {
			t.Errorf("%s reads %q, %v; want %q", sent, got, err, want)
		}
	}
}

func TestKeyThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]string{
		"15 characters":             {"0123456789abcde"},
		"256 characters":            {strings.Repeat("k", 256)},
		"15 in quotes":              {`"0123456789abcde"`},
		"256 in quotes":             {`"` + strings.Repeat("k", 256) + `"`},
		"space":                     {"0123456789 abcdef"},
		"space in quotes":           {`"0123456789 abcdef"`},
		"tab":                       {"0123456789\tabcdef"},
		"comma":                     {"0123456789,abcdef"},
		"comma in quotes":           {`"0123456789,abcdef"`},
		"two in one header":         {`"0123456789abcdef", "0123456789abcdeg"`},
		"repeated":                  {"0123456789abcdef", "0123456789abcdef"},
		"repeated, once empty":      {"0123456789abcdef", ""},
		"not ASCII":                 {"0123456789abcdé"},
		"control character":         {"0123456789abc\x7f\x01"},
		"parameters":                {`"0123456789abcdef";v=1`},
		"no end of the quotes":      {`"0123456789abcdef`},
		"only a beginning of them":  {`"`},
		"empty quotes":              {`""`},
		"a quote in quotes, first":  {`"\"0123456789abcdef"`},
		"a token of RFC 8941":       {`"0123456789abcdef"x`},
		"an inner list of RFC 8941": {`("0123456789abcdef")x `},
		"e-mail":                    {"someone@example.com"},
		"e-mail in quotes":          {`"someone@example.com"`},
		"card number":               {"4111111111111111"},
		"card number in groups":     {"4111-1111-1111-1111"},
		"card number inside":        {"order-4111111111111111-1"},
		"three characters":          {"abcabcabcabcabcabc"},
		"a later generation's":      {"0123456789abcdef.g2"},
	} {
		got, err := keyOf(http.Header{keyHeader: sent})
		if !errors.Is(err, idempotency.ErrKeyInvalid) {
			t.Errorf("%s: %q, %v", name, got, err)
			continue
		}
		for _, s := range sent {
			if bare := strings.Trim(s, `"`); len(bare) > 3 && strings.Contains(err.Error(), bare) {
				t.Errorf("%s: the refusal repeats the value: %v", name, err)
			}
		}
	}
	for _, none := range [][]string{nil, {}, {""}} {
		if _, err := keyOf(http.Header{keyHeader: none}); !errors.Is(err, errKeyMissing) {
			t.Errorf("%q: %v, want missing", none, err)
		}
	}
}

func TestPreferenceIsReadAsTheRFCSays(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]preference{
		"":                            {},
		"respond-async":               {async: true},
		"Respond-Async":               {async: true},
		" respond-async ":             {async: true},
		"respond-async; foo=bar":      {async: true},
		"wait=5":                      {wait: 5 * time.Second, chosen: true},
		"WAIT=5":                      {wait: 5 * time.Second, chosen: true},
		"wait = 5":                    {wait: 5 * time.Second, chosen: true},
		`wait="5"`:                    {wait: 5 * time.Second, chosen: true},
		"wait=0":                      {chosen: true},
		"wait=10":                     {wait: 10 * time.Second, chosen: true},
		"wait=11":                     {wait: 10 * time.Second, chosen: true},
		"wait=2147483647":             {wait: 10 * time.Second, chosen: true},
		"wait=9223372036854775808":    {},
		"wait=-1":                     {},
		"wait=1.5":                    {},
		"wait=":                       {},
		"wait":                        {},
		"wait=abc":                    {},
		"wait=3, wait=7":              {wait: 3 * time.Second, chosen: true},
		"wait=x, wait=7":              {wait: 7 * time.Second, chosen: true},
		"respond-async, wait=4":       {async: true, wait: 4 * time.Second, chosen: true},
		"wait=4;respond-async":        {wait: 4 * time.Second, chosen: true},
		"return=minimal":              {},
		"return=minimal, wait=2":      {wait: 2 * time.Second, chosen: true},
		"respond-asynchronously":      {},
		"no-respond-async":            {},
		",,,":                         {},
		";;==":                        {},
		"foo=bar;baz, respond-async;": {async: true},
	} {
		if got := preferenceOf(http.Header{"Prefer": {sent}}); got != want {
			t.Errorf("%q is %+v, want %+v", sent, got, want)
		}
	}
	if got := preferenceOf(http.Header{"Prefer": {"wait=2", "respond-async", "wait=9"}}); got != (preference{true,
		2 * time.Second, true}) {
		t.Errorf("several headers are %+v", got)
	}
}

func TestBearerTokenIsReadFromOneHeader(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		sent []string
		want string // empty: there is none
	}{
		"ordinary": {[]string{"Bearer abc"}, "abc"}, "another case": {[]string{"bEARER abc"}, "abc"},
		"two spaces": {[]string{"Bearer  abc"}, "abc"},
		"none":       {nil, ""}, "empty": {[]string{""}, ""}, "no token": {[]string{"Bearer"}, ""},
		"a space for a token": {[]string{"Bearer  "}, ""},
		"another scheme":      {[]string{"Basic abc"}, ""}, "no scheme": {[]string{" abc"}, ""},
		"a longer scheme": {[]string{"Bearers abc"}, ""},
		"repeated":        {[]string{"Bearer abc", "Bearer abc"}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Authorization"] = row.sent
		if got, ok := bearer(r); ok != (row.want != "") || ok && got != row.want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}
