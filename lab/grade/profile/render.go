package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Names are what the texts of a profile may hold, written $KEY or ${KEY}.
//
//	KEY       the idempotency key
//	AMOUNT    the amount in minor units: 1234 is 12.34 USD
//	MAJOR     the same in major units: 12.34
//	TOKEN     the test token of the PSP, which picks what goes wrong there
//	CUSTOMER  an id of the paying customer
//	TENANT    the tenant's name
//	API_KEY   the tenant's API key
//	PAYMENT   the server's id of the payment, in the requests of others
//
// and in env:
//
//	PORT              where the server has to listen, on 127.0.0.1
//	DATABASE_URL      a fresh PostgreSQL database
//	PSP_URL           the PSP
//	PSP_SECRET        our secret there
//	WEBHOOK_SECRET    what it signs webhooks with
//	API_KEYS          key=tenant,key=tenant
func Names() []string {
	return []string{"KEY", "AMOUNT", "MAJOR", "TOKEN", "CUSTOMER", "TENANT", "API_KEY", "PAYMENT",
		"PORT", "DATABASE_URL", "PSP_URL", "PSP_SECRET", "WEBHOOK_SECRET", "API_KEYS"}
}

func unknownNames(text string) error {
	var unknown []string
	os.Expand(text, func(name string) string {
		if !slices.Contains(Names(), name) {
			unknown = append(unknown, "$"+name)
		}
		return ""
	})
	if len(unknown) > 0 {
		return fmt.Errorf("%s is not a name that can be filled in; there are $%s",
			strings.Join(unknown, ", "), strings.Join(Names(), ", $"))
	}
	return nil
}

// Values fill in a request.
type Values struct {
	Key      string
	Amount   int64 // minor units of a currency with two decimals
	Token    string
	Customer string
	Tenant   Tenant
	Payment  string
}

func (v Values) of(name string) string {
	switch name {
	case "KEY":
		return v.Key
	case "AMOUNT":
		return fmt.Sprint(v.Amount)
	case "MAJOR":
		return fmt.Sprintf("%d.%02d", v.Amount/100, v.Amount%100) //nolint:mnd // two decimals
	case "TOKEN":
		return v.Token
	case "CUSTOMER":
		return v.Customer
	case "TENANT":
		return v.Tenant.Name
	case "API_KEY":
		return v.Tenant.APIKey
	case "PAYMENT":
		return v.Payment
	}
	return ""
}

// Build makes the request to the server at base, such as http://127.0.0.1:8080.
func (r Request) Build(base string, v Values) (*http.Request, error) {
	body, err := r.body(v)
	if err != nil {
		return nil, err
	}
	url := base + os.Expand(r.Path, v.of)
	req, err := http.NewRequest(r.Method, url, bytes.NewReader(body)) //nolint:noctx // the sender adds it
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	// Go's client would send a request with an Idempotency-Key again by itself, and nobody would see that.
	req.GetBody = nil
	if len(body) == 0 {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		req.Header.Set(name, os.Expand(value, v.of))
	}
	return req, nil
}

// body fills in the texts of a JSON object one by one, so that a value cannot break it.
func (r Request) body(v Values) ([]byte, error) {
	if len(r.Body) == 0 {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(r.Body, &value); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if text, ok := value.(string); ok {
		return []byte(os.Expand(text, v.of)), nil
	}
	return json.Marshal(v.fill(value))
}

func (v Values) fill(value any) any {
	switch value := value.(type) {
	case string:
		switch value {
		case "$AMOUNT":
			return v.Amount
		case "$MAJOR":
			return json.Number(v.of("MAJOR"))
		}
		return os.Expand(value, v.of)
	case map[string]any:
		for name := range value {
			value[name] = v.fill(value[name])
		}
	case []any:
		for i := range value {
			value[i] = v.fill(value[i])
		}
	}
	return value
}

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
func (p Profile) Meaning(status int, header http.Header, body []byte) Meaning {
	return meaning(p.Answers, status, header, body)
}

// ReadMeaning is that of an answer to Read.
func (p Profile) ReadMeaning(status int, header http.Header, body []byte) Meaning {
	return meaning(p.ReadAnswers, status, header, body)
}

func meaning(rules []Rule, status int, header http.Header, body []byte) Meaning {
	for _, r := range rules {
		if r.fits(status, header, body) {
			return r.Means
		}
	}
	return None
}

func (r Rule) fits(status int, header http.Header, body []byte) bool {
	code := strconv.Itoa(status)
	if !slices.Contains(r.Status, Status(code)) && !slices.Contains(r.Status, Status(code[:1]+"xx")) {
		return false
	}
	for name, want := range r.Headers {
		got := header.Get(name)
		if is := len(header.Values(name)) > 0; is != (want != nil) || is && got != *want {
			return false
		}
	}
	if len(r.Where) == 0 {
		return true
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return false
	}
	for path, want := range r.Where {
		got := member(value, path)
		if is := got != nil; is != (want != nil) || is && fmt.Sprint(got) != *want {
			return false
		}
	}
	return true
}

// Member is a value of a JSON answer by its path, as text. It is empty for null, or if there is none.
func Member(body []byte, path string) string {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var value any
	if in.Decode(&value) != nil {
		return ""
	}
	if value = member(value, path); value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// member is a value of a JSON document by its path, such as payment.status. It is nil for null, or if there is none.
func member(value any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}
