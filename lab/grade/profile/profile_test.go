package profile

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const small = `{"tenants":[{"name":"a","apiKey":"k"}],"pay":{"method":"POST","path":"/p","body":{"id":"$KEY","amount":"$AMOUNT"}},
	"answers":[{"status":["201"],"means":"paid"}]}`

func TestProfilesThatComeWithTheGrader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"payonce", "plain", "demo"} {
		if p, err := Load(name); err != nil || p.Name != name {
			t.Errorf("%s: name %q, %v", name, p.Name, err)
		}
	}
	if _, err := Load("nobody"); err == nil || !strings.Contains(err.Error(), "neither payonce, plain nor demo") {
		t.Errorf("a profile that is not there: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if p.Instances != 2 || time.Duration(p.Timeout) != defaultTimeout || time.Duration(p.EndsWithin) != defaultEnds ||
		time.Duration(p.Lease) != defaultLease {
		t.Errorf("the defaults are %+v", p)
	}
}

func TestWrongProfileSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for change, want := range map[[2]string]string{
		{`{"tenants"`, `{"colour":1,"tenants"`}:          "unknown field",
		{`}]}`, `}]} {}`}:                                "after the JSON object",
		{`[{"name":"a","apiKey":"k"}]`, `[]`}:            "one tenant or two",
		{`"$KEY"`, `"1"`}:                                "does not name $KEY",
		{`"$AMOUNT"`, `5`}:                               "names neither $AMOUNT nor $MAJOR",
		{`"$AMOUNT"`, `"$AMOUNT$SUM"`}:                   "$SUM is not a name",
		{`"/p"`, `"p"`}:                                  "begins with /",
		{`"paid"`, `"done"`}:                             `"done", must be paid`,
		{`["201"]`, `[]`}:                                "has no status",
		{`["201"]`, `["9xx"]`}:                           `"9xx" is neither a code`,
		{`["201"]`, `["20"]`}:                            `"20" is neither a code`,
		{`[{"status":["201"],"means":"paid"}]`, `[]`}:    "answers is empty",
		{`{"tenants"`, `{"instances":3,"tenants"`}:       "must be 1 or 2",
		{`{"tenants"`, `{"endsWithin":"1h","tenants"`}:   "must be at most 5m",
		{`{"tenants"`, `{"endsWithin":"soon","tenants"`}: "not a span of time",
		{`{"tenants"`, `{"timeout":5,"tenants"`}:         `5 is not a text such as "1.5s"`,
		{`{"tenants"`, `{"env":{"A":"$SUM"},"tenants"`}:  "env A: $SUM",
		{`{"tenants"`, `{"expiry":{"after":"1s","env":{"A":"$SUM"}},"tenants"`}:      "env A: $SUM",
		{`{"tenants"`, `{"read":{"method":"GET","path":"/x"},"tenants"`}:             "readAnswers is empty",
		{`"answers"`, `"readAnswers":[{"status":["200"],"means":"lost"}],"answers"`}: `"lost", must be`,
		{`{"id":"$KEY","amount":"$AMOUNT"}`, `["$KEY$AMOUNT"]`}:                      "a JSON object or a text",
	} {
		_, err := Parse([]byte(strings.Replace(small, change[0], change[1], 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change[1], err, want)
		}
	}
}

func TestRequestIsFilledIn(t *testing.T) {
	t.Parallel()
	v := Values{Key: `k"1`, Amount: 1205, Token: "pm_ok", Customer: "c", Tenant: Tenant{"acme", "secret"}}
	for body, want := range map[string]string{
		`{"id":"$KEY","n":"$AMOUNT","m":"$MAJOR","in":[{"t":"x $TOKEN"}]}`: `{"id":"k\"1","in":[{"t":"x pm_ok"}],"m":12.05,"n":1205}`,
		`"a=$AMOUNT&t=${TENANT}&c=$CUSTOMER"`:                              "a=1205&t=acme&c=c",
		``:                                                                 "",
	} {
		r := Request{Method: "POST", Path: "/p/$TENANT", Headers: map[string]string{"X-Key": "$API_KEY"},
			Body: json.RawMessage(body)}
		req, err := r.Build("http://server", v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(req.Body)
		if err != nil || string(got) != want || req.URL.Path != "/p/acme" || req.Header.Get("X-Key") != "secret" {
			t.Errorf("%s: %s, %s, %v", body, got, req.URL, err)
		}
		if req.GetBody != nil {
			t.Error("the client of Go could send the request twice")
		}
	}
}

func TestMeaningOfAnAnswer(t *testing.T) {
	t.Parallel()
	p := Profile{Answers: []Rule{
		{Status: []Status{"200"}, Where: map[string]*string{"payment.state": new("paid"), "n": new("1")}, Means: Paid},
		{Status: []Status{"200"}, Where: map[string]*string{"payment.state": new("no")}, Means: Declined},
		{Status: []Status{"409", "5xx"}, Means: Again},
	}}
	for answer, want := range map[string]Meaning{
		`200 {"payment":{"state":"paid"},"n":1}`:  Paid,
		`200 {"payment":{"state":"paid"},"n":2}`:  None,
		`200 {"payment":{"state":"no"}}`:          Declined,
		`200 {"payment":"no"}`:                    None,
		`200 not JSON`:                            None,
		`200 {"payment":{"state":{"a":1}},"n":1}`: None,
		`503 whatever`:                            Again,
		`409 `:                                    Again,
		`418 I am a teapot`:                       None,
	} {
		status, body, _ := strings.Cut(answer, " ")
		code := map[string]int{"200": 200, "503": 503, "409": 409, "418": 418}[status]
		if got := p.Meaning(code, nil, []byte(body)); got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}

// A server may tell a replay, or a request under way, by a header alone, or by a member that is not there.
func TestMeaningByAHeaderAndByWhatIsAbsent(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(strings.Replace(small, `{"status":["201"],"means":"paid"}`,
		`{"status":["201"],"headers":{"x-state":"busy"},"means":"pending"},
		{"status":["201"],"headers":{"Retry-After":null},"where":{"error":null,"payment.id":"1"},"means":"paid"}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		header, value, body string
		want                Meaning
	}{
		{"X-State", "busy", `{"payment":{"id":1}}`, Pending},
		{"X-State", "done", `{"payment":{"id":1}}`, Paid},
		{"X-Other", "busy", `{"payment":{"id":1},"error":null}`, Paid},
		{"X-Other", "busy", `{"payment":{"id":1},"error":""}`, None},
		{"X-Other", "busy", `{"payment":{"id":1},"error":{"code":1}}`, None},
		{"Retry-After", "1", `{"payment":{"id":1}}`, None},
		{"X-State", "done", `not JSON`, None},
	} {
		if got := p.Meaning(201, http.Header{c.header: {c.value}}, []byte(c.body)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestFinalMeanings(t *testing.T) {
	t.Parallel()
	final := map[Meaning]bool{Paid: true, Declined: true, Failed: true}
	for _, m := range []Meaning{Paid, Declined, Failed, Pending, Again, Refused, None} {
		if m.Final() != final[m] {
			t.Errorf("%q: final is %v", m, m.Final())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"pay":{"body":"$"},"answers":[{"status":["xx"]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if err != nil {
			return
		}
		req, err := p.Pay.Build("http://127.0.0.1", Values{Key: "k", Amount: 1})
		if err != nil {
			t.Skip(err) // such as a header or a method that HTTP does not know
		}
		if req.GetBody != nil {
			t.Error("the request could be sent twice")
		}
		p.Meaning(200, nil, raw)
	})
}
