// Package profile says how a payment server is spoken to: what a request looks like, and what each answer means. It is
// read from a small JSON file, so that a server in any language can be graded as it is.
//
// docs/grade.md explains the file. Three profiles come with the grader: payonce, the default, plain, and demo.
package profile

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Profile is the file.
type Profile struct {
	// Name of the profile.
	Name string `json:"name"`
	// Tenants are two customers of the server. Each has an account of its own at the PSP. A server without tenants has
	// one.
	Tenants []Tenant `json:"tenants"`
	// Pay asks for a payment. The grader repeats it with the same key.
	Pay Request `json:"pay"`
	// Read asks, without any effect, what became of a key. Optional.
	Read *Request `json:"read,omitempty"`
	// Answers says what an answer to Pay means. The first rule that fits counts.
	Answers []Rule `json:"answers"`
	// ReadAnswers is the same for Read.
	ReadAnswers []Rule `json:"readAnswers,omitempty"`
	// Webhooks is the path that takes the PSP's webhooks. Optional.
	Webhooks string `json:"webhooks,omitempty"`
	// Ready is a path that answers with less than 500 when the server can serve. Without it, the server is ready when
	// it accepts a connection.
	Ready string `json:"ready,omitempty"`
	// Env are further environment variables of the server.
	Env map[string]string `json:"env,omitempty"`
	// Instances is how many processes of the server run at once on one database: 1 or 2.
	Instances int `json:"instances,omitempty"`
	// Timeout is how long a client waits for an answer.
	Timeout Duration `json:"timeout,omitempty"`
	// EndsWithin is how long a key may take to its end, when nothing is in its way any more.
	EndsWithin Duration `json:"endsWithin,omitempty"`
	// Late is how long after its request a late charge may land. The default is that of the grader's mock PSP.
	Late Duration `json:"late,omitempty"`
	// Lease is longer than any time for which one process may be the only one to execute a key.
	Lease Duration `json:"lease,omitempty"`
	// Expiry says how the end of keys is tried. Optional: the keys of some servers never end.
	Expiry *Expiry `json:"expiry,omitempty"`
	// Others says where the server shows what others do to a payment at the PSP. Optional.
	Others *Others `json:"others,omitempty"`
}

// Others are the merchant's people in the PSP's dashboard, and banks. In these requests, $PAYMENT is the server's id of
// the payment. The others are paths in the JSON of answers, such as payment.id.
type Others struct {
	Payment  string  `json:"payment"`  // the id, in the answer to Pay
	Read     Request `json:"read"`     // asks for the payment
	Returned string  `json:"returned"` // what was given back of it, in minor units
	Disputed string  `json:"disputed"` // what disputes hold of it; absent is nothing
	Refund   Request `json:"refund"`   // asks for a refund of the $AMOUNT
}

// Expiry is tried with other settings, since keys that end within seconds would disturb everything else.
type Expiry struct {
	Env   map[string]string `json:"env,omitempty"` // beside those of the profile
	After Duration          `json:"after"`         // then a key can be used for another payment
}

// Tenant is a customer of the server.
type Tenant struct {
	Name   string `json:"name"`   // also its account at the PSP
	APIKey string `json:"apiKey"` // $API_KEY in the profile
}

// Request is what is sent. Each text may hold the names that Names lists, such as $KEY.
type Request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is a JSON object, in which the text "$AMOUNT" becomes a number; or a text, for what is not JSON.
	Body json.RawMessage `json:"body,omitempty"`
}

// Rule says what an answer means.
type Rule struct {
	// Status lists codes, such as "201", or whole classes, such as "5xx".
	Status []Status `json:"status"`
	// Headers lists headers that must have these values. Where lists members of the JSON answer that must, such as
	// {"payment.status": "paid"}. With null instead of a value, the header or member must be absent.
	Headers map[string]*string `json:"headers,omitempty"`
	Where   map[string]*string `json:"where,omitempty"`
	Means   Meaning            `json:"means"`
}

// Meaning of an answer.
type Meaning string

// The meanings. Paid, Declined and Failed are final: the answer for this key never changes again.
const (
	Paid     Meaning = "paid"     // the customer was charged
	Declined Meaning = "declined" // the PSP refused the charge
	Failed   Meaning = "failed"   // the customer was not charged, and will not be under this key
	Pending  Meaning = "pending"  // not known yet: ask again with the same key
	Again    Meaning = "again"    // nothing was decided: send the same key again
	Refused  Meaning = "refused"  // the key belongs to another request
	None     Meaning = ""         // the profile has no meaning for the answer, or there was no answer
)

// Final reports whether the answer is the last word about a key.
func (m Meaning) Final() bool { return m == Paid || m == Declined || m == Failed }

// Duration is a time.Duration that is written as "1.5s".
type Duration time.Duration

// UnmarshalJSON reads a text that time.ParseDuration reads.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	err := json.Unmarshal(raw, &text)
	if err != nil {
		return fmt.Errorf(`%s is not a text such as "1.5s"`, raw)
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a span of time such as 1.5s", text)
	}
	*d = Duration(v)
	return nil
}

// Status is a code, such as 201, or a class, such as 5xx.
type Status string

// UnmarshalJSON reads a text or a number.
func (s *Status) UnmarshalJSON(raw []byte) error {
	*s = Status(strings.Trim(string(raw), `"`))
	return nil
}

//go:embed profiles/*.json
var builtIn embed.FS

// Load reads a profile that comes with the grader, by its name, or a file, by its path.
func Load(nameOrPath string) (Profile, error) {
	raw, err := builtIn.ReadFile("profiles/" + nameOrPath + ".json")
	if err != nil {
		if raw, err = os.ReadFile(nameOrPath); err != nil {
			return Profile{}, fmt.Errorf("PROFILE is neither payonce, plain nor demo, nor a file that can be read: %w", err)
		}
	}
	p, err := Parse(raw)
	if err != nil {
		return Profile{}, fmt.Errorf("profile %s: %w", nameOrPath, err)
	}
	return p, nil
}

// The defaults of a profile.
const (
	defaultTimeout = 5 * time.Second
	defaultEnds    = 20 * time.Second
	defaultLease   = 5 * time.Second
	defaultLate    = time.Second // of the grader's mock PSP
	maxInstances   = 2
	maxSpan        = 5 * time.Minute
)

// Parse reads a profile, fills in the defaults, and says everything that is wrong with it.
func Parse(raw []byte) (Profile, error) {
	var p Profile
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		return p, fmt.Errorf("read JSON: %w", err)
	}
	if in.More() {
		return p, errors.New("there is something after the JSON object")
	}
	for value, otherwise := range map[*Duration]time.Duration{
		&p.Timeout: defaultTimeout, &p.EndsWithin: defaultEnds, &p.Lease: defaultLease,
		&p.Late: defaultLate,
	} {
		if *value == 0 {
			*value = Duration(otherwise)
		}
	}
	if p.Instances == 0 {
		p.Instances = maxInstances
	}
	return p, errors.Join(p.wrong()...)
}

func (p Profile) wrong() []error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if p.Instances < 1 || p.Instances > maxInstances {
		add("instances is %d, must be 1 or 2", p.Instances)
	}
	if len(p.Tenants) < 1 || len(p.Tenants) > 2 {
		add("tenants must list one tenant or two, each with a name and an apiKey")
	}
	spans := []Duration{p.Timeout, p.EndsWithin, p.Lease, p.Late}
	if p.Expiry != nil {
		spans = append(spans, p.Expiry.After)
	}
	for _, d := range spans {
		if time.Duration(d) > maxSpan {
			add("a span of time is %s, must be at most %s", time.Duration(d), maxSpan)
		}
	}
	if len(p.Answers) == 0 {
		add("answers is empty: it says what each answer means")
	}
	if p.Read != nil && len(p.ReadAnswers) == 0 {
		add("readAnswers is empty: it says what each answer to read means")
	}
	for _, r := range append(append([]Rule{}, p.Answers...), p.ReadAnswers...) {
		if err := r.check(); err != nil {
			wrong = append(wrong, err)
		}
	}
	wrong = append(wrong, p.Pay.check("pay")...)
	if !p.Pay.names("KEY") {
		add("pay does not name $KEY, the idempotency key: each request would be a new one")
	}
	if !p.Pay.names("AMOUNT") && !p.Pay.names("MAJOR") {
		add("pay names neither $AMOUNT nor $MAJOR: charges are told apart by their amount")
	}
	if p.Read != nil {
		wrong = append(wrong, p.Read.check("read")...)
	}
	if p.Others != nil {
		wrong = append(wrong, p.Others.Read.check("others.read")...)
		wrong = append(wrong, p.Others.Refund.check("others.refund")...)
	}
	environments := []map[string]string{p.Env}
	if p.Expiry != nil {
		environments = append(environments, p.Expiry.Env)
	}
	for _, env := range environments {
		for name, value := range env {
			if err := unknownNames(value); err != nil {
				add("env %s: %w", name, err)
			}
		}
	}
	return wrong
}

// NamesToken reports whether a test token of the PSP reaches it through the server.
func (p Profile) NamesToken() bool { return p.Pay.names("TOKEN") }

func (r Request) names(name string) bool {
	all := r.Path + " " + string(r.Body)
	for _, h := range r.Headers {
		all += " " + h
	}
	found := false
	os.Expand(all, func(n string) string { found = found || n == name; return "" })
	return found
}

func (r Request) check(what string) []error {
	var wrong []error
	if r.Method == "" || !strings.HasPrefix(r.Path, "/") {
		wrong = append(wrong, fmt.Errorf("%s needs a method, and a path that begins with /", what))
	}
	texts := []string{r.Path, string(r.Body)}
	for _, h := range r.Headers {
		texts = append(texts, h)
	}
	for _, t := range texts {
		if err := unknownNames(t); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", what, err))
		}
	}
	if len(r.Body) > 0 && r.Body[0] != '{' && r.Body[0] != '"' {
		wrong = append(wrong, fmt.Errorf("%s: the body must be a JSON object or a text", what))
	}
	return wrong
}
