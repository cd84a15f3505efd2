package query

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/problem"
)

// read is what a list reads of a query.
type read struct {
	limit         int
	text          string
	word          string
	after, before *time.Time
}

func readAll(q *Query) read {
	r := read{limit: q.Limit(), text: q.Text("text"), word: OneOf(q, "word", "a", "b", "c")}
	r.after, r.before = q.Between("after", "before")
	return r
}

func TestEachMistakeIsNoted(t *testing.T) {
	t.Parallel()
	const badText = "must be 1 to 255 characters, and no control characters"
	const form = "must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z"
	for raw, want := range map[string]problem.Detail{
		"":                            {},
		"text=a%20b&word=c&limit=100": {},
		"%":                           {Parameter: "query", Detail: "is not a valid query string"},
		"limit=1&limit=1":             {Parameter: "limit", Detail: "is given twice"},
		"secret=1":                    {Parameter: "query", Detail: "has a parameter other than limit, text, word, after, before"},
		"limit=0":                     {Parameter: "limit", Detail: "must be an integer from 1 to 100"},
		"limit=101":                   {Parameter: "limit", Detail: "must be an integer from 1 to 100"},
		"limit=":                      {Parameter: "limit", Detail: "must be an integer from 1 to 100"},
		"text=":                       {Parameter: "text", Detail: badText},
		"text=%ff":                    {Parameter: "text", Detail: badText},
		"text=%7F":                    {Parameter: "text", Detail: badText},
		"text=" + strings.Repeat("x", 256): {
			Parameter: "text", Detail: badText},
		"word=": {Parameter: "word", Detail: "must be a, b or c"},
		"after=0000-01-01T00:00:00Z&before=9999-12-31T23:59:59.999999999Z": {},
		"after=0000-01-01T00:00:00%2B01:00":                                {Parameter: "after", Detail: form},
		"before=9999-12-31T23:59:59-01:00":                                 {Parameter: "before", Detail: form},
		"before=2026-11-20":                                                {Parameter: "before", Detail: form},
		"after=2026-11-20T09:30:00Z&before=2026-11-20T09:30:00Z": {
			Parameter: "before", Detail: "must be later than after"},
	} {
		q := Parse(raw)
		readAll(q)
		bad := q.Bad()
		var got problem.Detail
		if len(bad) > 0 {
			got = bad[0]
		}
		if diff := cmp.Diff(want, got); diff != "" || len(bad) > 1 {
			t.Errorf("%q is refused otherwise (-want +got):\n%s%v", raw, diff, bad)
		}
	}
}

// What is read without a mistake is within its bounds, and is what the query says.
func FuzzQuery(f *testing.F) {
	f.Add("limit=7&text=x&word=a&after=2026-11-20T09:30:00Z")
	f.Fuzz(func(t *testing.T, raw string) {
		q := Parse(raw)
		r := readAll(q)
		if len(q.Bad()) > 0 {
			return
		}
		values, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("%q is no query", raw)
		}
		for name, given := range values {
			if !strings.Contains(" limit text word after before ", " "+name+" ") || len(given) != 1 {
				t.Fatalf("%q has %q", raw, name)
			}
		}
		if r.limit < 1 || r.limit > MaxPage || r.text != values.Get("text") || strings.ContainsAny(r.text, "\x00\n") ||
			r.word != values.Get("word") || r.after != nil && r.before != nil && !r.after.Before(*r.before) {
			t.Fatalf("%q is read as %+v", raw, r)
		}
	})
}
